//! A value before it has its type.

use std::collections::BTreeMap;

use toml::de::DeValue;

/// What a file, a variable or a flag says.
#[derive(Clone)]
pub(super) enum Raw {
    /// Text from a variable or a flag: which type it means is up to the key.
    Loose(String),
    /// A TOML string.
    Text(String),
    /// A TOML integer.
    Integer(i64),
    /// A TOML boolean.
    Flag(bool),
    /// A TOML date or time, as it is written.
    Moment(String),
    /// A TOML array.
    List(Vec<Raw>),
    /// A TOML table.
    Table(BTreeMap<String, Raw>),
    /// What no key takes: a float, or an integer that does not fit.
    Other,
}

impl Raw {
    pub(super) fn from_toml(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.clone().into_owned()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or(Self::Other, Self::Integer),
            DeValue::Boolean(flag) => Self::Flag(*flag),
            DeValue::Datetime(moment) => Self::Moment(moment.to_string()),
            DeValue::Array(items) => Self::List(
                items
                    .iter()
                    .map(|item| Self::from_toml(item.get_ref()))
                    .collect(),
            ),
            DeValue::Table(table) => Self::Table(
                table
                    .iter()
                    .map(|(key, value)| {
                        let key = key.get_ref().clone().into_owned();
                        (key, Self::from_toml(value.get_ref()))
                    })
                    .collect(),
            ),
            DeValue::Float(_) => Self::Other,
        }
    }

    /// The text, where the key takes text.
    pub(super) fn text(&self) -> Result<&str, String> {
        match self {
            Self::Loose(text) | Self::Text(text) | Self::Moment(text) => Ok(text),
            Self::Integer(_) | Self::Flag(_) | Self::List(_) | Self::Table(_) | Self::Other => {
                Err("must be text in quotes".to_owned())
            }
        }
    }

    /// Whether some table in it has a member of this name.
    pub(super) fn has(&self, member: &str) -> bool {
        match self {
            Self::Table(members) => {
                members.contains_key(member) || members.values().any(|inner| inner.has(member))
            }
            Self::List(items) => items.iter().any(|item| item.has(member)),
            Self::Loose(_)
            | Self::Text(_)
            | Self::Integer(_)
            | Self::Flag(_)
            | Self::Moment(_)
            | Self::Other => false,
        }
    }

    /// The elements, where the key takes several: a single value is a list of one, and a variable
    /// has them between commas.
    pub(super) fn items(&self) -> Vec<Self> {
        match self {
            Self::List(items) => items.clone(),
            Self::Loose(text) if text.trim().is_empty() => Vec::new(),
            Self::Loose(text) => text
                .split(',')
                .map(|item| Self::Loose(item.trim().to_owned()))
                .collect(),
            single => vec![single.clone()],
        }
    }
}
