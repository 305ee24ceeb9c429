//! Configuration: typed, validated at start, all problems reported together.

pub mod http;
pub mod limits;
