//! The broadcast schedule: what runs when on which livestream (interface part 4.1).
//!
//! A guide comes in through [`import`], is put in order per channel by [`normalise`] and compared
//! with what is there by [`plan`]; [`ids`] gives each broadcast the id it keeps.

pub mod brake;
pub mod ids;
pub mod import;
pub mod model;
pub mod normalise;
pub mod plan;
pub mod ratings;
pub mod zone;

pub use model::{Broadcast, Facts, Image};
