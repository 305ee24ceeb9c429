//! Maps errors of a fleet to API errors.

use crate::errors::api_error::{ApiError, ErrorCode};
use playgate_observe::fleet::HandoverRefusal;

impl From<HandoverRefusal> for ApiError {
    fn from(refusal: HandoverRefusal) -> Self {
        match refusal {
            HandoverRefusal::NoSuchMember(why) => Self::new(ErrorCode::MemberNotFound, why),
            HandoverRefusal::NotPossible(why) => Self::new(ErrorCode::HandoverNotPossible, why),
        }
    }
}
