//! Parses query parameters, decoded once.
//!
//! Unknown parameters are ignored. A known parameter must not repeat, because two readers could pick
//! different values; only a list may be split over several.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use crate::errors::api_error::ApiError;
use crate::request::head_validation::percent_decode;
use playgate_config::limits::LIST_IDS;
use playgate_types::{ForeignId, Malformed};

#[derive(Clone, Copy, Debug)]
pub struct Query<'a>(&'a str);

/// Decodes `+` as a space, as HTML forms write it, and then percent-encoding.
fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.bytes().any(|b| matches!(b, b'+' | b'%')) {
        return Some(Cow::Borrowed(text));
    }
    // Before percent-decoding: `%2B` is a plus sign.
    let spaced = text.replace('+', " ");
    let bytes = percent_decode(spaced.as_bytes())?.into_owned();
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

impl<'a> Query<'a> {
    pub const fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// Returns the value of a parameter, or `None` if it is absent.
    ///
    /// # Errors
    /// `INVALID_REQUEST` if it repeats or cannot be decoded.
    pub fn one(&self, name: &'static str) -> Result<Option<Cow<'a, str>>, ApiError> {
        let mut values = self.values(name);
        let Some(value) = values.next() else {
            return Ok(None);
        };
        // Proxies and servers differ in which of two values they take.
        if values.next().is_some() {
            return Err(ApiError::field(name, "is given more than once"));
        }
        decoded(name, value).map(Some)
    }

    /// Returns the parameters as they were sent, without some.
    pub fn without(&self, names: &[&str]) -> String {
        let pairs = self.0.split('&').filter(|pair| {
            let key = pair.split('=').next().unwrap_or_default();
            let is_left_out = decode(key).is_some_and(|key| names.contains(&&*key));
            !pair.is_empty() && !is_left_out
        });
        pairs.collect::<Vec<_>>().join("&")
    }

    /// Refuses parameters that a route does not know, where leaving one out gives another answer than the client expects.
    ///
    /// # Errors
    /// `INVALID_REQUEST` that names the parameters of the route.
    pub fn only(&self, field: &'static str, known: &[&str]) -> Result<(), ApiError> {
        let mut pairs = self.0.split('&').filter(|pair| !pair.is_empty());
        let is_known = |pair: &str| {
            let key = pair.split('=').next().unwrap_or_default();
            decode(key).is_some_and(|key| known.contains(&&*key))
        };
        if pairs.all(is_known) {
            return Ok(());
        }
        let why = format!("is unknown; there are {}", known.join(", "));
        Err(ApiError::field(field, why))
    }

    fn values(&self, name: &'static str) -> impl Iterator<Item = &'a str> {
        self.0.split('&').filter_map(move |pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            // A name that cannot be decoded is unknown.
            (key == name || decode(key).as_deref() == Some(name)).then_some(value)
        })
    }

    pub fn parsed<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Result<Option<T>, ApiError> {
        self.one(name)?
            .map(|text| parse(&text).map_err(|why| ApiError::field(name, why.0)))
            .transpose()
    }

    /// Parses `true` or `false`. An absent parameter is false, a bare `?name` is true.
    ///
    /// # Errors
    /// `INVALID_REQUEST` that names the parameter.
    pub fn flag(&self, name: &'static str) -> Result<bool, ApiError> {
        match self.one(name)?.as_deref() {
            None | Some("false" | "0") => Ok(false),
            Some("" | "true" | "1") => Ok(true),
            Some(_) => Err(ApiError::field(name, "must be true or false")),
        }
    }

    /// Reads a list of ids, separated by commas or given as repeated parameters. It is split after decoding.
    /// Returns `None` if the parameter is absent.
    ///
    /// # Errors
    /// `INVALID_REQUEST` that names the parameter.
    pub fn ids<T: ForeignId>(&self, name: &'static str) -> Result<Option<IdList<T>>, ApiError> {
        let values = self.all(name)?;
        let mut ids = Vec::new();
        for element in values.iter().flat_map(|value| value.split(',')) {
            if element.is_empty() {
                return Err(ApiError::field(name, "has an empty element"));
            }
            T::check(element).map_err(|why| ApiError::field(name, why.0))?;
            ids.push(element);
        }
        ids.sort_unstable();
        // Sorted and unique before they are counted: permutations share one cached response, and the limit is
        // on the objects that a response has.
        ids.dedup();
        if ids.len() > LIST_IDS {
            return Err(ApiError::field(name, "has at most 200 different ids"));
        }
        // Every value contained at least one id, or was refused above.
        Ok((!ids.is_empty()).then(|| IdList(ids.join(","), PhantomData)))
    }

    pub fn required_ids<T: ForeignId>(&self, name: &'static str) -> Result<IdList<T>, ApiError> {
        self.ids(name)?
            .ok_or_else(|| ApiError::field(name, "is missing"))
    }

    /// Returns all values of a parameter that may be repeated, in order.
    ///
    /// # Errors
    /// `INVALID_REQUEST` if one cannot be decoded.
    pub fn all(&self, name: &'static str) -> Result<Vec<Cow<'a, str>>, ApiError> {
        self.values(name)
            .map(|value| decoded(name, value))
            .collect()
    }
}

fn decoded<'a>(name: &'static str, value: &'a str) -> Result<Cow<'a, str>, ApiError> {
    decode(value).ok_or_else(|| ApiError::field(name, "is not percent-encoded UTF-8"))
}

/// One to 200 distinct ids, sorted. Kept as their text, since most lists only name a cached response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdList<T>(String, PhantomData<T>);

impl<T: ForeignId> IdList<T> {
    pub fn to_vec(&self) -> Vec<T> {
        // Each element was checked when the list was read.
        let ids = self.0.split(',').map(T::parse);
        ids.filter_map(Result::ok).collect()
    }

    pub fn has(&self, id: &str) -> bool {
        self.0.split(',').any(|element| element == id)
    }
}

impl<T> fmt::Display for IdList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use playgate_types::{LiveOffset, LivestreamId};

    #[test]
    fn values_are_decoded_once() {
        let query = Query::new("a=x%2541&b=%C3%A4+o&c&%64=e&f=%zz&g=%ff");
        assert_eq!(query.one("a").unwrap().as_deref(), Some("x%41"));
        assert_eq!(query.one("b").unwrap().as_deref(), Some("ä o"));
        assert_eq!(query.one("c").unwrap().as_deref(), Some(""));
        assert_eq!(query.one("d").unwrap().as_deref(), Some("e"));
        assert_eq!(query.one("z").unwrap(), None);
        assert!(query.one("f").is_err());
        assert!(query.one("g").is_err());
    }

    #[test]
    fn a_known_member_comes_once() {
        let query = Query::new("offset=0&offset=0&x=1&x=2&a=1&%61=2");
        assert!(query.parsed("offset", LiveOffset::parse).is_err());
        assert!(query.one("a").is_err());
        assert!(Query::new("x=1&x=2&offset=-5").one("offset").is_ok());
        for bad in ["1", "-86401", "%2B0", "+0", "1e2", ""] {
            let text = format!("offset={bad}");
            assert!(
                Query::new(&text)
                    .parsed("offset", LiveOffset::parse)
                    .is_err(),
                "{bad}"
            );
        }
    }

    #[test]
    fn lists_are_bounded_folded_and_without_gaps() {
        let ids = |text: &str| {
            Query::new(text)
                .required_ids::<LivestreamId>("livestreams")
                .map(|list| {
                    list.to_vec()
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                })
        };
        assert_eq!(ids("livestreams=b,a,b").unwrap(), ["a", "b"]);
        assert_eq!(ids("livestreams=b%2Ca").unwrap(), ["a", "b"]);
        for same in [
            "livestreams=b&livestreams=a",
            "livestreams=b&x=1&%6civestreams=a,b&livestreams=b",
            "livestreams=b,a&livestreams=a%2Cb",
        ] {
            assert_eq!(ids(same).unwrap(), ["a", "b"], "{same}");
        }
        let each = |n: usize| {
            (0..n)
                .map(|n| format!("&livestreams=x{}", n % 200))
                .collect::<String>()
        };
        assert_eq!(ids(&each(450)).unwrap().len(), 200);
        assert!(ids(&format!("{}&livestreams=one-more", each(450))).is_err());
        let same = format!("livestreams={}", vec!["a"; 300].join(","));
        assert_eq!(ids(&same).unwrap(), ["a"]);
        let many = |n: usize| {
            let ids: Vec<_> = (0..n).map(|n| format!("x{n},a")).collect();
            format!("livestreams={}", ids.join(","))
        };
        assert_eq!(ids(&many(199)).unwrap().len(), 200);
        assert!(ids(&many(200)).is_err());
        for bad in [
            "",
            "livestreams",
            "livestreams=",
            "livestreams=,",
            "livestreams=a,",
            "livestreams=a,,b",
            "livestreams=a&livestreams=",
            "livestreams&livestreams=a",
            "livestreams=a&livestreams=b,",
        ] {
            assert!(ids(bad).is_err(), "{bad}");
        }
        assert!(ids(&format!("livestreams={}", "x".repeat(1024))).is_err());
    }

    #[test]
    fn flags_have_two_values() {
        assert!(Query::new("merge").flag("merge").unwrap());
        assert!(Query::new("merge=true").flag("merge").unwrap());
        assert!(!Query::new("merge=false").flag("merge").unwrap());
        assert!(!Query::new("").flag("merge").unwrap());
        assert!(Query::new("merge=yes").flag("merge").is_err());
    }
}
