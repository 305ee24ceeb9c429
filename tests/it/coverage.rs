//! Authorization of every route: it rejects every kind of wrong token, and each role reaches exactly its routes.

use playgate_api::route_table::ROUTERS;
use playgate_http::route_facts::RouteMethod;
use playgate_http::{Endpoint, RouteSet};
use playgate_types::time::DAY;
use playgate_types::{Role, Token, TokenKind};
use serde_json::{Value, json};

use crate::support::gate_only::GateOnly;
use crate::support::playback_fixture::{FILM_KEY, PlaybackFixture, Player};
use crate::support::raw_http::{Answer, Wire, ask, request};
use crate::support::server::{PASSWORD, TestServer, Viewer, viewer};

/// Tokens of every kind, valid and invalid in every way.
struct Tokens {
    fixture: PlaybackFixture,
    /// A valid token of another partner.
    other_partner: String,
    /// Invalid partner tokens: unknown, revoked, of a removed or disabled partner.
    no_partner: Vec<String>,
    /// A valid user token.
    user: Viewer,
    /// User tokens that are invalid for the first partner: unknown, expired, revoked in each way, of another partner.
    no_user: Vec<String>,
    /// Invalid operator tokens: unknown, revoked, of a removed operator.
    no_operator: Vec<String>,
    /// Tokens of other kinds, which are valid only in their own place. They include the next three.
    elsewhere: Vec<String>,
    entitlement: String,
    session: String,
    /// The signed part of a playlist's address.
    signed: String,
}

fn signed_part(playlist: &str) -> String {
    let (_, rest) = playlist.split_once("/origin/v1/").unwrap();
    rest.split('/').next().unwrap().to_owned()
}

fn text(answer: &Answer, name: &str) -> String {
    let json = answer.json();
    json[name].as_str().unwrap().to_owned()
}

impl Tokens {
    fn issue() -> Self {
        let fixture = PlaybackFixture::new();
        let server = &fixture.server;
        let expired = fixture.ann.token.clone();
        let stale = fixture.token(&fixture.ann, "film");
        // The idle limit of a login.
        server.wait(60 * DAY);
        let operator = |method: &str, target: &str, body: Value| {
            let answer = server.operator(method, target, &body);
            assert!(answer.status < 300, "{method} {target}: {}", answer.status);
            answer
        };
        let other_partner = text(
            &operator("POST", "partners", json!({"name": "Other"})),
            "accessToken",
        );
        let gone = operator("POST", "partners", json!({"name": "Gone"}));
        operator("DELETE", "partners/Gone", Value::Null);
        let shut = operator("POST", "partners", json!({"name": "Shut"}));
        operator("PUT", "partners/Shut", json!({"disabled": true}));
        let revoked = operator("POST", "partners/Acme/tokens", Value::Null);
        let handle = format!("partners/Acme/tokens/{}", text(&revoked, "tokenId"));
        operator("DELETE", &handle, Value::Null);

        let user = fixture.viewer("user");
        let [logged_out, changed, removed] =
            ["out", "changed", "removed"].map(|n| fixture.viewer(n));
        let out = "/api/login/v2/auth/logout";
        server.user(&logged_out.token, "POST", out, &Value::Null);
        operator("POST", &format!("users/{}/logout", changed.id), Value::Null);
        operator("DELETE", &format!("users/{}", removed.id), Value::Null);
        let body = json!({"identity": "user@example.com", "accessKey": PASSWORD});
        let sign_up = "/api/login/v2/auth/email";
        let foreign = server.partner_with(&other_partner, "PUT", sign_up, &body);

        let al = operator("POST", "operators", json!({"name": "Al", "role": "admin"}));
        let second = operator("POST", "operators/Eva/tokens", Value::Null);
        let handle = format!("operators/Eva/tokens/{}", text(&second, "tokenId"));
        operator("DELETE", &handle, Value::Null);
        operator("DELETE", "operators/Al", Value::Null);

        let player = fixture.play(&user, "film", "tv");
        let signed = signed_part(&player.playlist);
        let email = json!({"email": "user@example.com"});
        server.partner("POST", "/api/login/v2/password/send-reset-password", &email);
        let unknown = |kind| Token::new(kind, [9; 32]).reveal().to_owned();
        Self {
            no_partner: vec![
                Token::new_partner([9; 16]).reveal().to_owned(),
                text(&gone, "accessToken"),
                text(&shut, "accessToken"),
                text(&revoked, "accessToken"),
                server.partner.to_uppercase(),
            ],
            no_user: vec![
                unknown(TokenKind::User),
                expired,
                logged_out.token,
                changed.token,
                removed.token,
                viewer(&foreign).token,
            ],
            no_operator: vec![
                unknown(TokenKind::Operator),
                text(&al, "token"),
                text(&second, "token"),
            ],
            entitlement: player.entitlement.clone(),
            session: player.session.clone(),
            signed: signed.clone(),
            elsewhere: vec![
                player.entitlement,
                stale,
                server.mailed_token(),
                player.session,
                user.session.clone(),
                user.id.clone(),
                signed,
                // A JWT, which is no token of ours.
                "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1c2VyIn0.".to_owned(),
                String::new(),
            ],
            user,
            other_partner,
            fixture,
        }
    }

    /// Every token that a partner route must reject.
    fn wrong_partners(&self) -> Vec<&String> {
        let good = [&self.user.token, &self.fixture.server.admin];
        let sets = [
            &self.no_partner,
            &self.no_user,
            &self.no_operator,
            &self.elsewhere,
        ];
        sets.into_iter().flatten().chain(good).collect()
    }

    /// Every token that a user route of the first partner must reject.
    fn wrong_users(&self) -> Vec<&String> {
        let server = &self.fixture.server;
        let good = [&server.partner, &self.other_partner, &server.admin];
        let sets = [
            &self.no_user,
            &self.no_partner,
            &self.no_operator,
            &self.elsewhere,
        ];
        sets.into_iter().flatten().chain(good).collect()
    }

    /// Every token that an operator route must reject.
    fn wrong_operators(&self) -> Vec<&String> {
        let good = [&self.fixture.server.partner, &self.user.token];
        let sets = [
            &self.no_operator,
            &self.no_partner,
            &self.no_user,
            &self.elsewhere,
        ];
        sets.into_iter().flatten().chain(good).collect()
    }

    /// Returns requests that a route must reject: partner header, `Authorization`, and the error code.
    fn refused(&self, target: Endpoint) -> Vec<(Option<String>, Option<String>, &'static str)> {
        let server = &self.fixture.server;
        let bearer = |token: &String| Some(format!("Bearer {token}"));
        let ours = || Some(server.partner.clone());
        let viewer = bearer(&self.user.token);
        let mut refused = Vec::new();
        match target {
            Endpoint::Open(_) => {}
            Endpoint::Partner(_) => {
                let code = "PARTNER_TOKEN_INVALID";
                refused.push((None, None, code));
                // A partner token is not accepted in another header.
                refused.push((None, bearer(&server.partner), code));
                let wrong = self.wrong_partners();
                refused.extend(
                    wrong
                        .iter()
                        .map(|token| (Some((*token).clone()), None, code)),
                );
            }
            Endpoint::User(_) => {
                let code = "PARTNER_TOKEN_INVALID";
                refused.push((None, None, code));
                refused.push((None, viewer.clone(), code));
                let wrong = self.wrong_partners();
                let with_user = |token: &&String| (Some((*token).clone()), viewer.clone(), code);
                refused.extend(wrong.iter().map(with_user));
                let code = "USER_TOKEN_INVALID";
                refused.push((ours(), None, code));
                refused.push((Some(self.other_partner.clone()), viewer.clone(), code));
                for odd in ["Basic ", "Bearer\t", "bearer", ""] {
                    refused.push((ours(), Some(format!("{odd}{}", self.user.token)), code));
                }
                let wrong = self.wrong_users();
                refused.extend(wrong.iter().map(|token| (ours(), bearer(token), code)));
            }
            Endpoint::Operator(_) => {
                let code = "OPERATOR_TOKEN_INVALID";
                refused.push((None, None, code));
                refused.push((Some(server.admin.clone()), None, code));
                let wrong = self.wrong_operators();
                refused.extend(wrong.iter().map(|token| (ours(), bearer(token), code)));
            }
        }
        refused
    }
}

#[test]
fn every_route_rejects_requests_without_its_tokens() {
    let tokens = Tokens::issue();
    let server = &tokens.fixture.server;
    for (table, address) in [
        (RouteSet::Public, server.public),
        (RouteSet::Ops, server.ops),
    ] {
        // One connection for all requests: the result of one must not affect the next.
        let mut wire = Wire::to(address);
        for route in ROUTERS.of(table).routes() {
            let path = route
                .pattern
                .replace("{userId}", &tokens.user.id)
                .replace("{*path}", "x")
                .replace(['{', '}'], "");
            let method = route.method.as_str();
            let mut refused = tokens.refused(route.endpoint);
            if route.query_token {
                let wrong = tokens.wrong_partners();
                let query = wrong
                    .iter()
                    .map(|token| format!("{path}?accessToken={token}"));
                for target in query {
                    let answer = wire.send(request(method, &target, &[], "")).answer();
                    assert_eq!(answer.unwrap().status, 401, "{target}");
                }
            }
            for (access, authorization, code) in refused.drain(..) {
                let mut headers = Vec::new();
                headers.extend(access.as_deref().map(|t| ("Service-AccessToken", t)));
                headers.extend(authorization.as_deref().map(|v| ("Authorization", v)));
                let answer = wire.send(request(method, &path, &headers, "")).answer();
                let answer = answer.unwrap_or_else(|| panic!("{method} {path}: no answer"));
                assert_eq!(
                    (answer.status, answer.code().as_str()),
                    (401, code),
                    "{method} {path} with {headers:?}"
                );
                let challenge = answer.header("www-authenticate").unwrap();
                // The challenge says that a token was sent, but not what is wrong with it.
                let sent = authorization.is_some_and(|v| v.starts_with("Bearer "));
                let names_error = challenge.contains("invalid_token");
                assert!(sent || !names_error, "{challenge}");
            }
        }
    }
    // Control: the right tokens are accepted.
    let record = format!("/api/user/v1/users/{}", tokens.user.id);
    let read = server.user(&tokens.user.token, "GET", &record, &Value::Null);
    assert_eq!(read.status, 200);
    assert_eq!(server.operator("GET", "clock", &Value::Null).status, 200);
}

#[test]
fn other_tokens_are_no_entitlement_and_no_session() {
    let tokens = Tokens::issue();
    let (fixture, user) = (&tokens.fixture, &tokens.user);
    let player = fixture.play(user, "film", "tv");
    let theirs = fixture.viewer("theirs");
    let foreign = fixture.token(&theirs, "film");
    let challenge = json!({"kids": [FILM_KEY.0]}).to_string();
    let other_asset = fixture.token(user, "clear");
    let wrong = tokens
        .wrong_users()
        .into_iter()
        .filter(|token| !token.is_empty())
        .filter(|token| **token != tokens.entitlement)
        .chain([&foreign, &other_asset, &user.token]);
    for token in wrong {
        // A session may send two heartbeats a second.
        fixture.server.wait(2);
        let refused = fixture.preflight(user, "film", token, &[]);
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (403, "ENTITLEMENT_INVALID"),
            "{token}"
        );
        let odd = Player {
            entitlement: token.clone(),
            ..player.clone()
        };
        let beat = fixture.beat(&odd, &[]);
        assert_eq!(beat.status, 403, "{token}");
        assert_eq!(
            fixture.license(&odd, "clearkey", &challenge).status,
            403,
            "{token}"
        );
        let odd = Player {
            session: token.clone(),
            ..player.clone()
        };
        if *token != tokens.session {
            let status = fixture.beat(&odd, &[]).status;
            assert!(matches!(status, 400 | 404), "{token}: {status}");
            let status = fixture.license(&odd, "clearkey", &challenge).status;
            assert!(matches!(status, 400 | 404), "{token}: {status}");
        }
        let file = format!("/origin/v1/{token}/film/manifest.mpd");
        let fetched = ask(fixture.server.public, request("GET", &file, &[], ""));
        assert!(*token == tokens.signed || fetched.status >= 400, "{token}");
    }
    assert_eq!(fixture.beat(&player, &[]).status, 200);
    let license = fixture.license(&player, "clearkey", &challenge);
    assert_eq!(license.status, 200);
}

#[test]
fn each_role_reaches_exactly_the_routes_of_the_table() {
    let server = TestServer::start();
    for role in Role::ALL.into_iter().filter(|role| *role != Role::Admin) {
        let bearer = format!("Bearer {}", server.add_operator(role));
        for route in ROUTERS.ops.routes() {
            let Some(roles) = route.roles else {
                continue;
            };
            assert!(roles.contains(&Role::Admin), "{}", route.label);
            let path = route.pattern.replace(['{', '}'], "");
            let headers = [("Authorization", &*bearer)];
            let answer = ask(
                server.ops,
                request(route.method.as_str(), &path, &headers, ""),
            );
            let reached = answer.status != 403;
            assert_eq!(reached, roles.contains(&role), "{} {path}", role.as_str());
            if role == Role::Observer {
                let reads = route.method == RouteMethod::Get;
                assert_eq!(reached, reads, "{} {path}", route.label);
            }
        }
    }
}

/// Paths that both listeners serve, each with its own content.
const OF_BOTH: [&str; 2] = ["/openapi.json", "/docs"];

#[test]
fn operations_are_not_on_the_public_listener() {
    let server = GateOnly::start();
    for route in ROUTERS.ops.routes() {
        // The `openapi` tests check the content of the public ones.
        if OF_BOTH.contains(&route.pattern) {
            continue;
        }
        let path = route.pattern.replace(['{', '}'], "");
        let (name, value) = server.admin();
        let bytes = request(route.method.as_str(), &path, &[(name, &value)], "");
        assert_eq!(ask(server.public, bytes).status, 404, "{path}");
    }
}

#[test]
fn probes_and_metrics_answer() {
    let server = GateOnly::start();
    let get = |path: &str| ask(server.ops, request("GET", path, &[], ""));
    assert_eq!(get("/livez").status, 200);
    assert_eq!(get("/readyz").status, 200);
    server.services.readiness.not_ready("store", "full");
    let answer = get("/readyz");
    assert_eq!(
        (answer.status, answer.json()["reasons"]["store"].clone()),
        (503, "full".into())
    );
    let text = String::from_utf8(get("/metrics").body).unwrap();
    assert!(text.contains("playgate_http_requests_total{route=\"livez\",status=\"2xx\"} 1"));
    assert!(text.contains("playgate_http_connections "));
}
