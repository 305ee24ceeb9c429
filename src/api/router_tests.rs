//! The router with the rows of the table.

use http::Method;

use crate::route_table::ROUTERS;
use playgate_http::request::head_validation::check_path;
use playgate_http::{ErrorCode, RouteMatch};

fn label(method: &Method, path: &str) -> Result<&'static str, ErrorCode> {
    check_path(path).map_err(|e| e.code())?;
    match ROUTERS.public.find(method, path).map_err(|e| e.code())? {
        RouteMatch::Route(_, route, _) => Ok(route.label),
        RouteMatch::Path(_) => Err(ErrorCode::MethodNotAllowed),
    }
}

#[test]
fn every_route_finds_itself() {
    for table in [&ROUTERS.public, &ROUTERS.ops] {
        for (at, route) in table.routes().iter().enumerate() {
            let path = route
                .pattern
                .replace("{*path}", "a/b.mpd")
                .replace(['{', '}'], "");
            let method = Method::from_bytes(route.method.as_str().as_bytes()).unwrap();
            let Ok(RouteMatch::Route(index, found, _)) = table.find(&method, &path) else {
                panic!("{} is not found", route.pattern);
            };
            assert_eq!((index, found.label), (at, route.label));
        }
    }
}

#[test]
fn static_segments_win_over_parameters() {
    assert_eq!(
        label(&Method::GET, "/api/schedule/v1/broadcasts/live"),
        Ok("live")
    );
    assert_eq!(
        label(&Method::HEAD, "/api/schedule/v1/broadcasts/x"),
        Ok("broadcast")
    );
    assert_eq!(
        label(&Method::POST, "/api/schedule/v1/broadcasts/x"),
        Err(ErrorCode::MethodNotAllowed)
    );
}

#[test]
fn other_spellings_match_no_route() {
    for bad in [
        "/api//schedule/v1/xmltv",
        "//api/schedule/v1/xmltv",
        "/api/schedule/v1/xmltv/",
        "/api/schedule/v1/./xmltv",
        "/api/schedule/v1/x/../xmltv",
        "/api/schedule/v1/%2e%2e/v1/xmltv",
        "/api/schedule/v1%2fxmltv",
        "/api/schedule/v1/xmltv%00",
        "/api/schedule/v1/xmltv%zz",
        "/api/schedule/v1/xmltv%",
        "/api/schedule/v1/%ff",
        "/api/schedule/v1/ä",
        "/api\\schedule\\v1\\xmltv",
        "api/schedule/v1/xmltv",
        "*",
        "/API/schedule/v1/xmltv",
        "/api/schedule/V1/xmltv",
        "/api/schedule/v2/xmltv",
        "/livez",
        "/admin/v1/users",
        "/lab/nothing/",
    ] {
        assert!(label(&Method::GET, bad).is_err(), "{bad}");
    }
    assert_eq!(label(&Method::GET, "/origin/v1/t/a/.hidden"), Ok("origin"));
}

#[test]
fn an_unknown_version_is_refused_with_the_served_one() {
    for (path, served) in [
        ("/api/schedule/v2/xmltv", "v1"),
        ("/api/schedule/V1/xmltv", "v1"),
        ("/api/login/v1/auth/email", "v2"),
        ("/api/playback/v3/heartbeat", "v1"),
        ("/api/playback/v2/heartbeat", "v1"),
        ("/api/playback/v9/preflight/asset/a", "v2"),
    ] {
        let error = ROUTERS.public.find(&Method::GET, path).err().unwrap();
        assert_eq!(error.code(), ErrorCode::VersionNotServed, "{path}");
        assert!(error.message().contains(served));
    }
    let error = ROUTERS
        .public
        .find(&Method::GET, "/api/schedule/v1/nothing")
        .err()
        .unwrap();
    assert_eq!(error.code(), ErrorCode::PathNotFound);
}

#[test]
fn parameters_are_decoded_once() {
    let path = "/api/schedule/v1/livestreams/TV%204%2541/day/2026-01-01";
    check_path(path).unwrap();
    let Ok(RouteMatch::Route(_, _, params)) = ROUTERS.public.find(&Method::GET, path) else {
        panic!("not found");
    };
    assert_eq!(params.text(path, "livestreamId").unwrap(), "TV 4%41");
    assert_eq!(params.text(path, "date").unwrap(), "2026-01-01");
}

#[test]
fn allow_lists_the_methods_of_the_path() {
    let Ok(RouteMatch::Path(entry)) = ROUTERS
        .public
        .find(&Method::OPTIONS, "/api/playback/v1/heartbeat")
    else {
        panic!("not found");
    };
    assert_eq!(entry.allow, "POST, DELETE, OPTIONS");
    let Ok(RouteMatch::Path(entry)) = ROUTERS.public.find(&Method::PATCH, "/api/user/v1/users/x")
    else {
        panic!("not found");
    };
    assert_eq!(entry.allow, "GET, HEAD, PUT, DELETE, OPTIONS");
}
