//! Single changes to rights, for an operator who does not want to import a file for them.

use std::sync::Arc;

use super::model::Livestream;
use super::rules::{Draft, Effects};
use super::snapshot::Contents;
use super::{Catalog, CatalogDiff, CatalogError};
use crate::types::{BroadcastId, LivestreamId};

/// A single change. A rule is added by importing it with [`Mode::Merge`](super::Mode::Merge).
pub enum Edit {
    /// Changes the defaults of a livestream as far as something is said of them.
    Defaults(LivestreamId, Effects),
    /// Says something of one broadcast, in place of what was said of it.
    Override(BroadcastId, Effects),
    /// Says nothing more of one broadcast.
    Forget(BroadcastId),
    /// Drops the rule of this number; the first is 1.
    DropRule(usize),
}

impl Catalog {
    /// Makes a single change in one durable commit, and tells what it changes. Blocks; to be called
    /// in a lane.
    ///
    /// # Errors
    /// [`CatalogError::NoLivestream`], [`CatalogError::NoRule`]; the store's.
    pub fn amend(&self, amendment: Edit) -> Result<CatalogDiff, CatalogError> {
        let next = |current: &Contents| {
            let mut next = current.clone();
            amendment.apply(&mut next)?;
            Ok(next)
        };
        self.change(false, next, |_, _| Ok(None))
    }
}

impl Edit {
    fn apply(self, to: &mut Contents) -> Result<(), CatalogError> {
        match self {
            Self::Defaults(id, effects) => {
                let livestream = to.livestreams.get_mut(&id);
                let livestream = livestream.ok_or(CatalogError::NoLivestream)?;
                set_defaults(Arc::make_mut(livestream), &effects);
            }
            Self::Override(id, effects) => {
                to.broadcasts.insert(id, effects);
            }
            Self::Forget(id) => {
                to.broadcasts.remove(&id);
            }
            Self::DropRule(number) => {
                let at = number.checked_sub(1).filter(|at| *at < to.rules.len());
                to.rules.remove(at.ok_or(CatalogError::NoRule)?);
            }
        }
        Ok(())
    }
}

/// As the rules build up the rights of a broadcast. `catchup` is not among a livestream's defaults:
/// its days say it all.
fn set_defaults(livestream: &mut Livestream, effects: &Effects) {
    let mut draft = Draft::from_livestream(livestream);
    draft.apply(effects);
    livestream.live_rights = draft.live;
    livestream.catchup_days = draft.catchup_days;
    livestream.start_over = draft.start_over;
    livestream.extended = draft.extended;
}
