//! Explains the rights of a broadcast: the defaults, rules and override that apply, and which of them decides.

use std::sync::Arc;

use super::model::Livestream;
use super::rules::{Effects, RightsDraft, Rule};
use super::snapshot::CatalogSnapshot;
use crate::schedule::{Broadcast, BroadcastRights};
use playgate_types::LivestreamId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Livestream,
    Rule(usize, Arc<Rule>),
    Broadcast,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    pub source: Source,
    pub effects: Effects,
    /// `None` if the layer applies.
    pub mismatch: Option<&'static str>,
}

pub struct ExplainedRight {
    pub livestream: Arc<Livestream>,
    /// The livestream's defaults, the rules for it in order, the broadcast's override. The last layer
    /// that applies and sets a right decides it.
    pub layers: Vec<Layer>,
    pub rights: BroadcastRights,
}

impl ExplainedRight {
    pub fn winner(&self, says: impl Fn(&Effects) -> bool) -> Option<&Layer> {
        // The last layer wins.
        let mut applying = self.layers.iter().rev();
        applying.find(|layer| layer.mismatch.is_none() && says(&layer.effects))
    }
}

impl CatalogSnapshot {
    /// Evaluates rights like [`Rights::rights`](crate::schedule::Rights::rights), and returns the layers.
    pub fn explain(
        &self,
        livestream: &LivestreamId,
        broadcast: &Broadcast,
    ) -> Option<ExplainedRight> {
        let livestream = Arc::clone(self.livestream(livestream)?);
        let mut layers = vec![Layer {
            source: Source::Livestream,
            effects: Effects::defaults_of(&livestream),
            mismatch: None,
        }];
        // Numbered like the rules that an edit removes.
        for (rule, number) in self.rules().zip(1..) {
            // Rules for other livestreams are left out. Rules that do not match are listed with the reason.
            if rule.condition.concerns(&livestream.id) {
                layers.push(Layer {
                    source: Source::Rule(number, Arc::clone(rule)),
                    effects: rule.effects,
                    mismatch: rule.condition.mismatch(&livestream, broadcast),
                });
            }
        }
        layers.extend(
            self.contents
                .broadcasts
                .get(&broadcast.id)
                .map(|effects| Layer {
                    source: Source::Broadcast,
                    effects: *effects,
                    mismatch: None,
                }),
        );
        let mut draft = RightsDraft::from_livestream(&livestream);
        for layer in layers.iter().filter(|layer| layer.mismatch.is_none()) {
            draft.apply(&layer.effects);
        }
        Some(ExplainedRight {
            rights: draft.rights(broadcast),
            livestream,
            layers,
        })
    }
}
