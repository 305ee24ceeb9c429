//! The vocabulary that every other module speaks: ids, instants, tokens, addresses, playback values.
//!
//! A value of one of these types has been checked: whoever holds a [`LiveOffset`] need not ask
//! whether it is in range. Nothing here reads a clock, a file or the network.

pub mod drm;
pub mod duration_unit;
pub mod email;
pub mod html_escape;
pub mod ids;
pub mod media_path;
pub mod profile;
pub mod rate_limit;
pub mod role;
pub mod secret;
pub mod text;
pub mod time;
pub mod token;
pub mod toml_mistake;

pub use drm::{Drm, Protocol};
pub use duration_unit::DurationUnit;
pub use email::Email;
pub use ids::{
    AssetId, BroadcastId, DeviceId, EntitlementId, LivestreamId, LoginId, MailId, OfferId,
    OperatorId, PartnerId, SessionId, UserId,
};
pub use media_path::MediaPath;
pub use profile::{BirthDate, Country, Locale, PersonName};
pub use rate_limit::LimitReached;
pub use role::Role;
pub use secret::{Password, Pin};
pub use time::{LiveOffset, TvDay, UnixSeconds};
pub use token::{Token, TokenHash, TokenInfo, TokenKind};

/// Why a text is not a value of the type it was parsed as: a sentence for the partner's developer,
/// without the offending text itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// What runs: the version, and with it the commit where a package was made of one between two releases.
pub const VERSION: &str = match option_env!("PLAYGATE_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};
