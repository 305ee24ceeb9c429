//! A value of the configuration: how it is parsed and shown.

/// The result of parsing a value. The error is a sentence without the name of the key.
pub(super) type Read<T> = Result<T, String>;

pub(super) trait Setting: Sized {
    /// Whether the value is masked and can come from a file or a credential.
    const SECRET: bool = false;

    /// The value of an unset key without a default.
    fn absent() -> Option<Self> {
        None
    }

    /// The value as text; `None` if it has none.
    fn show(&self) -> Option<String>;
}

impl<T: Setting> Setting for Option<T> {
    const SECRET: bool = T::SECRET;

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn show(&self) -> Option<String> {
        self.as_ref().and_then(T::show)
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn show(&self) -> Option<String> {
        let items: Vec<String> = self.iter().filter_map(T::show).collect();
        Some(items.join(", "))
    }
}
