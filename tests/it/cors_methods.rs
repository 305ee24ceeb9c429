//! CORS and `Allow` for every path of both route tables with every method and origin. The cases are generated from the
//! tables, so a new route is included automatically.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use playgate_api::route_table::ROUTERS;
use playgate_config::http::CorsOrigins;
use playgate_http::{Route, RouteSet};

use crate::support::gate_only::GateOnly;
use crate::support::raw_http::{Answer, Wire, request};

const METHODS: [&str; 8] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE",
];
const OURS: &str = "https://ours.example";
const THEIRS: &str = "https://theirs.example";

/// Returns the paths of a table with their routes. Parameters are replaced by a value.
fn paths(table: RouteSet) -> BTreeMap<String, Vec<&'static Route>> {
    let mut paths: BTreeMap<String, Vec<&'static Route>> = BTreeMap::new();
    for route in ROUTERS.of(table).routes() {
        let path = route
            .pattern
            .replace("{*path}", "x")
            .replace(['{', '}'], "");
        paths.entry(path).or_default().push(route);
    }
    paths
}

/// Returns the methods of a path in the order of `Allow`.
fn allowed(routes: &[&Route]) -> Vec<&'static str> {
    let order = ["GET", "POST", "PUT", "DELETE"];
    let mut methods = Vec::new();
    for method in order {
        if routes.iter().any(|route| route.method.as_str() == method) {
            methods.push(method);
            methods.extend((method == "GET").then_some("HEAD"));
        }
    }
    methods.push("OPTIONS");
    methods
}

/// A connection that reconnects after the server has closed it.
struct Caller {
    address: SocketAddr,
    wire: Wire,
}

impl Caller {
    fn new(address: SocketAddr) -> Self {
        let wire = Wire::to(address);
        Self { address, wire }
    }

    fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let bytes = request(method, path, headers, "");
        let answer = self.wire.send(&bytes).answer_to(method);
        let answer = answer.unwrap_or_else(|| panic!("{method} {path}: no answer"));
        if answer.header("connection") == Some("close") {
            self.wire = Wire::to(self.address);
        }
        answer
    }
}

fn list(answer: &Answer, name: &str) -> Vec<String> {
    let value = answer.header(name).unwrap_or_default();
    let items = value.split(',').map(|item| item.trim().to_owned());
    items.filter(|item| !item.is_empty()).collect()
}

/// Checks whether a browser would let a script of this origin read the response.
fn assert_readable(answer: &Answer, open: bool, listed: bool, origin: Option<&str>, what: &str) {
    let allowed = match (open, listed, origin) {
        (false, ..) | (.., None) => None,
        (true, false, Some(_)) => Some("*"),
        (true, true, Some(origin)) => (origin == OURS).then_some(OURS),
    };
    assert_eq!(
        answer.header("access-control-allow-origin"),
        allowed,
        "{what}"
    );
    let exposed = list(answer, "access-control-expose-headers");
    assert_eq!(
        exposed.contains(&"Retry-After".to_owned()),
        allowed.is_some(),
        "{what}"
    );
    assert_eq!(
        answer.header("access-control-allow-credentials"),
        None,
        "{what}"
    );
    if open && listed && origin.is_some() {
        // A cached response for one origin must not be used for another.
        assert!(
            list(answer, "vary").contains(&"Origin".to_owned()),
            "{what}"
        );
    }
}

#[test]
fn every_path_handles_every_method_from_every_origin() {
    let mut seen = 0;
    for listed in [false, true] {
        let server = GateOnly::with(|settings, _| {
            if listed {
                settings.cors_origins = CorsOrigins::Listed(vec![OURS.to_owned()]);
            }
        });
        for (table, address) in [
            (RouteSet::Public, server.public),
            (RouteSet::Ops, server.ops),
        ] {
            let mut caller = Caller::new(address);
            for (path, routes) in paths(table) {
                let methods = allowed(&routes);
                for method in METHODS {
                    let route = routes.iter().find(|route| {
                        let verb = route.method.as_str();
                        verb == method || (verb == "GET" && method == "HEAD")
                    });
                    let is_same_origin = route.is_some_and(|route| route.is_same_origin);
                    let open = table == RouteSet::Public && !is_same_origin;
                    for origin in [None, Some(OURS), Some(THEIRS), Some("null")] {
                        let what = format!("{method} {path} from {origin:?}, listed: {listed}");
                        let headers: Vec<_> = origin.map(|o| ("Origin", o)).into_iter().collect();
                        let answer = caller.ask(method, &path, &headers);
                        assert_readable(&answer, open, listed, origin, &what);
                        seen += 1;
                        match (method, route) {
                            ("OPTIONS", _) => {
                                assert_eq!(answer.status, 204, "{what}");
                                assert_eq!(list(&answer, "allow"), methods, "{what}");
                            }
                            (_, None) => {
                                assert_eq!(answer.status, 405, "{what}");
                                if method != "HEAD" {
                                    assert_eq!(answer.code(), "METHOD_NOT_ALLOWED", "{what}");
                                }
                                assert_eq!(list(&answer, "allow"), methods, "{what}");
                            }
                            (_, Some(_)) => {
                                let status = answer.status;
                                assert!(status < 500 && status != 405, "{what}: {status}");
                                assert!(answer.header("x-request-id").is_some(), "{what}");
                            }
                        }
                        if method == "OPTIONS" && origin.is_some() {
                            let mut asking = headers.clone();
                            asking.push(("Access-Control-Request-Method", "POST"));
                            asking.push((
                                "Access-Control-Request-Headers",
                                "authorization,service-play-drm",
                            ));
                            let preflight = caller.ask(method, &path, &asking);
                            assert_readable(&preflight, open, listed, origin, &what);
                            let allowed_methods = list(&preflight, "access-control-allow-methods");
                            assert_eq!(allowed_methods, methods, "{what}");
                            let names = list(&preflight, "access-control-allow-headers");
                            assert_eq!(names, ["authorization", "service-play-drm"], "{what}");
                        }
                    }
                }
            }
        }
    }
    // Control: the tables were not empty.
    assert!(seen >= 64 * 80, "{seen}");
}
