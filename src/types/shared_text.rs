//! Values that many records have, such as the asset and the kind of device of a thousand sessions: one copy each.

use std::cell::RefCell;
use std::fmt;
use std::hash::{BuildHasher as _, Hash};
use std::marker::PhantomData;
use std::sync::Arc;

use foldhash::fast::FixedState;
use serde::Deserializer;
use serde::de::{Error, Visitor};

const SLOTS: usize = 1_024;

/// The values that a thread has shared last. Each thread has its own, so that sharing takes no lock: few threads make the
/// records in memory. Two values with the same slot only displace each other.
pub struct RecentValues<T: ?Sized>(RefCell<Vec<Option<Arc<T>>>>);

impl<T: ?Sized + Eq + Hash> RecentValues<T> {
    /// Returns a shared copy of the value. Recent callers with an equal value got the same copy.
    pub fn share(&self, value: &T, copy: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let hash = FixedState::default().hash_one(value);
        let slot = usize::try_from(hash % SLOTS as u64).unwrap_or_default();
        match self.0.borrow_mut().get_mut(slot) {
            Some(Some(found)) if **found == *value => Arc::clone(found),
            Some(slot) => Arc::clone(slot.insert(copy())),
            None => copy(),
        }
    }
}

impl<T: ?Sized> Default for RecentValues<T> {
    fn default() -> Self {
        Self(RefCell::new(vec![None; SLOTS]))
    }
}

thread_local! {
    static TEXTS: RecentValues<str> = RecentValues::default();
}

/// Returns a shared copy of the text. Callers on this thread that passed the same text recently got the same copy.
pub fn shared_text(text: &str) -> Arc<str> {
    TEXTS.with(|recent| recent.share(text, || Arc::from(text)))
}

/// Reads a text with serde and makes a value of it.
pub(crate) fn read_text<'de, D: Deserializer<'de>, T, E: fmt::Display>(
    deserializer: D,
    make: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    deserializer.deserialize_str(TextReader(make, PhantomData))
}

/// For `deserialize_with`.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    read_text(deserializer, |text| {
        Ok::<_, std::convert::Infallible>(shared_text(text))
    })
}

struct TextReader<F, T>(F, PhantomData<T>);

impl<T, E: fmt::Display, F: FnOnce(&str) -> Result<T, E>> Visitor<'_> for TextReader<F, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<O: Error>(self, text: &str) -> Result<T, O> {
        (self.0)(text).map_err(O::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_a_copy_and_others_displace_each_other() {
        let news = shared_text("news");
        assert!(Arc::ptr_eq(&news, &shared_text("news")));
        for number in 0..SLOTS * 8 {
            let text = number.to_string();
            assert_eq!(*shared_text(&text), *text);
        }
        assert_eq!(*news, *shared_text("news"));
    }
}
