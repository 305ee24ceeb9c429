//! Who may play what: the offers that users have, and the decision on rights.
//!
//! It owns the grants. It reads the catalogue and the schedule, in memory, and changes neither; it
//! checks no PIN and issues no token.

mod error;
mod evaluate;
mod explain;
mod grants;
mod model;
mod pin;
mod position;
mod public_access;
mod tables;

#[cfg(test)]
mod tests;

pub use error::GrantError;
pub use evaluate::{EntitlementService, any_country};
pub use explain::EntitlementExplanation;
pub use grants::{GRANTS_MAX, Grants, erase_user};
pub use model::{
    Decision, Denied, Grant, PinRule, Playing, Revocation, Settings, Step, TAG_ANY_COUNTRY,
    TAG_ANY_DEVICE,
};
pub use position::{PositionRights, Withheld, judged_position};
pub use public_access::PublicLivestream;
pub use tables::schema;
