//! The cache of schedule responses, as they are and compressed, within a bound.
//!
//! All clients of a partner send the same list of livestreams, and the response changes with the next
//! program only. Parsing a hundred ids, finding their programs and joining two megabytes costs more
//! than sending them; compressing them costs twenty times more.
//!
//! A response is found in two steps. The text of a request that was seen before leads to it without
//! parsing. Any other request is parsed, and the response is found by what the request means: unknown
//! parameters, percent-encoding and the order of ids make no difference. A client that adds a random
//! parameter to each request therefore costs a parse, not a compression.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use super::content_encoding::pack;
use crate::config::limits::ANSWERS_BYTES;
use crate::types::UnixSeconds;

/// The bytes of request texts that are remembered. All are forgotten when more would be, which costs
/// the next request of each text one parse.
const TEXT_BYTES: usize = 1024 * 1024;

/// A body, and its compressed form once a client has asked for it.
#[derive(Debug)]
pub struct CompressibleBody {
    identity: Bytes,
    gzip: OnceLock<Option<Bytes>>,
}

impl CompressibleBody {
    /// The body without a content coding.
    #[must_use]
    pub const fn identity(&self) -> &Bytes {
        &self.identity
    }

    /// The compressed body, if it has been made.
    #[must_use]
    pub fn ready(&self) -> Option<&Bytes> {
        self.gzip.get()?.as_ref()
    }

    /// The compressed body. Of concurrent callers one compresses, and the others wait for it.
    #[must_use]
    pub fn gzip(&self) -> Option<&Bytes> {
        self.gzip.get_or_init(|| pack(&self.identity)).as_ref()
    }
}

impl<B: Into<Bytes>> From<B> for CompressibleBody {
    fn from(identity: B) -> Self {
        Self {
            identity: identity.into(),
            gzip: OnceLock::new(),
        }
    }
}

/// A response that may be sent again.
#[derive(Clone, Debug)]
pub struct CachedResponse {
    /// The body.
    pub body: Arc<CompressibleBody>,
    /// The number that the entity tag is made of.
    pub tag: u64,
    /// When the response changes; `None` as long as the schedule does not change.
    pub until: Option<UnixSeconds>,
}

/// The moment at which a response is looked up or made.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The instant.
    pub now: UnixSeconds,
    /// The generation of the schedule, read before the schedule itself.
    pub generation: u64,
}

struct Entry {
    meaning: Box<str>,
    response: CachedResponse,
    made: UnixSeconds,
    /// Set by each use, cleared by each eviction: an entry that was used in between stays.
    used: AtomicBool,
}

/// The key of both maps: a checksum, computed several times faster than the hash of a map over a list
/// of a hundred ids. Texts are compared, so of two with one checksum the later one stays.
type Checksum = u32;

/// Cached responses of the newest schedule.
pub struct ResponseCache {
    state: Mutex<State>,
    limit: usize,
}

#[derive(Default)]
struct State {
    generation: u64,
    by_meaning: HashMap<Checksum, Arc<Entry>>,
    /// The bytes of the entries in `by_meaning`.
    filled: usize,
    /// Weak: an evicted response must not stay in memory for the sake of a request's text.
    by_request: HashMap<Checksum, (Box<str>, Weak<Entry>)>,
    text_bytes: usize,
}

impl Default for ResponseCache {
    fn default() -> Self {
        Self::within(ANSWERS_BYTES)
    }
}

impl ResponseCache {
    /// A cache of at most `limit` bytes of bodies.
    #[must_use]
    pub fn within(limit: usize) -> Self {
        Self {
            state: Mutex::default(),
            limit,
        }
    }

    /// The response to a request with this text, if it is cached and still true.
    #[must_use]
    pub fn find_by_text(&self, request: &str, at: Moment) -> Option<CachedResponse> {
        let mut state = self.state.lock();
        let state = state.for_generation(at.generation)?;
        let (text, entry) = state.by_request.get(&checksum(request))?;
        let entry = entry.upgrade().filter(|_| **text == *request)?;
        entry.response_at(at.now)
    }

    /// The response to a request with this meaning, if it is cached and still true. The next request
    /// with the same text is found by its text.
    #[must_use]
    pub fn find_by_meaning(
        &self,
        meaning: &str,
        request: &str,
        at: Moment,
    ) -> Option<CachedResponse> {
        let mut state = self.state.lock();
        let state = state.for_generation(at.generation)?;
        let entry = state.by_meaning.get(&checksum(meaning))?;
        let entry = Arc::clone(entry);
        if *entry.meaning != *meaning {
            return None;
        }
        let response = entry.response_at(at.now)?;
        state.remember_text(request, &entry);
        Some(response)
    }

    /// Caches the response to a request.
    pub fn insert(&self, meaning: &str, request: &str, response: CachedResponse, at: Moment) {
        let entry = Arc::new(Entry {
            meaning: meaning.into(),
            response,
            made: at.now,
            used: AtomicBool::new(false),
        });
        if let Some(state) = self.state.lock().for_generation(at.generation)
            && state.insert(&entry, self.limit)
        {
            state.remember_text(request, &entry);
        }
    }
}

impl State {
    /// Drops what was made of an earlier schedule; `None` if a later one is served already.
    fn for_generation(&mut self, generation: u64) -> Option<&mut Self> {
        if self.generation < generation {
            *self = Self {
                generation,
                ..Self::default()
            };
        }
        (self.generation == generation).then_some(self)
    }

    /// Returns whether there was room for the entry.
    fn insert(&mut self, entry: &Arc<Entry>, limit: usize) -> bool {
        let bytes = entry.bytes();
        if bytes > limit / 2 {
            return false;
        }
        if self.filled + bytes > limit {
            self.by_meaning
                .retain(|_, entry| entry.used.swap(false, Ordering::Relaxed));
            self.filled = self.by_meaning.values().map(|entry| entry.bytes()).sum();
        }
        if self.filled + bytes > limit {
            self.by_meaning.clear();
            self.filled = 0;
        }
        self.filled += bytes;
        let replaced = self
            .by_meaning
            .insert(checksum(&entry.meaning), Arc::clone(entry));
        self.filled -= replaced.map_or(0, |replaced| replaced.bytes());
        true
    }

    fn remember_text(&mut self, request: &str, entry: &Arc<Entry>) {
        let bytes = request.len() + size_of::<(Checksum, Box<str>, Weak<Entry>)>();
        if self.text_bytes + bytes > TEXT_BYTES {
            self.by_request.clear();
            self.text_bytes = 0;
        }
        self.text_bytes += bytes;
        self.by_request
            .insert(checksum(request), (request.into(), Arc::downgrade(entry)));
    }
}

fn checksum(text: &str) -> Checksum {
    crc32fast::hash(text.as_bytes())
}

impl Entry {
    fn bytes(&self) -> usize {
        // The compressed form is made later and is at most as large.
        2 * self.response.body.identity.len() + self.meaning.len() + size_of::<Self>()
    }

    fn response_at(&self, now: UnixSeconds) -> Option<CachedResponse> {
        let holds = self.made <= now && self.response.until.is_none_or(|until| now < until);
        self.used.store(true, Ordering::Relaxed);
        holds.then(|| self.response.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(length: usize, until: Option<i64>) -> CachedResponse {
        CachedResponse {
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
    fn a_response_is_found_as_long_as_it_is_true() {
        let cache = ResponseCache::within(100_000);
        assert!(cache.find_by_text("a?1", at(10, 0)).is_none());
        cache.insert("a", "a?1", response(10, Some(20)), at(10, 0));
        for (now, generation, found) in
            [(10, 0, true), (19, 0, true), (20, 0, false), (9, 0, false)]
        {
            let by_text = cache.find_by_text("a?1", at(now, generation));
            assert_eq!(by_text.is_some(), found, "{now}");
            let by_meaning = cache.find_by_meaning("a", "a?2", at(now, generation));
            assert_eq!(by_meaning.is_some(), found, "{now}");
        }
        assert!(cache.find_by_text("a?3", at(10, 0)).is_none());
        assert!(cache.find_by_text("a?1", at(10, 1)).is_none());
        // The schedule that it was made of is no longer served.
        assert!(cache.find_by_text("a?1", at(10, 0)).is_none());
    }

    #[test]
    fn another_text_with_the_same_meaning_shares_the_body() {
        let cache = ResponseCache::within(100_000);
        cache.insert("a", "a?1", response(10, None), at(0, 0));
        let first = cache.find_by_text("a?1", at(0, 0)).unwrap();
        assert!(cache.find_by_text("a?1&x=7", at(0, 0)).is_none());
        let second = cache.find_by_meaning("a", "a?1&x=7", at(0, 0)).unwrap();
        assert!(Arc::ptr_eq(&first.body, &second.body));
        let third = cache.find_by_text("a?1&x=7", at(0, 0)).unwrap();
        assert!(Arc::ptr_eq(&first.body, &third.body));
    }

    #[test]
    fn a_response_in_use_survives_a_flood_of_others_within_the_bound() {
        let cache = ResponseCache::within(100_000);
        cache.insert("wanted", "wanted", response(1_000, None), at(0, 0));
        for number in 0..10_000 {
            let name = number.to_string();
            cache.insert(&name, &name, response(1_000, None), at(0, 0));
            let found = cache.find_by_meaning("wanted", "wanted", at(0, 0));
            assert!(found.is_some(), "{number}");
            let state = cache.state.lock();
            let bytes: usize = state.by_meaning.values().map(|entry| entry.bytes()).sum();
            assert_eq!(bytes, state.filled);
            assert!(bytes <= 100_000, "{bytes}");
            assert!(state.text_bytes <= TEXT_BYTES);
        }
        assert!(cache.find_by_text("0", at(0, 0)).is_none());
        cache.insert("huge", "huge", response(30_000, None), at(0, 0));
        assert!(cache.find_by_text("huge", at(0, 0)).is_none());
    }

    #[test]
    fn a_flood_of_texts_keeps_the_response() {
        let cache = ResponseCache::within(100_000);
        cache.insert("a", "a", response(10, None), at(0, 0));
        for number in 0..100_000 {
            let text = format!("a&x={number}");
            assert!(cache.find_by_meaning("a", &text, at(0, 0)).is_some());
        }
        assert!(cache.state.lock().text_bytes <= TEXT_BYTES);
    }

    #[test]
    fn a_body_is_compressed_once() {
        let body = CompressibleBody::from(vec![b'x'; 10_000]);
        assert!(body.ready().is_none());
        let gzip = body.gzip().unwrap().as_ptr();
        assert_eq!(body.gzip().unwrap().as_ptr(), gzip);
        assert_eq!(body.ready().unwrap().as_ptr(), gzip);
    }
}
