//! Answers of the schedule that cost much to make and are asked for again and again: kept by the text
//! of their request, as they are and packed, within a bound.
//!
//! Every client of a partner sends the same list of livestreams, and its answer changes with the
//! next program only. Reading a hundred ids, finding their programs and joining two megabytes costs
//! more than sending them; packing costs twenty times more.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;

use super::coding::pack;
use crate::config::limits::ANSWERS_BYTES;
use crate::types::UnixSeconds;

/// A body, and its packed form once somebody has asked for it.
#[derive(Debug)]
pub struct Packable {
    identity: Bytes,
    packed: OnceLock<Option<Bytes>>,
}

impl Packable {
    /// The body as it is.
    #[must_use]
    pub const fn identity(&self) -> &Bytes {
        &self.identity
    }

    /// The packed body, if it is there already.
    #[must_use]
    pub fn ready(&self) -> Option<&Bytes> {
        self.packed.get()?.as_ref()
    }

    /// The packed body. Of many who ask at a time one makes it, and the others wait for that.
    #[must_use]
    pub fn packed(&self) -> Option<&Bytes> {
        self.packed.get_or_init(|| pack(&self.identity)).as_ref()
    }
}

impl<B: Into<Bytes>> From<B> for Packable {
    fn from(identity: B) -> Self {
        Self {
            identity: identity.into(),
            packed: OnceLock::new(),
        }
    }
}

/// A kept answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The body.
    pub body: Arc<Packable>,
    /// What its tag is made of.
    pub tag: u64,
    /// When it will be another one; `None` as long as the schedule does not change.
    pub until: Option<UnixSeconds>,
}

/// The moment at which an answer is asked for or made.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The instant.
    pub now: UnixSeconds,
    /// Which schedule is served, counted up, and read before the schedule was.
    pub generation: u64,
}

struct Entry {
    request: Box<str>,
    answer: Answer,
    made: UnixSeconds,
}

/// What a request is found by: a checksum, taken several times faster than a map would hash a list
/// of a hundred ids. Of two requests with one checksum, which only malice brings about, the later is
/// kept.
type Key = u32;

/// The answers that are kept.
///
/// In two halves: a new answer goes into the young one, and so does an old one that is asked for
/// again. When the young one is full it takes the place of the old one, whose answers nobody has
/// asked for meanwhile.
pub struct Answers {
    halves: Mutex<Halves>,
    most: usize,
}

#[derive(Default)]
struct Halves {
    generation: u64,
    young: HashMap<Key, Entry>,
    old: HashMap<Key, Entry>,
    /// The bytes of the young half.
    filled: usize,
}

impl Default for Answers {
    fn default() -> Self {
        Self::within(ANSWERS_BYTES)
    }
}

impl Answers {
    /// Keeps answers of so many bytes.
    #[must_use]
    pub fn within(bytes: usize) -> Self {
        Self {
            halves: Mutex::default(),
            most: bytes / 2,
        }
    }

    /// The answer to a request, if it is kept and still true.
    #[must_use]
    pub fn find(&self, request: &str, at: Moment) -> Option<Answer> {
        let key = crc32fast::hash(request.as_bytes());
        let mut halves = self.halves.lock();
        let halves = halves.renewed(at.generation)?;
        if let Some(entry) = halves.young.get(&key) {
            return entry.answer(request, at.now);
        }
        let entry = halves.old.remove(&key)?;
        let answer = entry.answer(request, at.now)?;
        halves.put(key, entry, self.most);
        Some(answer)
    }

    /// Keeps the answer to a request.
    pub fn keep(&self, request: &str, answer: &Answer, at: Moment) {
        let key = crc32fast::hash(request.as_bytes());
        let entry = Entry {
            request: request.into(),
            answer: answer.clone(),
            made: at.now,
        };
        if let Some(halves) = self.halves.lock().renewed(at.generation) {
            halves.put(key, entry, self.most);
        }
    }
}

impl Halves {
    /// Drops what was made of an earlier schedule; `None` if a later one is served already.
    fn renewed(&mut self, generation: u64) -> Option<&mut Self> {
        if self.generation < generation {
            *self = Self {
                generation,
                ..Self::default()
            };
        }
        (self.generation == generation).then_some(self)
    }

    fn put(&mut self, key: Key, entry: Entry, most: usize) {
        // The packed form is made later and is at most as large.
        let bytes = 2 * entry.answer.body.identity.len() + entry.request.len() + size_of::<Entry>();
        if bytes > most {
            return;
        }
        if self.filled + bytes > most {
            self.old = std::mem::take(&mut self.young);
            self.filled = 0;
        }
        self.filled += bytes;
        self.young.insert(key, entry);
    }
}

impl Entry {
    fn answer(&self, request: &str, now: UnixSeconds) -> Option<Answer> {
        let holds = *self.request == *request
            && self.made <= now
            && self.answer.until.is_none_or(|until| now < until);
        holds.then(|| self.answer.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(length: usize, until: Option<i64>) -> Answer {
        Answer {
            body: Arc::new(vec![b'x'; length].into()),
            tag: 1,
            until: until.map(UnixSeconds),
        }
    }

    fn at(now: i64, generation: u64) -> Moment {
        Moment {
            now: UnixSeconds(now),
            generation,
        }
    }

    #[test]
    fn an_answer_is_kept_as_long_as_it_is_true() {
        let answers = Answers::within(100_000);
        assert!(answers.find("a", at(10, 0)).is_none());
        answers.keep("a", &answer(10, Some(20)), at(10, 0));
        for (now, generation, kept) in [(10, 0, true), (19, 0, true), (20, 0, false), (9, 0, false)]
        {
            let found = answers.find("a", at(now, generation));
            assert_eq!(found.is_some(), kept, "{now}");
        }
        assert!(answers.find("b", at(10, 0)).is_none());
        assert!(answers.find("a", at(10, 1)).is_none());
        // The schedule that it was made of has gone for good.
        assert!(answers.find("a", at(10, 0)).is_none());
    }

    #[test]
    fn what_is_asked_for_stays_and_the_bound_holds() {
        let answers = Answers::within(100_000);
        answers.keep("dear", &answer(1_000, None), at(0, 0));
        for number in 0..10_000 {
            let name = number.to_string();
            answers.keep(&name, &answer(1_000, None), at(0, 0));
            assert!(answers.find("dear", at(0, 0)).is_some(), "{number}");
            let halves = answers.halves.lock();
            let kept = halves.young.values().chain(halves.old.values());
            let bytes: usize = kept.map(|entry| 2 * entry.answer.body.identity.len()).sum();
            assert!(bytes <= 100_000, "{bytes}");
        }
        assert!(answers.find("0", at(0, 0)).is_none());
        answers.keep("huge", &answer(30_000, None), at(0, 0));
        assert!(answers.find("huge", at(0, 0)).is_none());
    }

    #[test]
    fn a_body_is_packed_once() {
        let body = Packable::from(vec![b'x'; 10_000]);
        assert!(body.ready().is_none());
        let packed = body.packed().unwrap().as_ptr();
        assert_eq!(body.packed().unwrap().as_ptr(), packed);
        assert_eq!(body.ready().unwrap().as_ptr(), packed);
    }
}
