//! Interfaces to the outside world: traits, each with a real and a test implementation.

pub(crate) mod cert_validity;
pub mod client_tls;
pub mod clock;
pub mod entropy;
pub(crate) mod event_sink;
pub(crate) mod fetch;
pub(crate) mod fetch_options;
pub(crate) mod geoip;
pub(crate) mod http_client;
pub(crate) mod kept_token;
pub(crate) mod license_server;
pub(crate) mod mailer;
pub(crate) mod media;
pub(crate) mod named_file;
pub(crate) mod oauth_token;
pub(crate) mod private_file;
pub(crate) mod smtp;
pub mod tls;
pub(crate) mod watched_file;
pub(crate) mod zoneinfo;

pub use clock::{Clock, LabClock, SystemClock};
pub use entropy::{Entropy, SystemEntropy};
