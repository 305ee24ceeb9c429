//! The description of the interfaces: an OpenAPI 3.1 document, and the same as an HTML page.
//!
//! It is built on first use from sources that do not overlap: the route table (methods, paths, tokens, limits), the table of error
//! codes, the types of answers (`described`), the words of each resource, and the files in `data/openapi`. A unit test
//! finds a route without a description, a description without a route, and an unknown error code.

mod code_example;
mod described;
mod description_files;
pub mod document;
mod error_response;
mod errors;
pub(crate) mod guide;
mod listed;
mod markdown;
mod operation;
mod page;
mod shared_parts;
mod type_notation;
pub(crate) mod words;

use std::sync::Arc;

use http::HeaderValue;

pub use document::{Document, document, is_described};
use playgate_http::response::descriptions::RenderedDescription;
use playgate_http::response::pages::policy;
use playgate_http::{About, Router};

/// The style of the pages of the description and of the guides.
pub(crate) const STYLE: &str = include_str!("../../../data/pages/docs.css");

/// Renders the description of an interface.
///
/// # Errors
/// Those of [`document()`].
pub fn render(router: &Router, about: &About<'_>) -> Result<RenderedDescription, String> {
    let document = document(router, about)?;
    let json = serde_json::to_vec(&document.json).map_err(|error| error.to_string())?;
    let policy = policy(STYLE, Some(page::SCRIPT), "'none'").map_err(|error| error.to_string())?;
    // For the calls that a reader tries. The script asks no other server.
    let policy = format!(
        "{}; connect-src 'self'",
        policy.to_str().unwrap_or_default()
    );
    let policy = HeaderValue::from_str(&policy).map_err(|error| error.to_string())?;
    Ok(RenderedDescription {
        json: Arc::new(json.into()),
        page: Arc::new(page::page(&document).into()),
        policy,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use std::collections::BTreeSet;

    use super::*;
    use crate::route_table::ROUTERS;
    use playgate_config::Environment;
    use playgate_http::{ErrorCode, HeaderNames, Messages};

    fn document_of(router: &Router, prefix: &str) -> Document {
        let messages = Messages::built_in("en").unwrap();
        let names = HeaderNames::new(prefix).unwrap();
        let about = About {
            names: &names,
            base: "https://acme.example/tv",
            environment: Environment::Staging,
            messages: &messages,
        };
        document(router, &about).unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn described_operations_match_the_route_table() {
        for router in [&ROUTERS.public, &ROUTERS.ops] {
            let document = document_of(router, "Service-");
            let mut count = 0;
            let mut ids = BTreeSet::new();
            let routes: Vec<_> = router.routes().iter().filter(|r| is_described(r)).collect();
            for route in &routes {
                let path = route.pattern.replace("{*", "{").replace('/', "~1");
                let method = route.method.as_str().to_ascii_lowercase();
                let operation = document.json.pointer(&format!("/paths/{path}/{method}"));
                let id = operation.unwrap()["operationId"].as_str().unwrap();
                assert!(ids.insert(id), "{id} twice");
            }
            for methods in document.json["paths"].as_object().unwrap().values() {
                count += methods.as_object().unwrap().len();
            }
            assert_eq!(count, routes.len());
        }
    }

    #[test]
    fn every_error_code_is_documented_with_its_status() {
        let mut seen = Vec::from(errors::ROUTING_ERRORS.map(|code| (code.as_str(), code.status())));
        for router in [&ROUTERS.public, &ROUTERS.ops] {
            let json = document_of(router, "Service-").json;
            let mut named = Vec::new();
            statuses(&json, &mut named);
            for (status, word) in named {
                let known = ErrorCode::ALL
                    .iter()
                    .find(|code| code.as_str() == word && code.status().as_str() == status);
                let code = known.unwrap_or_else(|| panic!("no code {word} with {status}"));
                seen.push((code.as_str(), code.status()));
            }
        }
        for code in ErrorCode::ALL {
            assert!(seen.contains(&(code.as_str(), code.status())), "{code:?}");
        }
    }

    /// Collects status and code of every example of an error response.
    fn statuses(json: &Value, named: &mut Vec<(String, String)>) {
        let paths = json["paths"].as_object().unwrap().values();
        let operations = paths.flat_map(|methods| methods.as_object().unwrap().values());
        for operation in operations {
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let answer = match answer.get("$ref").and_then(Value::as_str) {
                    Some(place) => json.pointer(place.strip_prefix('#').unwrap()).unwrap(),
                    None => answer,
                };
                let examples = answer.pointer("/content/application~1json/examples");
                for word in examples
                    .into_iter()
                    .flat_map(|all| all.as_object().unwrap().keys())
                {
                    named.push((status.clone(), word.clone()));
                }
            }
        }
    }

    #[test]
    fn document_names_this_installation() {
        let json = document_of(&ROUTERS.public, "X-Acme-").json.to_string();
        assert!(json.contains("X-Acme-AccessToken") && json.contains("X-Acme-Play-Session"));
        assert!(!json.contains("Service-") && !json.contains("tv.example"));
        assert!(json.contains("https://acme.example/tv") && json.contains("staging"));
        assert!(json.contains(concat!("\"version\":\"", env!("CARGO_PKG_VERSION"), "\"")));
    }

    #[test]
    fn public_document_omits_the_administration_interface() {
        let public = document_of(&ROUTERS.public, "Service-").json.to_string();
        assert!(!public.contains("/admin/") && !public.contains("OPERATOR_TOKEN_INVALID"));
        let ops = document_of(&ROUTERS.ops, "Service-").json.to_string();
        assert!(ops.contains("/admin/v1/users") && !ops.contains("/api/login/"));
    }

    #[test]
    fn page_is_self_contained() {
        assert!(!STYLE.contains("url(") && !page::SCRIPT.contains("import"));
        assert!(!page::SCRIPT.contains("http"), "only paths of this server");
        for router in [&ROUTERS.public, &ROUTERS.ops] {
            let document = document_of(router, "Service-");
            let page = page::page(&document);
            for word in ["src=", "style=", "@import", "onload", "<link"] {
                assert!(!page.contains(word), "{word}");
            }
            assert_eq!(page.matches("<script").count(), 1);
            let mut ids = BTreeSet::new();
            for id in page.split("id=\"").skip(1) {
                let id = id.split('"').next().unwrap();
                assert!(ids.insert(id), "{id} twice");
            }
            let linked = page.split("href=\"").skip(1);
            for link in linked.map(|rest| rest.split('"').next().unwrap()) {
                let Some(anchor) = link.strip_prefix('#') else {
                    let names = guide::guides(router.set()).iter();
                    let mut guides = names.map(|(name, _)| format!("docs/{name}/"));
                    assert!(
                        link == "openapi.json" || guides.any(|guide| guide == link),
                        "{link}"
                    );
                    continue;
                };
                assert!(page.contains(&format!("id=\"{anchor}\"")), "{anchor}");
            }
            let paths = document.json["paths"].as_object().unwrap().values();
            for operation in paths.flat_map(|methods| methods.as_object().unwrap().values()) {
                let id = operation["operationId"].as_str().unwrap();
                assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
            }
            for code in &document.codes {
                assert!(page.contains(&format!("<code>{}</code>", code.as_str())));
            }
        }
    }
}
