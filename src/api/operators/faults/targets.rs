//! The routes that a fault can affect, and what a request of each can be matched by.

use playgate_decode::nearest;
use playgate_http::RouteFacts;
use playgate_http::route_facts::RequiredToken;

const LICENSES: &str = "license";

/// Every route with a partner token.
const ANY: &str = "any";

/// In the journal, a request that matches no route.
const NONE: &str = "none";

/// The ids that requests of a route contain, by which a fault can select them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    pub user: bool,
    pub asset: bool,
    pub device: bool,
    pub session: bool,
}

/// Returns the routes that a name means: the label or the operation id of one route, `license` or `any`. An unknown name
/// means none.
pub fn routes<'a>(partner_routes: &'a [RouteFacts], name: &str) -> Vec<&'a RouteFacts> {
    let known = partner_routes.iter().filter(|route| {
        // Requests without a partner token belong to no partner.
        matches!(route.token, RequiredToken::Partner | RequiredToken::User)
            // A test reads its results through the lab's routes, so no fault may affect them.
            && !route.pattern.starts_with("/api/lab/")
    });
    known
        .filter(|route| name == ANY || is_named(route, name))
        .collect()
}

/// Returns the labels of the routes of the partner interface that a name in a filter of the journal means.
pub(crate) fn journaled(partner_routes: &[RouteFacts], name: &str) -> Vec<&'static str> {
    let parameters = |route: &RouteFacts| route.pattern.matches('{').count();
    let at_path = || partner_routes.iter().filter(|route| is_at(route, name));
    // As the router prefers them: `…/live` is not the broadcast of that id.
    let fewest = at_path().map(parameters).min();
    let at_path = at_path().filter(|route| Some(parameters(route)) == fewest);
    let routes = partner_routes
        .iter()
        .filter(|route| is_named(route, name))
        .chain(at_path);
    let labels = routes.map(|route| route.label);
    labels.chain((name == NONE).then_some(NONE)).collect()
}

/// Returns the known name that is most like an unknown one.
pub(crate) fn nearest_name(partner_routes: &[RouteFacts], unknown: &str) -> Option<&'static str> {
    let names = partner_routes
        .iter()
        .flat_map(|route| [route.operation_id, route.label]);
    nearest(unknown, names.chain([LICENSES, NONE]))
}

fn is_named(route: &RouteFacts, name: &str) -> bool {
    let is_of_group = name == LICENSES && is_license(route);
    is_of_group || route.label == name || route.operation_id == name
}

/// Whether the text is a path of the route as a log has it: alone, behind a method, with its query, or as a whole address.
fn is_at(route: &RouteFacts, text: &str) -> bool {
    let (method, target) = match text.split_once(' ') {
        Some((method, target)) => (Some(method), target.trim()),
        None => (None, text),
    };
    let behind_host = target
        .split_once("://")
        .and_then(|(_, rest)| rest.find('/').and_then(|at| rest.get(at..)));
    let path = behind_host.unwrap_or(target);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let method = method.is_none_or(|method| method.eq_ignore_ascii_case(route.method.as_str()));
    let mut segments = path.split('/');
    let fits = route.pattern.split('/').all(|of_route| {
        let found = segments.next();
        found.is_some_and(|segment| of_route.starts_with('{') || of_route == segment)
    });
    method && fits && segments.next().is_none()
}

pub(crate) fn carried(route: &RouteFacts) -> Carried {
    // License and heartbeat name a session, which has asset and device.
    let plays = is_license(route) || matches!(route.label, "heartbeat" | "end_playback");
    let names_asset = ["{assetId}", "{livestreamId}"]
        .iter()
        .any(|name| route.pattern.contains(name));
    Carried {
        user: route.token == RequiredToken::User,
        asset: plays || names_asset,
        device: plays || is_preflight(route),
        session: plays || route.label == "entitlement",
    }
}

pub(crate) fn is_license(route: &RouteFacts) -> bool {
    route.label.starts_with("license_")
}

pub(crate) fn is_preflight(route: &RouteFacts) -> bool {
    route.label.starts_with("preflight")
}
