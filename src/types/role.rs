//! What an operator may do.

use serde::{Deserialize, Serialize};

/// The role of an operator of the administration interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything.
    Admin,
    /// The catalogue and the schedule.
    Content,
    /// Users, their sessions and their mail.
    Agent,
    /// Reads everything that holds no secret and changes nothing. The last: stored roles count on.
    Observer,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Content, Self::Agent, Self::Observer];

    /// The name on the command line and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Content => "content",
            Self::Agent => "agent",
            Self::Observer => "observer",
        }
    }

    /// Whether tokens and PINs in users' mail are shown to the role. An agent who could read them
    /// could take an account over by its reset mail.
    #[must_use]
    pub const fn sees_secrets(self) -> bool {
        matches!(self, Self::Admin)
    }

    /// Reads a name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}
