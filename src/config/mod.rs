//! Configuration: one TOML file, overridden by the environment, overridden by flags.
//!
//! Each key is declared once, in `sections`: name, type, default, meaning. Loading, checking,
//! showing and the test of the packaged file all read that declaration. A configuration with
//! mistakes is refused as a whole, with every mistake named. This is the only module that reads the
//! environment; nothing here opens a socket, a store or a log.

mod epg_source;
pub mod http;
pub mod limits;

mod address;
mod byte_size;
mod cdn;
mod enums;
mod error;
mod keys;
mod load;
mod mailbox;
mod masked;
mod provenance;
mod raw;
mod schema;
mod secret;
mod sources;
mod table_list;
mod validate;
mod value_parsers;

#[cfg(test)]
mod tests;

pub use address::Address;
pub use enums::{LogFormat, LogLevel, SmtpSecurity, WatershedRule, WhenFull};
pub use epg_source::EpgSource;
pub use error::{Problem, Problems};
pub use keys::{
    Accounts, Backup, Cdn, Config, Fairplay, Geo, Guides, Http, Lab, LicenseServer, Log, Mail,
    Media, Ops, Parental, Playback, Schedule, Server, Smtp, Telemetry, TelemetryForward, Tls,
};
pub use load::{Inputs, KeyInfo, Loaded, keys, load, read};
pub use mailbox::Mailbox;
pub use provenance::{Effective, Provenance};
pub use secret::Secret;

/// Where the file is looked for when none is named; it may be absent.
pub const DEFAULT_FILE: &str = "/etc/playgate/playgate.toml";
