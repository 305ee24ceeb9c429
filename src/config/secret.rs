//! Secrets in the configuration, and their masks in shown values.

use super::setting::Setting;

/// A value that must not be printed or logged. It has neither `Debug` nor `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

pub(super) const MASK: &str = "********";

/// The query of an address often holds keys: it is masked for every key of the configuration.
impl Setting for String {
    fn show(&self) -> Option<String> {
        Some(masked_query(self))
    }
}

fn masked_query(text: &str) -> String {
    let is_address = text.contains("://") || text.starts_with("{public_url}");
    let Some((before, query)) = text.split_once('?').filter(|_| is_address) else {
        return text.to_owned();
    };
    // `{token}` and the like are not secrets, and show that the link is complete.
    let placeholder = |value: &str| value.starts_with('{') && value.ends_with('}');
    let masked = query.split('&').map(|pair| match pair.split_once('=') {
        Some((_, value)) if value.is_empty() || placeholder(value) => pair.to_owned(),
        Some((name, _)) => format!("{name}={MASK}"),
        None => MASK.to_owned(),
    });
    format!("{before}?{}", masked.collect::<Vec<_>>().join("&"))
}
