//! What is shown in the place of secrets.

use super::value_parsers::Setting;

/// A secret as it is shown.
pub(super) const MASK: &str = "********";

/// Keys are often given in the query of an address: it is masked, whichever key has the address.
impl Setting for String {
    fn show(&self) -> Option<String> {
        Some(masked_query(self))
    }
}

/// A text with the values in the query of an address masked; a placeholder, such as `{token}`, is none.
fn masked_query(text: &str) -> String {
    let is_address = text.contains("://") || text.starts_with("{public_url}");
    let Some((before, query)) = text.split_once('?').filter(|_| is_address) else {
        return text.to_owned();
    };
    let placeholder = |value: &str| value.starts_with('{') && value.ends_with('}');
    let masked = query.split('&').map(|pair| match pair.split_once('=') {
        Some((_, value)) if value.is_empty() || placeholder(value) => pair.to_owned(),
        Some((name, _)) => format!("{name}={MASK}"),
        None => MASK.to_owned(),
    });
    format!("{before}?{}", masked.collect::<Vec<_>>().join("&"))
}
