//! Untyped values.

use std::collections::BTreeMap;

use toml::de::DeValue;

#[derive(Clone)]
pub(super) enum Raw {
    /// Text from a variable or a flag; the key decides its type.
    Loose(String),
    Text(String),
    Integer(i64),
    Flag(bool),
    Moment(String),
    List(Vec<Raw>),
    Table(BTreeMap<String, Raw>),
    /// A value that no key accepts: a float, or an integer out of range.
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
            // No key takes a float: `5.0` for `5` would be a mistake to guess about.
            DeValue::Float(_) => Self::Other,
        }
    }

    pub(super) fn text(&self) -> Result<&str, String> {
        match self {
            Self::Loose(text) | Self::Text(text) | Self::Moment(text) => Ok(text),
            Self::Integer(_) | Self::Flag(_) | Self::List(_) | Self::Table(_) | Self::Other => {
                Err("must be a quoted string".to_owned())
            }
        }
    }

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

    pub(super) fn items(&self) -> Vec<Self> {
        match self {
            Self::List(items) => items.clone(),
            Self::Loose(text) if text.trim().is_empty() => Vec::new(),
            // A variable has no lists: commas separate elements there.
            Self::Loose(text) => text
                .split(',')
                .map(|item| Self::Loose(item.trim().to_owned()))
                .collect(),
            // In TOML `listen = "a"` is short for a list of one.
            single => vec![single.clone()],
        }
    }
}
