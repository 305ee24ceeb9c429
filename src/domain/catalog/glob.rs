//! Glob patterns for titles and categories.

use serde::{Deserialize, Serialize};

use playgate_types::Malformed;

const PATTERN_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Glob(Box<str>);

impl Glob {
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        if text.is_empty() || text.len() > PATTERN_MAX {
            return Err(Malformed("must have 1 to 200 bytes"));
        }
        Ok(Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn matches(&self, text: &str) -> bool {
        let mut pattern = self.0.chars();
        let mut rest = text.chars();
        let mut last_star: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
        // At most pattern length × text length steps, because only the last `*` is retried: a malicious
        // pattern cannot cause exponential time.
        loop {
            let here = rest.clone();
            let wanted = pattern.next();
            if wanted == Some('*') {
                last_star = Some((pattern.clone(), here));
                continue;
            }
            let fits = match (wanted, rest.next()) {
                (None, None) => return true,
                (Some('?'), Some(_)) => true,
                // Lower case of a letter may be several letters, so the iterators are compared.
                (Some(a), Some(b)) => a == b || a.to_lowercase().eq(b.to_lowercase()),
                (Some(_), None) => return false,
                (None, Some(_)) => false,
            };
            if fits {
                continue;
            }
            let Some((after_star, from)) = &mut last_star else {
                return false;
            };
            // Extend the star's match by one character and retry.
            if from.next().is_none() {
                return false;
            }
            pattern = after_star.clone();
            rest = from.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_documented() {
        for (pattern, text, expected) in [
            ("*Football*", "Live: football tonight", true),
            ("*Football*", "Footbal", false),
            ("a", "a", true),
            ("a", "ab", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("?", "", false),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("*ÖL*", "Bier und öl", true),
            ("**a", "a", true),
            ("*a", "ab", false),
        ] {
            assert_eq!(
                Glob::parse(pattern).unwrap().matches(text),
                expected,
                "{pattern} {text}"
            );
        }
        assert!(Glob::parse("").is_err());
        assert!(Glob::parse(&"a".repeat(201)).is_err());
    }

    #[test]
    fn malicious_pattern_terminates() {
        let pattern = Glob::parse(&"*a".repeat(100)).unwrap();
        assert!(!pattern.matches(&format!("{}b", "a".repeat(500))));
    }
}
