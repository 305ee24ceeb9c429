//! Value types that all modules share: ids, instants, tokens, addresses, playback values.
//!
//! Each value is validated on construction: a [`LiveOffset`] is always in range. Nothing here may read a
//! clock, a file or the network.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod base64_text;
mod colour;
mod connection_origin;
pub mod decimal;
pub(crate) mod described;
pub mod device_text;
pub(crate) mod drm;
pub(crate) mod duration_unit;
pub(crate) mod email;
mod figures_file;
mod hex;
pub mod html_escape;
pub(crate) mod ids;
pub(crate) mod media_path;
pub(crate) mod partner_kind;
pub mod pasted;
mod percent_encoding;
mod profile;
pub(crate) mod rate_limit;
mod relayed_beat;
pub(crate) mod role;
pub(crate) mod secret;
pub mod shared_text;
pub mod slug;
mod span;
pub mod text;
pub mod time;
pub(crate) mod token;
pub mod zone;

pub use colour::Colour;
pub use connection_origin::{ConnectionOrigin, ListenerKind};
pub use described::{Described, JsonType, Member, ObjectType};
pub use drm::{Drm, Protocol};
pub use duration_unit::DurationUnit;
pub use email::Email;
pub use figures_file::FiguresFile;
pub use hex::from_hex;
pub use ids::{
    AssetId, BroadcastId, DeviceId, EntitlementId, ForeignId, LivestreamId, LoginId, MailId,
    OfferId, OperatorId, PartnerId, SessionId, UserId,
};
pub use media_path::MediaPath;
pub use partner_kind::PartnerKind;
pub use percent_encoding::percent_encoded;
pub use playgate_described::Described;
pub use profile::{BirthDate, Country, Locale, PersonName};
pub use rate_limit::LimitReached;
pub use relayed_beat::RelayedBeat;
pub use role::Role;
pub use secret::{Password, Pin};
pub use span::{format_span, parse_span};
pub use time::{LiveOffset, TvDay, UnixSeconds};
pub use token::{PARTNER_TOKEN_LENGTH, Token, TokenHash, TokenInfo, TokenKind, is_partner_token};
pub use zone::Zone;

/// Why a text could not be parsed: a sentence for the partner's developer that never repeats the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// The running version. A package built between two releases adds its commit.
pub const VERSION: &str = match option_env!("PLAYGATE_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};
