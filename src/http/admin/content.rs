//! Handlers of the guide.

use crate::app::App;
use crate::http::api::unwritten;
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::content::ImportGuideRequest;
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// POST a guide.
///
/// # Errors
/// As the decisions list them.
pub async fn import_guide(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: ImportGuideRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}
