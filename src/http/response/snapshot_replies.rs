//! Replies that are made once for each snapshot of something.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::errors::api_error::ApiError;
use crate::response::prepared::Prepared;
use crate::response::reply::Reply;

/// The replies of the newest snapshot, by their names.
pub struct SnapshotReplies<S>(Mutex<Newest<S>>);

struct Newest<S> {
    /// Not counted as a user of the snapshot, whose memory is freed. Its address is not used again while this exists.
    snapshot: Weak<S>,
    replies: Vec<(&'static str, Prepared)>,
}

impl<S> Default for SnapshotReplies<S> {
    fn default() -> Self {
        Self(Mutex::new(Newest::of(Weak::new())))
    }
}

impl<S> SnapshotReplies<S> {
    /// Returns the reply of a snapshot, making it with `make` if needed.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get_or_make(
        &self,
        snapshot: &Arc<S>,
        name: &'static str,
        make: impl FnOnce() -> Result<Prepared, ApiError>,
    ) -> Result<Reply, ApiError> {
        let kept = self.0.lock().at(snapshot).find(name);
        if let Some(kept) = kept {
            return Ok(Reply::prepared(kept));
        }
        // Without the lock. Two requests may make a reply at the same time.
        let made = make()?;
        self.0.lock().at(snapshot).keep(name, made.clone());
        Ok(Reply::prepared(made))
    }
}

impl<S> Newest<S> {
    const fn of(snapshot: Weak<S>) -> Self {
        Self {
            snapshot,
            replies: Vec::new(),
        }
    }

    /// Drops the replies of another snapshot.
    fn at(&mut self, snapshot: &Arc<S>) -> &mut Self {
        if Weak::as_ptr(&self.snapshot) != Arc::as_ptr(snapshot) {
            *self = Self::of(Arc::downgrade(snapshot));
        }
        self
    }

    fn keep(&mut self, name: &'static str, reply: Prepared) {
        // Two requests may have made it.
        self.replies.retain(|(known, _)| *known != name);
        self.replies.push((name, reply));
    }

    fn find(&self, name: &str) -> Option<Prepared> {
        let (_, found) = self.replies.iter().find(|(known, _)| *known == name)?;
        Some(found.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::prepared::{CompressibleBody, Kept};
    use crate::response::reply::media;

    #[test]
    fn a_reply_is_made_once_for_each_snapshot() {
        let replies = SnapshotReplies::default();
        let made = std::cell::Cell::new(0);
        let read = |snapshot: &Arc<u8>, name| {
            let make = || {
                made.set(made.get() + 1);
                Ok(Prepared {
                    media: media::JSON,
                    body: Arc::new(CompressibleBody::from("[]")),
                    kept: Kept { tag: 1, max_age: 1 },
                    until: None,
                })
            };
            replies.get_or_make(snapshot, name, make).unwrap();
            made.get()
        };
        let first = Arc::new(1);
        assert_eq!(read(&first, "livestreams"), 1);
        assert_eq!(read(&first, "livestreams"), 1);
        assert_eq!(read(&first, "assets"), 2);
        let changed = Arc::new(1);
        assert_eq!(read(&changed, "livestreams"), 3);
        drop(changed);
        assert_eq!(read(&first, "livestreams"), 4);
    }
}
