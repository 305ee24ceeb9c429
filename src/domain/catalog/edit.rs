//! Single changes to rights, without importing a file.

use std::sync::Arc;

use super::model::Livestream;
use super::rules::{Effects, RightsDraft};
use super::snapshot::CatalogContents;
use super::{Catalog, CatalogDiff, CatalogError};
use playgate_types::{BroadcastId, LivestreamId};

/// To add a rule, import it with [`Mode::Merge`](super::Mode::Merge).
pub enum CatalogEdit {
    Defaults(LivestreamId, Effects),
    /// Replaces the previous override.
    Override(BroadcastId, Effects),
    Forget(BroadcastId),
    DropRule {
        /// Rules are numbered from 1.
        number: usize,
        /// The rule must have this text, if it is given: the numbers change when another rule is removed.
        text: Option<String>,
    },
}

impl Catalog {
    /// Applies a single change in one durable commit. Blocking: call it from a worker pool.
    pub fn edit(&self, edit: CatalogEdit) -> Result<CatalogDiff, CatalogError> {
        let next = |current: &CatalogContents| {
            let mut next = current.clone();
            edit.apply(&mut next)?;
            Ok(next)
        };
        self.change(false, next, |_, _| Ok(None))
    }
}

impl CatalogEdit {
    fn apply(self, to: &mut CatalogContents) -> Result<(), CatalogError> {
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
            Self::DropRule { number, text } => {
                let at = number.checked_sub(1).ok_or(CatalogError::NoRule)?;
                let rule = to.rules.get(at).ok_or(CatalogError::NoRule)?;
                if text.is_some_and(|text| text != rule.to_string()) {
                    return Err(CatalogError::NoRule);
                }
                to.rules.remove(at);
            }
        }
        Ok(())
    }
}

/// Sets the defaults of a livestream. `catchup` has none: `catchup_days` = 0 disables catch-up.
fn set_defaults(livestream: &mut Livestream, effects: &Effects) {
    // Effects apply to defaults exactly as a rule would apply them.
    let mut draft = RightsDraft::from_livestream(livestream);
    draft.apply(effects);
    livestream.live_rights = draft.live;
    livestream.catchup_days = draft.catchup_days;
    livestream.start_over = draft.start_over;
    livestream.extended = draft.extended;
}
