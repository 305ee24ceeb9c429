//! Metrics of requests, connections and licenses.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use http::StatusCode;
use parking_lot::Mutex;

use crate::errors::code::NO_LIVE_RIGHTS_STATUS;
use crate::route_facts::{AllRouteFacts, RouteFacts, RouteSet};
use playgate_observe::Registry;
use playgate_observe::metrics::{Counter, Gauge, Histogram};
use playgate_ports::license_server::UpstreamError;
use playgate_types::{Drm, PartnerId};

/// Status classes. 552 is a regular response, so it has a class apart from server failures.
const CLASSES: [&str; 5] = ["2xx", "3xx", "4xx", "5xx", "552"];

fn class(status: StatusCode) -> usize {
    match status.as_u16() {
        NO_LIVE_RIGHTS_STATUS => 4,
        ..300 => 0,
        300..400 => 1,
        400..500 => 2,
        _ => 3,
    }
}

const SYSTEMS: [Drm; 4] = [Drm::Widevine, Drm::Playready, Drm::Fairplay, Drm::Clearkey];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LicenseResult {
    Issued,
    Certificate,
    Denied,
    Refused,
    Failed,
    TimedOut,
    /// The license server was not called: too many requests wait for it, or its circuit breaker is open.
    NotAsked,
}

impl LicenseResult {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Issued, "issued"),
        (Self::Certificate, "certificate"),
        (Self::Denied, "denied"),
        (Self::Refused, "refused"),
        (Self::Failed, "failed"),
        (Self::TimedOut, "timed_out"),
        (Self::NotAsked, "not_asked"),
    ];

    pub fn from_error(error: &UpstreamError) -> Self {
        match error {
            UpstreamError::Refused(_) => Self::Refused,
            UpstreamError::Status(_)
            | UpstreamError::Limited(_)
            | UpstreamError::Empty
            | UpstreamError::TooLarge
            | UpstreamError::Connection(_) => Self::Failed,
            UpstreamError::TimedOut => Self::TimedOut,
            UpstreamError::Resting => Self::NotAsked,
        }
    }
}

struct RouteMetrics {
    requests: [Arc<Counter>; 5],
    duration: Arc<Histogram>,
}

impl RouteMetrics {
    fn new(registry: &Registry, label: &str) -> Self {
        Self {
            requests: CLASSES.map(|class| {
                registry.counter(
                    "playgate_http_requests_total",
                    "HTTP requests by route and status class.",
                    &[("route", label), ("status", class)],
                )
            }),
            duration: registry.histogram(
                "playgate_http_request_duration_seconds",
                "Seconds from a complete request head to the response head.",
                &[("route", label)],
            ),
        }
    }
}

/// Refusals by route, code and partner. A series exists from its first refusal on.
pub(crate) struct RefusalMetrics {
    registry: Arc<Registry>,
    /// By the text of the labels and not by the partner: a partner that is added again under its old name, or one that is
    /// named like [`OTHER`], must not make a second sample with equal labels.
    series: DashMap<(&'static str, &'static str, Arc<str>), Arc<Counter>>,
    named: Mutex<HashMap<PartnerId, Arc<str>>>,
}

const OTHER: &str = "other";

/// Number of partners with a separate label, in the order of their first refusals. It bounds the number of series.
const PARTNERS_NAMED: usize = 50;

impl RefusalMetrics {
    fn new(registry: &Arc<Registry>) -> Self {
        Self {
            registry: Arc::clone(registry),
            series: DashMap::new(),
            named: Mutex::default(),
        }
    }

    pub(crate) fn count(
        &self,
        route: &'static str,
        code: &'static str,
        partner: Option<PartnerId>,
        name: impl FnOnce() -> Option<String>,
    ) {
        // Without a partner no partner token was accepted.
        let label = partner.map_or_else(|| "".into(), |partner| self.label(partner, name));
        let key = (route, code, Arc::clone(&label));
        let series = self.series.entry(key).or_insert_with(|| {
            self.registry.counter(
                "playgate_requests_refused_total",
                "Refused requests by route, error code and partner; `other` for partners beyond 50.",
                &[("route", route), ("code", code), ("partner", &label)],
            )
        });
        series.one();
    }

    fn label(&self, partner: PartnerId, name: impl FnOnce() -> Option<String>) -> Arc<str> {
        let mut named = self.named.lock();
        // A partner keeps its label for ever, because a counter that changes its meaning is useless.
        if let Some(label) = named.get(&partner) {
            return Arc::clone(label);
        }
        if named.len() >= PARTNERS_NAMED {
            return OTHER.into();
        }
        // The name is looked up only once: refusals may come in floods.
        let label: Arc<str> = name().unwrap_or_else(|| partner.to_string()).into();
        named.insert(partner, Arc::clone(&label));
        label
    }
}

pub struct HttpMetrics {
    public: Vec<RouteMetrics>,
    ops: Vec<RouteMetrics>,
    unmatched: RouteMetrics,
    licenses: Vec<(Drm, LicenseResult, Arc<Counter>)>,
    pub connections: Arc<Gauge>,
    pub refused: Arc<Counter>,
    pub panics: Arc<Counter>,
    pub(crate) refusals: RefusalMetrics,
}

fn licenses(registry: &Registry) -> Vec<(Drm, LicenseResult, Arc<Counter>)> {
    let each = |drm: Drm| {
        LicenseResult::ALL.map(|(result, name)| {
            let counter = registry.counter(
                "playgate_licenses_total",
                "License requests by DRM system and result.",
                &[("system", drm.as_str()), ("result", name)],
            );
            (drm, result, counter)
        })
    };
    SYSTEMS.into_iter().flat_map(each).collect()
}

impl HttpMetrics {
    pub fn new(registry: &Arc<Registry>, routes: &AllRouteFacts) -> Self {
        let of = |routes: &[RouteFacts]| {
            routes
                .iter()
                .map(|route| RouteMetrics::new(registry, route.label))
                .collect()
        };
        Self {
            public: of(&routes.public),
            ops: of(&routes.ops),
            // One series for all unknown paths: a scanner must not create a label for each path that it tries.
            unmatched: RouteMetrics::new(registry, "none"),
            licenses: licenses(registry),
            connections: registry.gauge("playgate_http_connections", "Open HTTP connections.", &[]),
            refused: registry.counter(
                "playgate_http_connections_refused_total",
                "Connections closed on arrival because a connection limit was reached.",
                &[],
            ),
            refusals: RefusalMetrics::new(registry),
            panics: registry.counter(
                "playgate_http_panics_total",
                "Requests answered with 500 because their handler panicked.",
                &[],
            ),
        }
    }

    pub fn license(&self, system: Drm, result: LicenseResult) {
        let mut counters = self.licenses.iter();
        if let Some((.., counter)) = counters.find(|(drm, of, _)| (*drm, *of) == (system, result)) {
            counter.one();
        }
    }

    pub fn answered(
        &self,
        table: RouteSet,
        route: Option<usize>,
        status: StatusCode,
        took: Duration,
    ) {
        let routes = match table {
            RouteSet::Public => &self.public,
            RouteSet::Ops => &self.ops,
        };
        // Looked up by index instead of label, because this runs for every response.
        let metrics = route
            .and_then(|at| routes.get(at))
            .unwrap_or(&self.unmatched);
        if let Some(counter) = metrics.requests.get(class(status)) {
            counter.one();
        }
        metrics.duration.observe(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route_facts::{RequiredToken, RouteMethod};

    #[test]
    fn no_live_rights_does_not_count_as_a_server_failure() {
        let registry = Arc::new(Registry::default());
        let heartbeat = RouteFacts {
            method: RouteMethod::Post,
            pattern: "/heartbeat",
            label: "heartbeat",
            operation_id: "heartbeat",
            token: RequiredToken::User,
        };
        let routes = AllRouteFacts {
            public: vec![heartbeat],
            ops: Vec::new(),
        };
        let metrics = HttpMetrics::new(&registry, &routes);
        let status = StatusCode::from_u16(NO_LIVE_RIGHTS_STATUS).unwrap();
        metrics.answered(RouteSet::Public, Some(0), status, Duration::ZERO);
        metrics.answered(
            RouteSet::Public,
            None,
            StatusCode::NOT_FOUND,
            Duration::ZERO,
        );
        let text = registry.render();
        for line in [
            "playgate_http_requests_total{route=\"heartbeat\",status=\"552\"} 1",
            "playgate_http_requests_total{route=\"heartbeat\",status=\"5xx\"} 0",
            "playgate_http_requests_total{route=\"none\",status=\"4xx\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}");
        }
    }

    #[test]
    fn partners_with_one_name_share_a_series() {
        let registry = Arc::new(Registry::default());
        let metrics = RefusalMetrics::new(&registry);
        let count = |number: u8, name: &str| {
            let partner = PartnerId::from_bytes([number; 16]);
            metrics.count("login", "RATE_LIMITED", Some(partner), || {
                Some(name.to_owned())
            });
        };
        // The second one was added under the name of the first, which was removed.
        count(1, "acme");
        count(2, "acme");
        count(3, OTHER);
        (4..60).for_each(|number| count(number, &number.to_string()));
        let text = registry.render();
        for (name, expected) in [("acme", "2"), (OTHER, "10")] {
            let line = format!("partner=\"{name}\"}} ");
            let values: Vec<_> = text
                .lines()
                .filter_map(|one| one.split_once(&line).map(|(_, value)| value))
                .collect();
            assert_eq!(values, [expected], "{name}");
        }
    }

    #[test]
    fn refusals_of_partners_beyond_fifty_share_a_label() {
        let registry = Arc::new(Registry::default());
        let metrics = RefusalMetrics::new(&registry);
        let count = |number: u8| {
            let partner = PartnerId::from_bytes([number; 16]);
            let name = || Some(format!("partner {number}"));
            metrics.count("login", "INVALID_CREDENTIALS", Some(partner), name);
        };
        (0..53).for_each(count);
        // One that has a label keeps it.
        count(7);
        let text = registry.render();
        let of = |label: &str| {
            let line = format!("code=\"INVALID_CREDENTIALS\",partner=\"{label}\"}} ");
            let value = text.lines().find_map(|one| one.split_once(&line));
            value.map(|(_, value)| value.to_owned())
        };
        assert_eq!(of("partner 7").as_deref(), Some("2"));
        assert_eq!(of("partner 49").as_deref(), Some("1"));
        assert_eq!(
            (of("partner 50"), of("other").as_deref()),
            (None, Some("3"))
        );
    }
}
