//! Bounded cache of schedule responses, uncompressed and compressed.
//!
//! All clients of a partner request the same livestreams, and the response changes only with the next
//! program. Parsing a hundred ids, finding their programs and joining two megabytes costs more than sending
//! them; compressing costs twenty times more.
//!
//! A look-up has two steps. A request text that was seen before finds its response without parsing. Any other
//! request is parsed and finds it by meaning: unknown parameters, percent-encoding and the order of ids make
//! no difference. A client that adds a random parameter to each request therefore costs a parse, not a
//! compression.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::response::prepared::CachedResponse;
use playgate_config::limits::RESPONSE_CACHE_BYTES;
use playgate_types::UnixSeconds;

/// Limit of remembered request texts, in bytes. Above it all are dropped, which costs the next request of
/// each text one parse.
const TEXT_BYTES: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub now: UnixSeconds,
    /// Must be read before the schedule itself.
    pub generation: u64,
}

struct CachedEntry {
    meaning: Box<str>,
    response: CachedResponse,
    made: UnixSeconds,
    /// Set by each use, cleared by the eviction scan: a used entry survives one scan.
    used: AtomicBool,
}

/// Key of both maps. A checksum is several times faster than a keyed hash over a list of a hundred ids. The
/// texts are compared as well; on a collision the newer entry stays.
type Checksum = u32;

pub struct ResponseCache {
    state: Mutex<CacheState>,
    limit: usize,
}

#[derive(Default)]
struct CacheState {
    generation: u64,
    by_meaning: HashMap<Checksum, Arc<CachedEntry>>,
    filled: usize,
    /// Weak, so that a request text does not keep an evicted response in memory.
    by_request: HashMap<Checksum, (Box<str>, Weak<CachedEntry>)>,
    text_bytes: usize,
}

impl Default for ResponseCache {
    fn default() -> Self {
        Self::within(RESPONSE_CACHE_BYTES)
    }
}

impl ResponseCache {
    pub fn within(limit: usize) -> Self {
        Self {
            state: Mutex::default(),
            limit,
        }
    }

    pub fn find_by_text(&self, request: &str, at: Moment) -> Option<CachedResponse> {
        let mut state = self.state.lock();
        let state = state.for_generation(at.generation)?;
        let (text, entry) = state.by_request.get(&checksum(request))?;
        let entry = entry.upgrade().filter(|_| **text == *request)?;
        entry.response_at(at.now)
    }

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

    pub fn insert(&self, meaning: &str, request: &str, response: CachedResponse, at: Moment) {
        let entry = Arc::new(CachedEntry {
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

impl CacheState {
    /// Drops the responses of earlier generations. Returns `None` if a later one is already served.
    fn for_generation(&mut self, generation: u64) -> Option<&mut Self> {
        if self.generation < generation {
            *self = Self {
                generation,
                ..Self::default()
            };
        }
        (self.generation == generation).then_some(self)
    }

    fn insert(&mut self, entry: &Arc<CachedEntry>, limit: usize) -> bool {
        let bytes = entry.bytes();
        // One huge response must not evict all others.
        if bytes > limit / 2 {
            return false;
        }
        if self.filled + bytes > limit {
            self.by_meaning
                .retain(|_, entry| entry.used.swap(false, Ordering::Relaxed));
            self.filled = self.by_meaning.values().map(|entry| entry.bytes()).sum();
        }
        if self.filled + bytes > limit {
            // Every entry was used since the last scan. Starting over costs each response one rendering.
            self.by_meaning.clear();
            self.filled = 0;
        }
        self.filled += bytes;
        // An earlier entry of this meaning that has expired, or another meaning with the same checksum.
        let replaced = self
            .by_meaning
            .insert(checksum(&entry.meaning), Arc::clone(entry));
        self.filled -= replaced.map_or(0, |replaced| replaced.bytes());
        true
    }

    fn remember_text(&mut self, request: &str, entry: &Arc<CachedEntry>) {
        let bytes = request.len() + size_of::<(Checksum, Box<str>, Weak<CachedEntry>)>();
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

impl CachedEntry {
    fn bytes(&self) -> usize {
        // Reserves room for the compressed form, which is at most as large.
        2 * self.response.body.identity().len() + self.meaning.len() + size_of::<Self>()
    }

    fn response_at(&self, now: UnixSeconds) -> Option<CachedResponse> {
        // `made <= now` fails when the clock was set back: the response would then be too new.
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
    fn a_response_is_found_until_it_changes() {
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
        // The generation is no longer served.
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
}
