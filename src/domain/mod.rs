//! What the service knows and decides: synchronous, (now, typed arguments) to a result.
//!
//! Nothing here names HTTP, JSON libraries, the storage engine or the runtime.

pub mod telemetry;
pub mod upkeep;
