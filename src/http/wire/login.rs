//! The response of sign-up and login.

use serde::Serialize;

use crate::domain::accounts::NewLogin;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginReply<'a> {
    pub token: &'a str,
    pub user_id: String,
    pub session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    pub open_id: &'a str,
    /// Always true: a user who can log in is registered.
    pub registered: bool,
    pub new_user: bool,
}

impl<'a> LoginReply<'a> {
    #[must_use]
    pub(crate) fn new(opened: &'a NewLogin, new_user: bool) -> Self {
        Self {
            token: opened.token.reveal(),
            user_id: opened.user.id.to_string(),
            session_id: opened.login.to_string(),
            name: opened.user.name.as_ref().map(|name| name.as_str()),
            open_id: opened.user.email.as_str(),
            registered: true,
            new_user,
        }
    }
}
