//! Configuration: one TOML file, overridden by the environment, overridden by flags.
//!
//! Each key is declared once, in `keys`: name, type, default, description. Loading, validation, `config
//! show` and the test of the packaged file all use that declaration. An invalid configuration is rejected
//! as a whole, with all errors listed. Only this module reads the environment; it opens no socket, store or
//! log.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

mod epg_source;
pub mod http;
pub mod limits;

mod address;
mod byte_size;
mod cdn;
pub mod compared;
mod enums;
mod error;
pub mod keys;
mod license_urls;
pub mod load;
mod mail_server;
mod mailbox;
mod provenance;
mod schema;
mod secret;
mod setting;
mod smtp_keys;
mod sources;
mod table_list;
mod validate;
mod value_parsers;

#[cfg(test)]
mod tests;

pub use http::{Environment, HttpSettings, Network};

pub use address::ListenAddress;
pub use compared::compared;
pub use enums::{LogFormat, LogLevel};
pub use error::{ConfigProblem, ConfigProblems};
pub use keys::{
    AccountsConfig, BackupConfig, CdnConfig, Config, EpgConfig, FairplayConfig, FleetConfig,
    GeoConfig, HttpConfig, LabConfig, LicenseServerConfig, LogConfig, MailBrandConfig, MailConfig,
    MediaConfig, OpsConfig, ParentalConfig, PlaybackConfig, ScheduleConfig, ServerConfig,
    TelemetryConfig, TelemetryForwardConfig, TlsConfig,
};
pub use load::{Inputs, KeyInfo, Loaded, data_dir, keys, load, read};
pub use mailbox::Mailbox;
pub use provenance::{Effective, Provenance};
pub use secret::Secret;
pub use smtp_keys::{SmtpConfig, SmtpOauth2Config};
pub use sources::CONFIG_FILE;

/// Default path of the file, which may be absent.
pub const DEFAULT_FILE: &str = "/etc/playgate/playgate.toml";
