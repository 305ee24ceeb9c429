//! Configuration: one TOML file, overridden by the environment, overridden by flags.
//!
//! Each key is declared once, in `sections`: name, type, default, meaning. Loading, checking,
//! showing and the test of the packaged file all read that declaration. A configuration with
//! mistakes is refused as a whole, with every mistake named. This is the only module that reads the
//! environment; nothing here opens a socket, a store or a log.

mod guide_source;
pub mod http;
pub mod limits;

mod address;
mod byte_size;
mod check;
mod declare;
mod kinds;
mod load;
mod masked;
mod members;
mod network;
mod origin;
mod problem;
mod raw;
mod secret;
mod sections;
mod sender;
mod sources;
mod words;

#[cfg(test)]
mod tests;

pub use address::Address;
pub use guide_source::GuideSource;
pub use load::{Inputs, KeyInfo, Loaded, keys, load, read};
pub use origin::{Effective, Origin};
pub use problem::{Problem, Problems};
pub use secret::Secret;
pub use sections::{
    Accounts, Backup, Cdn, Config, Fairplay, Geo, Guides, Http, Lab, LicenseServer, Log, Mail,
    Media, Ops, Parental, Playback, Schedule, Server, Smtp, Telemetry, TelemetryForward, Tls,
};
pub use sender::Sender;
pub use words::{LogFormat, LogLevel, SmtpSecurity, WatershedRule, WhenFull};

/// Where the file is looked for when none is named; it may be absent.
pub const DEFAULT_FILE: &str = "/etc/playgate/playgate.toml";
