//! Who may play what: the offers that users have, and the decision on rights.
//!
//! It owns the grants. It reads the catalogue and the schedule, in memory, and changes neither; it
//! checks no PIN and issues no token.

mod error;
mod grants;
mod model;
mod open;
mod pin;
mod position;
mod rights;
mod tables;
mod why;

#[cfg(test)]
mod tests;

pub use error::GrantError;
pub use grants::{GRANTS_MAX, Grants, erase_user};
pub use model::{
    Denied, Grant, Granted, PinRule, Playing, Revocation, Settings, Step, TAG_ANY_COUNTRY,
    TAG_ANY_DEVICE,
};
pub use open::Open;
pub use position::{PositionRights, Withheld, judged_position};
pub use rights::{Rights, any_country};
pub use tables::schema;
pub use why::Explained;
