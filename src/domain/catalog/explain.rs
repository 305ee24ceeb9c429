//! The rights of a broadcast explained, for an operator who wonders: what was said, by whom, and
//! whose word counts.

use std::sync::Arc;

use super::model::Livestream;
use super::rules::{Draft, Effects, Rule};
use super::snapshot::Snapshot;
use crate::domain::schedule::{Broadcast, BroadcastRights};
use crate::types::LivestreamId;

/// Who says something about the rights of a broadcast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The defaults of its livestream.
    Livestream,
    /// A rule, with its number; the first is 1.
    Rule(usize, Arc<Rule>),
    /// What is said of this broadcast alone.
    Broadcast,
}

/// What one of them says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Who.
    pub source: Source,
    /// What.
    pub says: Effects,
    /// Why it does not hold for this broadcast: the member of the rule that does not fit.
    pub misfit: Option<&'static str>,
}

/// The rights of a broadcast with all that was said.
pub struct ExplainedRight {
    /// The livestream that carries it.
    pub livestream: Arc<Livestream>,
    /// The livestream's defaults, the rules that concern it in their order, the broadcast's own. Of
    /// those that hold, the last that says something of a right has the word on it.
    pub layers: Vec<Layer>,
    /// What all of them come to.
    pub rights: BroadcastRights,
}

impl ExplainedRight {
    /// The layer that has the word on something.
    pub fn winner(&self, says: impl Fn(&Effects) -> bool) -> Option<&Layer> {
        let mut holding = self.layers.iter().rev();
        holding.find(|layer| layer.misfit.is_none() && says(&layer.says))
    }
}

impl Snapshot {
    /// As [`EntitlementService::rights`](crate::domain::schedule::Rights::rights), with its steps; `None` for a
    /// livestream that is unknown.
    #[must_use]
    pub fn explain(
        &self,
        livestream: &LivestreamId,
        broadcast: &Broadcast,
    ) -> Option<ExplainedRight> {
        let livestream = Arc::clone(self.livestream(livestream)?);
        let mut layers = vec![Layer {
            source: Source::Livestream,
            says: Effects::defaults_of(&livestream),
            misfit: None,
        }];
        for (rule, number) in self.rules().zip(1..) {
            if rule.condition.concerns(&livestream.id) {
                layers.push(Layer {
                    source: Source::Rule(number, Arc::clone(rule)),
                    says: rule.effects,
                    misfit: rule.condition.misfit(&livestream, broadcast),
                });
            }
        }
        layers.extend(
            self.contents
                .broadcasts
                .get(&broadcast.id)
                .map(|own| Layer {
                    source: Source::Broadcast,
                    says: *own,
                    misfit: None,
                }),
        );
        let mut draft = Draft::from_livestream(&livestream);
        for layer in layers.iter().filter(|layer| layer.misfit.is_none()) {
            draft.apply(&layer.says);
        }
        Some(ExplainedRight {
            rights: draft.rights(broadcast),
            livestream,
            layers,
        })
    }
}
