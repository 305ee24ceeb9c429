//! What the service needs of the world: traits, each with a real and a test implementation.

pub mod clock;
pub mod entropy;
pub mod fetch;
pub mod files;
pub mod mailer;
pub mod media;
pub mod places;
pub mod sink;
pub mod smtp;
pub mod tls;
pub mod upstream;
mod validity;
pub mod web;

pub use clock::{Clock, LabClock, SystemClock};
pub use entropy::{Entropy, SystemEntropy};
