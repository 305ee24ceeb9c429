//! The roles of operators.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Admin,
    Content,
    Agent,
    /// Reads everything that is not secret, changes nothing. Records store the index of the variant: new
    /// roles go to the end.
    Observer,
}

impl Role {
    pub const ALL: [Self; 4] = [Self::Admin, Self::Content, Self::Agent, Self::Observer];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Content => "content",
            Self::Agent => "agent",
            Self::Observer => "observer",
        }
    }

    /// Whether the role may see tokens and PINs in users' mail. An agent who could read them could take over
    /// an account with its reset mail.
    pub const fn sees_secrets(self) -> bool {
        matches!(self, Self::Admin)
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}
