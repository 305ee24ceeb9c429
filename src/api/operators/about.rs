//! `GET /admin/v1/about`.

use serde::Serialize;

use playgate_http::{ApiError, Context, HttpState, OperatorAuth, Reply};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AboutBody<'a> {
    version: &'static str,
    environment: &'static str,
    public_url: &'a str,
    role: &'static str,
    /// Absent for the administrator of the installation, who has no operator account.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

pub(crate) fn about(
    http: &HttpState,
    _cx: &Context,
    auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    Reply::json(&AboutBody {
        version: playgate_types::VERSION,
        environment: http.settings.environment.as_str(),
        public_url: &http.settings.public_url,
        role: auth.role().as_str(),
        name: auth
            .operator()
            .and_then(|id| http.services.operators.name(&id)),
    })
}
