//! The purpose of a partner.

use serde::{Deserialize, Serialize};

use super::Malformed;

/// Records store the index of the variant: new kinds go to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartnerKind {
    #[default]
    Standard,
    /// A partner for testing clients: it can have faults, its own clock, and resets. Not allowed in production.
    Lab,
}

impl PartnerKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Lab => "lab",
        }
    }

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        match text {
            "standard" => Ok(Self::Standard),
            "lab" => Ok(Self::Lab),
            _ => Err(Malformed("must be standard or lab")),
        }
    }
}
