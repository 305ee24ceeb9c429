//! Interfaces to the outside world: traits, each with a real and a test implementation.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod cert_validity;
pub mod client_tls;
pub mod clock;
pub mod entropy;
pub mod event_sink;
pub mod fetch;
pub mod fetch_options;
pub mod geoip;
pub mod http_client;
pub(crate) mod kept_token;
pub mod license_server;
pub mod mailer;
pub mod media;
pub mod named_file;
pub mod oauth_token;
pub mod picture;
pub mod private_file;
pub mod smtp;
pub mod tls;
pub mod watched_file;
pub mod zoneinfo;

pub use clock::ManualClock;
pub use entropy::SeededEntropy;
pub use fetch::{FetchError, Validators};
pub use fetch_options::FetchOptions;
pub use http_client::RequestTarget;
pub use media::MediaDirectory;
pub use smtp::SmtpSecurity;
pub use tls::Tls;

pub use clock::{Clock, LabClock, SystemClock};
pub use entropy::{Entropy, SystemEntropy};
