//! Every route of the table, with every kind of token that is not its own.

use playgate::http::matcher::Table;
use playgate::http::routes::Target;
use playgate::types::Role;

use super::lab::Lab;
use super::wire::{ask, request};

#[test]
fn no_route_is_reached_without_its_proof() {
    let lab = Lab::start();
    let tokens = &lab.gate.tokens;
    let user = tokens.user.reveal();
    let partner = tokens.partner.reveal();
    let other = tokens.other_partner.reveal();
    let admin = tokens.admin.reveal();
    // (partner header, bearer): combinations that open nothing but what they are for.
    let combinations = [
        (None, None),
        (Some("00000000-0000-4000-8000-000000000000"), None),
        (Some(user), Some(partner)),
        (Some(partner), None),
        (Some(partner), Some(partner)),
        (Some(partner), Some(admin)),
        (Some(other), Some(user)),
        (None, Some(user)),
        (
            None,
            Some("pgu_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        ),
    ];
    for (table, address) in [(Table::Public, lab.public), (Table::Ops, lab.ops)] {
        for route in table.routes() {
            for (access, bearer) in combinations {
                let known_partner = access.is_some_and(|t| t == partner || t == other);
                let code = match route.target {
                    Target::Open(_) => continue,
                    Target::Partner(_) if known_partner => continue,
                    Target::User(_) if known_partner => "USER_TOKEN_INVALID",
                    Target::Partner(_) | Target::User(_) => "PARTNER_TOKEN_INVALID",
                    Target::Operator(_) if bearer == Some(admin) => continue,
                    Target::Operator(_) => "OPERATOR_TOKEN_INVALID",
                };
                let bearer = bearer.map(|token| format!("Bearer {token}"));
                let mut headers = Vec::new();
                headers.extend(access.map(|token| ("Service-AccessToken", token)));
                headers.extend(bearer.as_deref().map(|value| ("Authorization", value)));
                let path = route
                    .pattern
                    .replace("{*path}", "x")
                    .replace(['{', '}'], "");
                let answer = ask(address, request(route.method.as_str(), &path, &headers, ""));
                assert_eq!(
                    (answer.status, answer.code().as_str()),
                    (401, code),
                    "{} {path} with {headers:?}",
                    route.method.as_str()
                );
                assert!(answer.header("www-authenticate").is_some());
            }
        }
    }
}

#[test]
fn a_role_reaches_as_far_as_the_table_says() {
    let lab = Lab::start();
    let bearer = format!("Bearer {}", lab.gate.tokens.agent.reveal());
    for route in Table::Ops.routes() {
        let Some(roles) = route.roles() else {
            continue;
        };
        let path = route.pattern.replace(['{', '}'], "");
        let headers = [("Authorization", &*bearer)];
        let answer = ask(lab.ops, request(route.method.as_str(), &path, &headers, ""));
        assert_eq!(
            answer.status == 403,
            !roles.contains(&Role::Agent),
            "{path}"
        );
    }
}

#[test]
fn operations_are_not_on_the_public_listener() {
    let lab = Lab::start();
    for route in Table::Ops.routes() {
        let path = route.pattern.replace(['{', '}'], "");
        let (name, value) = lab.admin();
        let bytes = request(route.method.as_str(), &path, &[(name, &value)], "");
        assert_eq!(ask(lab.public, bytes).status, 404, "{path}");
    }
}

#[test]
fn probes_and_metrics_answer() {
    let lab = Lab::start();
    let get = |path: &str| ask(lab.ops, request("GET", path, &[], ""));
    assert_eq!(get("/livez").status, 200);
    assert_eq!(get("/readyz").status, 200);
    lab.app.readiness.not_ready("store", "full");
    let answer = get("/readyz");
    assert_eq!(
        (answer.status, answer.json()["reasons"]["store"].clone()),
        (503, "full".into())
    );
    let text = String::from_utf8(get("/metrics").body).unwrap();
    assert!(text.contains("playgate_http_requests_total{route=\"livez\",status=\"2xx\"} 1"));
    assert!(text.contains("playgate_http_connections "));
}
