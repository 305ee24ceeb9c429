//! Secrets of the configuration.

/// Something that must be neither printed nor logged. It has no `Debug` and no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the text as a secret.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, for whoever proves with it who we are, or signs with it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}
