//! `GET /admin/v1/about`.

use serde::Serialize;

use playgate_http::{ApiError, Context, HttpState, OperatorAuth, Reply};
use playgate_types::{Described, JsonType, Role};

crate::openapi::words::words! { AboutBody => r##"
[operations.admin_about]
summary = "Show the service and the current operator"
returns."200" = "About: The service, and the operator whose token was sent."
"## }

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
struct AboutBody<'a> {
    /// Version of Playgate that the server runs.
    version: &'static str,
    /// Environment that the configuration names (`environment`).
    #[described(JsonType::OneOf(&["production", "staging"]))]
    environment: &'static str,
    /// Public address of the service.
    public_url: &'a str,
    /// Role of the operator who asks.
    role: Role,
    /// Name of the operator who asks. Absent for the machine's administrator.
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
        role: auth.role(),
        name: auth
            .operator()
            .and_then(|id| http.services.operators.name(&id)),
    })
}
