//! Finds the route and the path parameters for a method and a path.

use http::header::ALLOW;
use http::{HeaderValue, Method};

use crate::errors::api_error::{ApiError, ErrorCode};
use crate::request::params::Params;
use crate::route_facts::{AllRouteFacts, RouteMethod, RouteSet};
use crate::routing::route::Route;

#[derive(Clone, Copy)]
pub enum RouteMatch {
    Route(usize, &'static Route, Params),
    Path(&'static PathEntry),
}

impl RouteMatch {
    /// A path without a route of the method serves OPTIONS only.
    pub fn check_method(self, method: &Method) -> Result<Self, ApiError> {
        match self {
            Self::Path(entry) if *method != Method::OPTIONS => Err(entry.refuse(method)),
            found => Ok(found),
        }
    }
}

pub struct PathEntry {
    routes: [Option<(usize, &'static Route)>; 4],
    /// Value of `Allow` and of `Access-Control-Allow-Methods`.
    pub allow: HeaderValue,
}

impl PathEntry {
    fn new() -> Self {
        Self {
            routes: [None; 4],
            allow: HeaderValue::from_static("OPTIONS"),
        }
    }

    fn add(&mut self, index: usize, route: &'static Route) {
        if let Some(slot) = self.routes.get_mut(route.method as usize) {
            *slot = Some((index, route));
        }
        let mut names = Vec::new();
        for (_, route) in self.routes.iter().flatten() {
            names.push(route.method.as_str());
            // HEAD is served wherever GET is (RFC 9110, 9.3.2).
            if route.method == RouteMethod::Get {
                names.push("HEAD");
            }
        }
        names.push("OPTIONS");
        if let Ok(allow) = HeaderValue::from_str(&names.join(", ")) {
            self.allow = allow;
        }
    }

    pub fn refuse(&self, method: &Method) -> ApiError {
        let allowed = self.allow.to_str().unwrap_or_default();
        let allowed = match allowed.rsplit_once(", ") {
            Some((others, last)) => format!("{others} or {last}"),
            None => allowed.to_owned(),
        };
        let message = format!("{method} is not allowed here; use {allowed}");
        // A 405 must list the allowed methods (RFC 9110, 15.5.6).
        ApiError::new(ErrorCode::MethodNotAllowed, message).with_header(ALLOW, self.allow.clone())
    }

    fn get(&self, method: RouteMethod) -> Option<(usize, &'static Route)> {
        self.routes.get(method as usize).copied().flatten()
    }
}

/// The routes of an interface, and how a path finds its route.
pub struct Router {
    set: RouteSet,
    routes: &'static [Route],
    matcher: matchit::Router<usize>,
    entries: Vec<PathEntry>,
}

impl Router {
    pub fn new(set: RouteSet, routes: &'static [Route]) -> Self {
        let mut matcher = matchit::Router::new();
        let mut entries: Vec<PathEntry> = Vec::new();
        let mut patterns: Vec<&str> = Vec::new();
        for (index, route) in routes.iter().enumerate() {
            // The same path with another method shares its entry.
            let known = patterns.iter().position(|p| *p == route.pattern);
            let at = known.unwrap_or_else(|| {
                #[expect(
                    clippy::expect_used,
                    reason = "the table is static and a test builds it: a conflict never ships"
                )]
                matcher
                    .insert(route.pattern, entries.len())
                    .expect("patterns do not conflict");
                patterns.push(route.pattern);
                entries.push(PathEntry::new());
                entries.len() - 1
            });
            if let Some(entry) = entries.get_mut(at) {
                entry.add(index, route);
            }
        }
        Self {
            set,
            routes,
            matcher,
            entries,
        }
    }

    pub const fn set(&self) -> RouteSet {
        self.set
    }

    pub const fn routes(&self) -> &'static [Route] {
        self.routes
    }

    /// Finds the route of a path that [`check_path`](crate::request::head_validation::check_path) accepted.
    ///
    /// # Errors
    /// `VERSION_NOT_SERVED` if the path exists in another version, which the message names; `PATH_NOT_FOUND`
    /// otherwise.
    pub fn find(&'static self, method: &Method, path: &str) -> Result<RouteMatch, ApiError> {
        let Ok(matched) = self.matcher.at(path) else {
            return Err(unknown_path(self, method, path));
        };
        let Some(entry) = self.entries.get(*matched.value) else {
            return Err(unknown_path(self, method, path));
        };
        let verb = match *method {
            Method::GET | Method::HEAD => RouteMethod::Get,
            Method::POST => RouteMethod::Post,
            Method::PUT => RouteMethod::Put,
            Method::DELETE => RouteMethod::Delete,
            // `check_method` answers OPTIONS for the path, and 405 with its methods for the rest.
            _ => return Ok(RouteMatch::Path(entry)),
        };
        let Some((index, route)) = entry.get(verb) else {
            return Ok(RouteMatch::Path(entry));
        };
        let params = Params::new(path, matched.params.iter());
        Ok(RouteMatch::Route(index, route, params))
    }
}

/// The routers of both interfaces.
pub struct Routers {
    pub public: Router,
    pub ops: Router,
}

impl Routers {
    pub const fn of(&self, set: RouteSet) -> &Router {
        match set {
            RouteSet::Public => &self.public,
            RouteSet::Ops => &self.ops,
        }
    }

    pub fn facts(&self) -> AllRouteFacts {
        let of = |router: &Router| router.routes.iter().map(Route::facts).collect();
        AllRouteFacts {
            public: of(&self.public),
            ops: of(&self.ops),
        }
    }
}

/// Interface versions, newest first. If a path exists in both, the older one is only an alias for deployed
/// clients, so messages name the newer one.
const VERSIONS: [&str; 2] = ["v2", "v1"];

const ECHOED_CHARS_MAX: usize = 120;
/// Longest path segment that a message repeats.
const ECHO_SEGMENT: usize = 32;

fn shorten(path: &str) -> String {
    let short = |segment| match segment {
        // All our tokens are longer, so no message, log or screenshot of one contains a token.
        long if str::len(long) > ECHO_SEGMENT => "…",
        short => short,
    };
    let mut shown = path.split('/').map(short).collect::<Vec<_>>().join("/");
    // Bounds the message, which repeats what a client sent.
    if let Some((end, _)) = shown.char_indices().nth(ECHOED_CHARS_MAX) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

fn unknown_path(router: &Router, method: &Method, path: &str) -> ApiError {
    let matcher = &router.matcher;
    // The empty text before the first slash, `api`, the interface, its version, and the rest.
    let mut segments = path.splitn(5, '/');
    if let (Some(""), Some("api"), Some(interface), Some(_), Some(rest)) = (
        segments.next(),
        segments.next(),
        segments.next(),
        segments.next(),
        segments.next(),
    ) {
        for version in VERSIONS {
            if matcher
                .at(&format!("/api/{interface}/{version}/{rest}"))
                .is_ok()
            {
                return ApiError::new(
                    ErrorCode::VersionNotServed,
                    format!("this address is served in version {version}"),
                );
            }
        }
    }
    let shown = shorten(path);
    let hint = match path
        .strip_suffix('/')
        .filter(|path| matcher.at(path).is_ok())
    {
        Some(_) => match shown.strip_suffix('/') {
            Some(path) => format!("the path without the trailing slash is {path}"),
            // The shown path was cut before its end.
            None => "remove the trailing slash".to_owned(),
        },
        None => "see /docs".to_owned(),
    };
    ApiError::new(
        ErrorCode::PathNotFound,
        format!("no route matches {method} {shown}; {hint}"),
    )
}
