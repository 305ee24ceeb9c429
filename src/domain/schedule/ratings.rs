//! Maps parental ratings to ages: a built-in table of common systems, plus the operator's tables.
//!
//! Unknown values give no age. "M" is 15, 16 or 18 depending on the country, and a guess that is too low would show
//! a child what it must not see.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::RangeInclusive;

use playgate_decode::{ObjectMember, TableDecoder, decode_toml};

const BUILT_IN: &str = include_str!("../../../data/ratings.toml");

/// Larger ages are mistakes: no rating board uses more than 21.
const AGE_MAX: u8 = 21;

const AGES: RangeInclusive<i64> = 0..=255;

#[derive(Debug, Clone, Default)]
pub struct Ratings {
    systems: HashMap<String, HashMap<String, u8>>,
    version: u64,
}

struct System {
    names: Vec<String>,
    values: HashMap<String, u8>,
}

fn systems(root: &TableDecoder<'_>) -> Vec<System> {
    let systems = root.tables("system").into_iter().map(|table| {
        let names = table.required("names", |node| {
            let names = node.elements().iter();
            names.map(|name| name.text().map(str::to_owned)).collect()
        });
        let values = table.required("values", Ok);
        let values = values.and_then(|node| table.as_table("values", node));
        let values = values.map(|values| {
            let age = |one: &ObjectMember| {
                let age = values.read_node(&one.name, &one.node, |node| node.number(&AGES));
                Some((one.name.clone(), age?))
            };
            values.members().iter().filter_map(age).collect()
        });
        table.finish();
        // The decoder has recorded what is missing. Reading on finds all errors in one run.
        System {
            names: names.unwrap_or_default(),
            values: values.unwrap_or_default(),
        }
    });
    systems.collect()
}

impl Ratings {
    #[must_use]
    #[expect(
        clippy::expect_used,
        reason = "the text is compiled in, and a test reads it"
    )]
    pub fn built_in() -> Self {
        let mut ratings = Self::default();
        ratings
            .add(BUILT_IN)
            .expect("the built-in table of ratings is well-formed");
        ratings
    }

    /// Adds the systems of a table in the form of `data/ratings.toml`. Known values get the new age.
    /// The error names the line.
    pub fn add(&mut self, table: &str) -> Result<(), String> {
        for system in decode_toml(table, systems)? {
            for name in &system.names {
                let known = self.systems.entry(fold(name)).or_default();
                for (value, age) in &system.values {
                    known.insert(fold(value), *age);
                }
            }
        }
        // Chained, so that the order of tables counts as well.
        let mut hasher = DefaultHasher::new();
        (self.version, table).hash(&mut hasher);
        self.version = hasher.finish();
        Ok(())
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn age(&self, system: &str, value: &str) -> Option<u8> {
        if let Some(values) = self.systems.get(&fold(system)) {
            return values.get(&fold(value)).copied();
        }
        // In an unknown system, or without one, a bare number is the age itself (`12`, `16+`), as boards
        // that use ages write it.
        let number = value.trim().trim_end_matches('+');
        number.parse().ok().filter(|age| *age <= AGE_MAX)
    }
}

/// Lower case, letters and digits only.
fn fold(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_systems_are_built_in() {
        let ratings = Ratings::built_in();
        for (system, value, age) in [
            ("FSK", "16", Some(16)),
            ("bbfc", "12A", Some(12)),
            ("MPAA", "PG-13", Some(13)),
            ("MPAA", "NC-17", Some(18)),
            ("VCHIP", "TV-MA", Some(17)),
            ("Kijkwijzer", "AL", Some(0)),
            ("DVB", "15", Some(18)),
            ("DVB", "0", None),
            ("New Zealand", "M", Some(16)),
            ("New Zealand", "G", Some(0)),
            ("IMDA", "M18", Some(18)),
            ("ACB", "MA 15+", Some(15)),
            ("TV Parental Guidelines", "TV-14", Some(14)),
            ("BBFC", "PG", Some(8)),
            ("CSA", "-12", Some(12)),
            ("CSA Belgium", "KT", Some(0)),
            ("RARS", "16+", Some(16)),
            ("INCAA", "SAM 13", Some(13)),
            ("CBFC", "UA 13+", Some(13)),
            ("FSK", "X", None),
            ("", "16+", Some(16)),
            ("nobody", "12", Some(12)),
            ("nobody", "99", None),
            ("nobody", "M", None),
            ("nobody", "-3", None),
        ] {
            assert_eq!(ratings.age(system, value), age, "{system} {value}");
        }
    }

    /// Two names or values with the same normalised form would hide each other.
    #[test]
    fn system_names_are_unique_and_ages_plausible() {
        let systems = decode_toml(BUILT_IN, systems).unwrap();
        let mut names = HashMap::new();
        for (number, system) in systems.iter().enumerate() {
            for name in &system.names {
                let before = names.insert(fold(name), number);
                assert!(before.is_none_or(|before| before == number), "{name}");
            }
            let mut ages = HashMap::new();
            for (value, age) in &system.values {
                assert!(*age <= AGE_MAX && !fold(value).is_empty(), "{value}");
                let before = ages.insert(fold(value), *age);
                assert!(before.is_none_or(|before| before == *age), "{value}");
            }
        }
    }

    #[test]
    fn operator_tables_add_and_override_ratings() {
        let mut ratings = Ratings::built_in();
        let custom_table =
            "[[system]]\nnames = [\"House\", \"FSK\"]\nvalues = { \"red\" = 18, \"16\" = 17 }";
        ratings.add(custom_table).unwrap();
        assert_eq!(ratings.age("house", "RED"), Some(18));
        assert_eq!(ratings.age("FSK", "16"), Some(17));
        assert_eq!(ratings.age("FSK", "12"), Some(12));
        assert!(ratings.add("[[system]]\nname = 1").is_err());
    }
}
