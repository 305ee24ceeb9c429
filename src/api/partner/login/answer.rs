//! The response of sign-up and login, and login sessions in lists.

use serde::Serialize;

use playgate_domain::accounts::{LoginInfo, NewLogin};
use playgate_types::LoginId;

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

/// A login session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginLine {
    pub session_id: String,
    pub created_timestamp: i64,
    pub expires: i64,
    pub last_used_timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<bool>,
}

impl LoginLine {
    /// A session as seen by the session `asking`, or by an operator if that is `None`.
    #[must_use]
    pub(crate) fn new(login: &LoginInfo, asking: Option<LoginId>) -> Self {
        Self {
            session_id: login.id.to_string(),
            created_timestamp: login.created.0,
            expires: login.expires.0,
            last_used_timestamp: login.used.0,
            program: login.program.clone(),
            device_id: login.device.clone(),
            current: asking.map(|asking| asking == login.id),
        }
    }
}
