//! The unit in which players report durations.

use serde::{Deserialize, Serialize};

use super::Malformed;

/// The unit is configured, and never guessed from the size of a number:
/// a wait of 90 may be long in one unit and short in the other.
///
/// Records store the index of the variant: new units go to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DurationUnit {
    #[default]
    Millis,
    Seconds,
}

impl DurationUnit {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Millis => "ms",
            Self::Seconds => "s",
        }
    }

    pub fn parse_override(text: &str) -> Result<Option<Self>, Malformed> {
        match text {
            "ms" => Ok(Some(Self::Millis)),
            "s" => Ok(Some(Self::Seconds)),
            "default" => Ok(None),
            _ => Err(Malformed("must be ms, s or default")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_back() {
        for unit in [DurationUnit::Millis, DurationUnit::Seconds] {
            assert_eq!(DurationUnit::parse_override(unit.as_str()), Ok(Some(unit)));
        }
        assert_eq!(DurationUnit::parse_override("default"), Ok(None));
        assert!(DurationUnit::parse_override("S").is_err());
        assert!(DurationUnit::parse_override("").is_err());
    }
}
