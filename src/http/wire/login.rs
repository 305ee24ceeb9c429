//! The answer to sign-up and login.

use serde::Serialize;

use crate::domain::accounts::NewLogin;

/// 200 of PUT and POST auth/email.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginReply<'a> {
    /// The User Authorization Token.
    pub token: &'a str,
    /// The user.
    pub user_id: String,
    /// The login session that the token lives in.
    pub session_id: String,
    /// The user's name, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// The normalised e-mail address.
    pub open_id: &'a str,
    /// Always true: whoever is logged in is registered.
    pub registered: bool,
    /// Whether this request made the user.
    pub new_user: bool,
}

impl<'a> LoginReply<'a> {
    /// The answer for a login session that has just begun.
    #[must_use]
    pub fn new(opened: &'a NewLogin, new_user: bool) -> Self {
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
