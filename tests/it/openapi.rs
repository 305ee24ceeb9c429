//! The API descriptions: how each listener serves them, and whether their examples fit their schemas.

use playgate_api::openapi::is_described;
use playgate_api::route_table::ROUTERS;
use serde_json::{Value, json};

use crate::support::gate_only::GateOnly;
use crate::support::openapi_conformance::{DOCUMENTS, fits, has_code, operation};
use crate::support::raw_http::{Wire, ask, request};
use crate::support::server::TestServer;

#[test]
fn each_listener_serves_its_description_without_a_token() {
    let server = TestServer::start();
    for (address, title, path) in [
        (server.public, "partner", "/api/schedule/v1/broadcasts/live"),
        (server.ops, "administration", "/admin/v1/users"),
    ] {
        let answer = ask(
            address,
            request(
                "GET",
                "/openapi.json",
                &[("Origin", "https://a.example")],
                "",
            ),
        );
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let anybody = (title == "partner").then_some("*");
        assert_eq!(answer.header("access-control-allow-origin"), anybody);
        let json = answer.json();
        assert_eq!(json["openapi"], "3.1.0");
        assert!(json["info"]["title"].as_str().unwrap().contains(title));
        assert!(json["paths"].get(path).is_some());
        let page = ask(address, request("GET", "/docs", &[], ""));
        assert_eq!(
            page.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        let policy = page.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; style-src 'sha256-"),
            "{policy}"
        );
        let text = String::from_utf8(page.body.clone()).unwrap();
        assert!(text.contains(path) && text.contains(title));
        // The policy permits the inline style and script of the page, and nothing else.
        for part in ["style", "script"] {
            let (_, rest) = text.split_once(&format!("<{part}>")).unwrap();
            let (inline, _) = rest.split_once(&format!("</{part}>")).unwrap();
            let hash = ring::digest::digest(&ring::digest::SHA256, inline.as_bytes());
            let hash = data_encoding::BASE64.encode(hash.as_ref());
            assert!(
                policy.contains(&format!("{part}-src 'sha256-{hash}'")),
                "{policy}"
            );
        }
    }
    let public = ask(server.public, request("GET", "/openapi.json", &[], "")).json();
    assert_eq!(public["servers"][0]["url"], "https://tv.example");
    assert!(!public.to_string().contains("/admin/"));
}

#[test]
fn descriptions_have_etags_compression_and_headers() {
    let server = TestServer::start();
    for target in ["/openapi.json", "/docs"] {
        let mut wire = Wire::to(server.public);
        let whole = wire.send(request("GET", target, &[], "")).answer().unwrap();
        let tag = whole.header("etag").unwrap().to_owned();
        let again = [("If-None-Match", tag.as_str())];
        let kept = wire
            .send(request("GET", target, &again, ""))
            .answer()
            .unwrap();
        assert_eq!((kept.status, kept.body.len()), (304, 0));
        wire.send(request("HEAD", target, &[], ""));
        let head = wire.answer_to("HEAD").unwrap();
        let length = whole.body.len().to_string();
        assert_eq!(
            (head.status, head.header("content-length")),
            (200, Some(length.as_str()))
        );
        let packs = [("Accept-Encoding", "gzip")];
        let packed = wire
            .send(request("GET", target, &packs, ""))
            .answer()
            .unwrap();
        assert_eq!(packed.header("content-encoding"), Some("gzip"));
        assert!(packed.body.len() * 4 < whole.body.len());
    }
}

#[test]
fn the_description_names_the_configured_headers_and_address() {
    let server = GateOnly::with(|http, _| {
        http.header_prefix = "X-Acme-".to_owned();
        http.public_url = "https://acme.example/tv".to_owned();
    });
    let answer = ask(server.public, request("GET", "/openapi.json", &[], ""));
    let text = answer.json().to_string();
    assert!(text.contains("X-Acme-Play-Session") && !text.contains("Service-"));
    assert_eq!(
        answer.json()["servers"][0]["url"],
        "https://acme.example/tv"
    );
}

/// Returns the bodies of requests and responses with their media types.
fn bodies(operation: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let answers = operation["responses"].as_object().unwrap().values();
    let with_content = answers.chain(operation.get("requestBody"));
    with_content
        .filter_map(|body| body.get("content")?.as_object())
        .flatten()
}

#[test]
fn examples_match_their_schemas() {
    for (table, document) in &*DOCUMENTS {
        for route in ROUTERS
            .of(*table)
            .routes()
            .iter()
            .filter(|route| is_described(route))
        {
            let operation = operation(document, route);
            for (media, body) in bodies(operation) {
                let schema = &body["schema"];
                let several = body.get("examples").and_then(Value::as_object);
                let several = several.into_iter().flat_map(|all| all.values());
                let examples = several.map(|one| &one["value"]).chain(body.get("example"));
                let mut count = 0;
                for example in examples {
                    let fit = fits(document, schema, example);
                    fit.unwrap_or_else(|why| panic!("{}: {why}", route.label));
                    count += 1;
                }
                // Other media types need an example only for a success, which another test checks.
                let needed = media == "application/json";
                assert!(
                    count > 0 || !needed,
                    "{}: no example of {schema}; add one to `[examples]` in data/openapi, or to the operation",
                    route.label
                );
            }
            for parameter in operation["parameters"].as_array().unwrap() {
                if let Some(example) = parameter.get("example") {
                    fits(document, &parameter["schema"], example).unwrap();
                }
            }
        }
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            for example in schema
                .get("examples")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                fits(document, schema, example).unwrap_or_else(|why| panic!("{name}: {why}"));
            }
        }
    }
}

#[test]
fn every_success_has_an_example_in_each_media_type() {
    for (table, document) in &*DOCUMENTS {
        for route in ROUTERS
            .of(*table)
            .routes()
            .iter()
            .filter(|route| is_described(route))
        {
            let responses = operation(document, route)["responses"].as_object().unwrap();
            let successes = responses
                .iter()
                .filter(|(status, _)| status.starts_with('2'));
            let content = successes.filter_map(|(_, response)| response["content"].as_object());
            for (media, body) in content.flatten() {
                assert!(
                    body["example"] != Value::Null,
                    "{}: no example of {media}; add one of its type to `[examples]` in data/openapi, or to the operation",
                    route.label
                );
            }
        }
    }
}

#[test]
fn the_comparison_detects_planted_mismatches() {
    let (_, document) = &DOCUMENTS[0];
    let image = json!({"$ref": "#/components/schemas/Image"});
    let good = json!({"type": "square", "default": true, "filename": "x", "embeddedText": false});
    assert_eq!(fits(document, &image, &good), Ok(()));
    for (member, value) in [
        ("type", json!(1)),
        ("default", json!(null)),
        ("more", json!(1)),
    ] {
        let mut bad = good.clone();
        bad[member] = value;
        assert!(fits(document, &image, &bad).is_err(), "{bad}");
    }
    let error = &operation(document, &ROUTERS.public.routes()[0])["responses"]["404"];
    let schema = &error["content"]["application/json"]["schema"];
    assert_eq!(schema["$ref"], "#/components/schemas/ErrorResponse");
    let body = |code| json!({"error": {"message": "m", "user_message": "u", "code": code}});
    assert_eq!(has_code(error, &body("LIVESTREAM_NOT_FOUND")), Ok(()));
    for code in ["ASSET_NOT_FOUND", "NONSENSE"] {
        assert_eq!(fits(document, schema, &body(code)), Ok(()));
        assert!(has_code(error, &body(code)).is_err(), "{code}");
    }
}
