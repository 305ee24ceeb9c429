//! Interfaces to the outside world: traits, each with a real and a test implementation.

mod cert_validity;
pub mod clock;
pub mod entropy;
pub mod event_sink;
pub mod fetch;
pub mod geoip;
pub mod http_client;
pub mod license_server;
pub mod mailer;
pub mod media;
pub mod smtp;
pub mod tls;
pub mod watched_file;

pub use clock::{Clock, LabClock, SystemClock};
pub use entropy::{Entropy, SystemEntropy};
