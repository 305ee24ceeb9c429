//! The parameters in the path of a request.

use std::borrow::Cow;

use crate::errors::api_error::ApiError;
use crate::request::head_validation::decode;

const PARAMS_MAX: usize = 3;

#[derive(Clone, Copy, Debug, Default)]
pub struct Params {
    spans: [(&'static str, usize, usize); PARAMS_MAX],
}

impl Params {
    /// Keeps the positions of the parameters, which are slices of `path`.
    pub(crate) fn new<'p>(
        path: &'p str,
        found: impl Iterator<Item = (&'static str, &'p str)>,
    ) -> Self {
        let mut params = Self::default();
        let start = path.as_ptr().addr();
        for (slot, (name, value)) in params.spans.iter_mut().zip(found) {
            // Positions instead of texts: the parameters outlive the borrow of the request without an allocation.
            let from = value.as_ptr().addr().saturating_sub(start);
            *slot = (name, from, from + value.len());
        }
        params
    }

    pub fn has(&self, name: &str) -> bool {
        self.spans.iter().any(|(known, _, _)| *known == name)
    }

    /// Returns the parameter as it was sent, still percent-encoded.
    fn raw<'p>(&self, path: &'p str, name: &'static str) -> Result<&'p str, ApiError> {
        self.spans
            .iter()
            .find(|(known, _, _)| *known == name)
            .and_then(|(_, from, to)| path.get(*from..*to))
            // The route pattern and the endpoint disagree, which is a bug; the coverage tests check every
            // route.
            .ok_or_else(|| ApiError::internal(format!("the route has no parameter {name}")))
    }

    pub fn text<'p>(&self, path: &'p str, name: &'static str) -> Result<Cow<'p, str>, ApiError> {
        decode(self.raw(path, name)?).ok_or_else(|| ApiError::field(name, "is not valid UTF-8"))
    }
}
