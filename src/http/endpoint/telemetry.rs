//! The request of telemetry (interface, part 4.8).

use bytes::Bytes;

use super::Payload;
use crate::http::error::ApiError;

/// POST telemetry-events. The body is kept as bytes: one bad event never loses the batch, so the
/// events are read one by one.
pub struct TelemetryRequest {
    /// The body, unpacked.
    pub body: Bytes,
}

impl TelemetryRequest {
    pub(super) fn parse(payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            body: payload.whole()?,
        })
    }
}
