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
mod test_catalogue;
#[cfg(test)]
mod tests;

pub use error::GrantError;
pub use evaluate::EntitlementService;
pub use explain::EntitlementExplanation;
pub use grants::{Grants, erase_user};
pub use model::{
    Decision, Denied, EntitlementSettings, Grant, PinRule, Playing, Subject, TAG_ANY_DEVICE,
    any_country,
};
pub use position::{PositionRights, Withheld, checked_position};
pub use tables::schema;
