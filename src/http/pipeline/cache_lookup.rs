//! Looks a request up in the response cache.

use http::request::Parts;

use crate::request::headers::{EncodingPreference, RequestHeaders, preferred_encoding};
use crate::response::cache::Moment;
use crate::response::reply::Reply;
use crate::state::HttpState;
use playgate_types::UnixSeconds;

pub(crate) struct CacheLookup<'a> {
    http: &'a HttpState,
    text: &'a str,
    at: Moment,
}

impl<'a> CacheLookup<'a> {
    /// Returns `None` if the response will not be compressed and the request is shorter than `cached_from` bytes: it is
    /// answered faster than looked up.
    pub(crate) fn new(
        http: &'a HttpState,
        cached_from: usize,
        parts: &'a Parts,
        heads: &RequestHeaders<'_>,
        now: UnixSeconds,
    ) -> Option<Self> {
        let text = parts.uri.path_and_query()?.as_str();
        let compressed = preferred_encoding(heads.accept_encoding) != EncodingPreference::Identity;
        (compressed || text.len() >= cached_from).then(|| Self {
            http,
            text,
            at: Moment {
                now,
                generation: http.services.schedule.generation(),
            },
        })
    }

    /// Finds the response of a request with the same text, which need not be parsed.
    pub(crate) fn by_text(&self) -> Option<Reply> {
        let found = self.http.responses.find_by_text(self.text, self.at)?;
        Some(Reply::cached(found, self.at.now, self.max_age()))
    }

    pub(crate) fn by_meaning(&self, meaning: &str) -> Option<Reply> {
        let responses = &self.http.responses;
        let found = responses.find_by_meaning(meaning, self.text, self.at)?;
        Some(Reply::cached(found, self.at.now, self.max_age()))
    }

    pub(crate) fn insert(&self, meaning: &str, reply: &Reply) {
        if let Some(response) = reply.cacheable() {
            let responses = &self.http.responses;
            responses.insert(meaning, self.text, response, self.at);
        }
    }

    fn max_age(&self) -> u32 {
        self.http.services.config.schedule.max_age
    }
}
