//! Who may play what: the offers that users have, and the decision on rights.
//!
//! It owns the grants. It reads the catalogue and the schedule, in memory, and changes neither; it
//! checks no PIN and issues no token.

mod error;
mod evaluate;
mod explain;
mod findings;
mod grants;
mod model;
mod position;
mod public_access;
mod tables;

#[cfg(test)]
mod tests;

pub(crate) use error::GrantError;
pub(crate) use evaluate::EntitlementService;
pub(crate) use explain::EntitlementExplanation;
pub(crate) use grants::{Grants, erase_user};
pub(crate) use model::{
    Decision, Denied, EntitlementSettings, Grant, PinRule, Playing, Subject, TAG_ANY_DEVICE,
    any_country,
};
pub(crate) use position::{PositionRights, Withheld, checked_position};
pub(crate) use tables::schema;
