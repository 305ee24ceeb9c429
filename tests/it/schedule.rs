//! The schedule's routes (now and next, days, broadcasts by id), their export, and the import of guides.

use std::io::Write as _;
use std::time::Duration;

use playgate_jobs::Jobs;
use playgate_types::UnixSeconds;
use serde_json::{Value, json};

use crate::support::gate_only::{GateOnly, NOON};
use crate::support::raw_http::{Answer, Wire, request};
use crate::support::schedule_fixture::{
    CATALOG, ROWS, ask_with, at, get, guide, post, set_clock, stock, stocked,
};
use crate::support::until::until;

fn live(query: &str) -> String {
    format!("/api/schedule/v1/broadcasts/live?{query}")
}

/// Ids of the current, previous and next broadcast of a live view.
fn ids(view: &Value) -> [&str; 3] {
    ["current", "previous", "next"].map(|name| view[name]["id"].as_str().unwrap_or("-"))
}

#[test]
fn s6_responses_equal_the_examples() {
    let server = stocked();
    let answer = get(&server, &live("livestreams=news"));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let broadcast = |id: &str, title: &str, start: i64, stop: i64| {
        let (start, stop) = (at(start), at(stop));
        let until = stop + 7 * 86_400;
        format!(
            "{{\"id\":\"{id}\",\"title\":\"{title}\",\"start\":{start},\"stop\":{stop},\
             \"liveAvailable\":true,\"catchupInterval\":{{\"from\":{stop},\"to\":{until}}},\
             \"extendedRights\":{{\"pause\":true,\"rewind\":false,\"fastForward\":false}}}}"
        )
    };
    let expected = format!(
        "{{\"news\":{{\"current\":{},\"next\":{},\"previous\":{}}}}}",
        broadcast("b", "B <b>", -30, 30),
        broadcast("c", "C", 30, 60),
        broadcast("a", "A", -120, -30)
    );
    assert_eq!(String::from_utf8(answer.body).unwrap(), expected);

    let all = get(&server, &live("livestreams=film,unknown,news,empty,news")).json();
    assert_eq!(all.as_object().unwrap().len(), 2);
    assert_eq!(ids(&all["film"]), ["f", "-", "-"]);
    assert_eq!(all["film"]["current"]["liveAvailable"], false);
    assert!(all["film"]["current"].get("catchupInterval").is_none());
    let offset = get(&server, &live("livestreams=news&offset=-1801")).json();
    assert_eq!(ids(&offset["news"]), ["a", "-", "b"]);
    let offset = get(&server, &live("livestreams=news%2Cfilm&offset=-1800")).json();
    assert_eq!(ids(&offset["news"]), ["b", "a", "c"]);
    // A livestream with nothing on air is left out. If no livestream is known, that is an error.
    assert_eq!(get(&server, &live("livestreams=empty")).json(), json!({}));
    let unknown = get(&server, &live("livestreams=x,y"));
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "LIVESTREAM_NOT_FOUND")
    );
}

#[test]
fn schedule_errors_name_the_parameter() {
    let server = stocked();
    let many = (0..201)
        .map(|n| n.to_string())
        .collect::<Vec<_>>()
        .join(",");
    let day = "/api/schedule/v1/broadcasts/day";
    for (target, field) in [
        (live("livestreams=news&offset=1"), "offset"),
        (live("livestreams=news&offset=-86401"), "offset"),
        (live("livestreams=news&offset=soon"), "offset"),
        (live("livestreams=news&offset="), "offset"),
        (live("offset=0"), "livestreams"),
        (live("livestreams="), "livestreams"),
        (live("livestreams=news,,film"), "livestreams"),
        (live(&format!("livestreams={many}")), "livestreams"),
        (format!("{day}/2026-02-30?livestreams=news"), "date"),
        (format!("{day}/20260101?livestreams=news"), "date"),
        (format!("{day}/2026-01-01"), "livestreams"),
        ("/api/schedule/v1/broadcasts".to_owned(), "broadcasts"),
        (
            "/api/schedule/v1/broadcasts?broadcasts=a,".to_owned(),
            "broadcasts",
        ),
        (
            "/api/schedule/v1/livestreams/news/live?offset=5".to_owned(),
            "offset",
        ),
        (
            "/api/schedule/v1/livestreams/news/day/2026-13-01".to_owned(),
            "date",
        ),
    ] {
        let answer = get(&server, &target);
        assert_eq!(
            (
                answer.status,
                answer.code().as_str(),
                answer.field().as_str()
            ),
            (400, "INVALID_REQUEST", field),
            "{target}"
        );
    }
}

#[test]
fn s1_and_s2_are_complete_and_name_their_successors() {
    let server = GateOnly::with(|settings, _| {
        settings.public_url = "https://tv.example".to_owned();
        settings.sunset = Some("Fri, 01 Jan 2027 00:00:00 GMT".to_owned());
    });
    stock(&server);
    let s1 = |id: &str, query: &str| {
        get(
            &server,
            &format!("/api/schedule/v1/livestreams/{id}/live{query}"),
        )
    };
    let s2 = |id: &str, day: &str| {
        get(
            &server,
            &format!("/api/schedule/v1/livestreams/{id}/day/{day}"),
        )
    };
    let s6 = get(&server, &live("livestreams=news&offset=-1801"));
    let old = s1("news", "?offset=-1801");
    assert_eq!((old.status, old.json()), (200, s6.json()["news"].clone()));
    let link = |answer: &Answer| answer.header("link").unwrap().to_owned();
    let base = "https://tv.example/api/schedule/v1/broadcasts";
    assert_eq!(
        link(&old),
        format!("<{base}/live?livestreams=news&offset=-1801>; rel=\"successor-version\"")
    );
    assert!(old.header("deprecation").unwrap().starts_with('@'));
    assert_eq!(old.header("sunset"), Some("Fri, 01 Jan 2027 00:00:00 GMT"));
    assert!(s6.header("deprecation").is_none() && s6.header("link").is_none());

    let day = s2("news", "2026-01-01");
    assert_eq!(day.status, 200);
    assert_eq!(
        link(&day),
        format!("<{base}/day/2026-01-01?livestreams=news>; rel=\"successor-version\"")
    );
    let s5 = format!("{}/day/2026-01-01?livestreams=news", &base[18..]);
    assert_eq!(day.json(), get(&server, &s5).json()["news"]);
    assert_eq!(s2("empty", "2026-01-01").body, b"[]");

    set_clock(&server, at(60));
    for (answer, code) in [
        (s1("news", ""), "NO_CURRENT_BROADCAST"),
        (s1("empty", ""), "NO_CURRENT_BROADCAST"),
        (s1("unknown", ""), "LIVESTREAM_NOT_FOUND"),
        (s2("unknown", "2026-01-01"), "LIVESTREAM_NOT_FOUND"),
    ] {
        assert_eq!((answer.status, answer.code().as_str()), (404, code));
        assert!(answer.header("deprecation").is_some());
    }
}

#[test]
fn s5_cuts_days_by_the_livestreams_zone() {
    let server = stocked();
    let day = |date: &str, ids: &str| {
        get(
            &server,
            &format!("/api/schedule/v1/broadcasts/day/{date}?livestreams={ids}"),
        )
    };
    let titles = |value: &Value| -> Vec<String> {
        let list = value.as_array().unwrap().iter();
        list.map(|b| b["title"].as_str().unwrap().to_owned())
            .collect()
    };
    let answer = day("2026-01-01", "news,unknown,empty,film").json();
    // E starts at 05:59 on the next morning in Stockholm, 04:59 UTC.
    assert_eq!(titles(&answer["news"]), ["A", "B <b>", "C", "D", "E"]);
    assert_eq!(titles(&answer["film"]), ["F"]);
    assert_eq!(answer["empty"], json!([]));
    assert!(answer.get("unknown").is_none());
    assert_eq!(day("2026-01-02", "news").json(), json!({"news": []}));
    // In another zone that morning belongs to another day. The change applies immediately.
    let import = |catalog: &str| {
        let imported = post(&server, "/admin/v1/catalog/import", catalog.as_bytes());
        assert_eq!(imported.status, 200);
    };
    import(&CATALOG.replace("Europe/Stockholm", "Asia/Tokyo"));
    assert_eq!(titles(&day("2026-01-02", "news").json()["news"]), ["E"]);
    import(CATALOG);
    assert_eq!(day("2026-01-02", "news").json(), json!({"news": []}));
    assert_eq!(day("2025-12-31", "news").json(), json!({"news": []}));
    let unknown = day("2026-01-01", "x");
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "LIVESTREAM_NOT_FOUND")
    );
}

#[test]
fn s3_and_s4_find_broadcasts_by_id() {
    let server = stocked();
    let one = get(&server, "/api/schedule/v1/broadcasts/b");
    assert_eq!(
        (one.status, one.json()["title"].clone()),
        (200, json!("B <b>"))
    );
    assert!(one.json().get("streamId").is_none());
    let unknown = get(&server, "/api/schedule/v1/broadcasts/x");
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "BROADCAST_NOT_FOUND")
    );
    let several = get(&server, "/api/schedule/v1/broadcasts?broadcasts=f,x,b,f").json();
    assert_eq!(several.as_object().unwrap().len(), 2);
    let b = &several["b"];
    assert_eq!(
        (
            b["streamId"].clone(),
            b["streamStart"].clone(),
            b["streamStop"].clone()
        ),
        (json!("news"), json!(at(-30)), json!(at(30)))
    );
    assert_eq!(several["f"]["streamId"], "film");
    let none = get(&server, "/api/schedule/v1/broadcasts?broadcasts=x");
    assert_eq!((none.status, none.json()), (200, json!({})));
}

#[test]
fn max_age_ends_at_the_next_change() {
    let server = stocked();
    let age = |target: &str| {
        get(&server, target)
            .header("cache-control")
            .unwrap()
            .to_owned()
    };
    let now = |minutes: i64, seconds: i64| set_clock(&server, at(minutes) + seconds);
    assert_eq!(age(&live("livestreams=news")), "private, max-age=10");
    now(30, -3);
    assert_eq!(age(&live("livestreams=news")), "private, max-age=3");
    assert_eq!(age(&live("livestreams=film,news")), "private, max-age=3");
    assert_eq!(age(&live("livestreams=film")), "private, max-age=10");
    assert_eq!(
        age("/api/schedule/v1/livestreams/news/live"),
        "private, max-age=3"
    );
    // The same position in the programme, an hour later.
    now(90, -3);
    assert_eq!(
        age(&live("livestreams=news&offset=-3600")),
        "private, max-age=3"
    );
    // A gap also ends.
    now(120, -2);
    assert_eq!(get(&server, &live("livestreams=news")).json(), json!({}));
    assert_eq!(age(&live("livestreams=news")), "private, max-age=2");
    let day = "/api/schedule/v1/broadcasts/day/2026-01-01?livestreams=news";
    assert_eq!(age(day), "private, max-age=10");
    let before = get(&server, &live("livestreams=film"))
        .header("etag")
        .unwrap()
        .to_owned();
    now(-1, 0);
    let after = get(&server, &live("livestreams=film"));
    assert_ne!(after.header("etag").unwrap(), before, "another answer");
    assert_eq!(ids(&after.json()["film"]), ["f", "-", "-"]);
}

#[test]
fn schedule_responses_have_etags_compression_and_headers() {
    let server = stocked();
    let day = "/api/schedule/v1/broadcasts/day/2026-01-01?livestreams=news";
    let single = "/api/schedule/v1/broadcasts/b";
    let several = "/api/schedule/v1/broadcasts?broadcasts=a,b,c,d,e,f";
    let s6 = live("livestreams=news");
    let s1 = "/api/schedule/v1/livestreams/news/live?offset=-60";
    let s2 = "/api/schedule/v1/livestreams/news/day/2026-01-01";
    for target in [day, single, several, &s6, s1, s2] {
        let plain = get(&server, target);
        let tag = plain.header("etag").unwrap();
        assert!(tag.starts_with('"'), "strong: {tag}");
        let same = ask_with(&server, "GET", target, &[("If-None-Match", tag)]);
        assert_eq!((same.status, same.header("etag")), (304, Some(tag)));
        let other = ask_with(&server, "GET", target, &[("If-None-Match", "\"0\"")]);
        assert_eq!((other.status, &other.body), (200, &plain.body));
        let head = ask_with(&server, "HEAD", target, &[]);
        let length = plain.body.len().to_string();
        assert_eq!(
            (
                head.status,
                head.header("content-length"),
                head.header("etag")
            ),
            (200, Some(&*length), Some(tag))
        );
        let origin = ("Origin", "https://player.example");
        let read = ask_with(&server, "GET", target, &[origin]);
        assert_eq!(read.header("access-control-allow-origin"), Some("*"));
        let exposed = read.header("access-control-expose-headers").unwrap();
        assert!(exposed.contains("ETag"), "{exposed}");
    }
    let plain = get(&server, several);
    let packed = ask_with(&server, "GET", several, &[("Accept-Encoding", "gzip")]);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_ne!(packed.header("etag"), plain.header("etag"));
    let mut unpacked = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(&*packed.body);
    std::io::Read::read_to_end(&mut decoder, &mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
    // A changed schedule gets another tag.
    let mut changed = ROWS;
    changed[0].2 = "Another";
    let report = post(&server, "/admin/v1/epg/import", guide(&changed).as_bytes()).json();
    assert_eq!(
        (&report["changed"], &report["unchanged"]),
        (&json!(1), &json!(5))
    );
    assert_ne!(get(&server, several).header("etag"), plain.header("etag"));
}

#[test]
fn order_repeats_and_unknown_parameters_do_not_change_the_response() {
    let server = stocked();
    let gzip = [("Accept-Encoding", "gzip")];
    let day = "/api/schedule/v1/broadcasts/day/2026-01-01?livestreams=";
    let ids = "/api/schedule/v1/broadcasts?broadcasts=";
    let plain = [
        live("livestreams=film,news"),
        format!("{day}film,news"),
        format!("{ids}a,b,c,d,e,f"),
    ];
    let same = [
        [
            live("livestreams=news,film&x=1"),
            live("x=2&livestreams=news,film,news"),
            live("offset=0&livestreams=%6Eews%2Cfilm"),
        ],
        [
            format!("{day}news,film&x=1"),
            format!("{day}news,film&x=2"),
            format!("{day}film,film,news"),
        ],
        [
            format!("{ids}f,e,d,c,b,a"),
            format!("{ids}a,b,c,d,e,f&x=1"),
            format!("{ids}c,b,a,f,e,d,f"),
        ],
    ];
    for (plain, same) in plain.iter().zip(&same) {
        let expected = ask_with(&server, "GET", plain, &gzip);
        assert_eq!(expected.status, 200);
        for other in same {
            let answer = ask_with(&server, "GET", other, &gzip);
            assert_eq!(answer.body, expected.body, "{other}");
            assert_eq!(answer.header("etag"), expected.header("etag"), "{other}");
        }
    }
    // Requests with another meaning get another response.
    let earlier = ask_with(
        &server,
        "GET",
        &live("livestreams=film,news&offset=-3600"),
        &gzip,
    );
    let present = ask_with(&server, "GET", &plain[0], &gzip);
    assert_ne!(earlier.body, present.body);
    for wrong in ["livestreams=film,,news", "livestreams=film,news&offset=1"] {
        assert_eq!(
            ask_with(&server, "GET", &live(wrong), &gzip).status,
            400,
            "{wrong}"
        );
    }
}

#[test]
fn old_days_are_deleted_automatically() {
    let server = stocked();
    let old = "/api/schedule/v1/broadcasts/a";
    assert_eq!(get(&server, old).status, 200);
    set_clock(&server, NOON.0 + 40 * 86_400);
    let jobs = Jobs::start(&server.services).unwrap();
    until("the end of an old broadcast", || {
        get(&server, old).status != 200
    });
    assert_eq!(get(&server, old).code(), "BROADCAST_NOT_FOUND");
    assert!(jobs.stop(Duration::from_secs(10)));
}

#[test]
fn a_large_body_is_compressed() {
    let server = stocked();
    let description = "A long story. ".repeat(40);
    let programs: Vec<_> = (0..200)
        .map(|number| {
            json!({
                "id": format!("n{number}"), "title": "T", "description": description,
                "start": at(number), "stop": at(number + 1),
            })
        })
        .collect();
    let guide = json!({"news": programs}).to_string();
    let imported = post(
        &server,
        "/admin/v1/epg/import?accept=true",
        guide.as_bytes(),
    );
    assert_eq!(imported.status, 200, "{}", imported.json());
    let day = "/api/schedule/v1/broadcasts/day/2026-01-01?livestreams=news";
    let plain = get(&server, day);
    assert!(plain.body.len() > 64 * 1024, "{}", plain.body.len());
    let gzip = ("Accept-Encoding", "gzip");
    let packed = ask_with(&server, "GET", day, &[gzip]);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(packed.body.len() < plain.body.len() / 4);
    let mut unpacked = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(&*packed.body);
    std::io::Read::read_to_end(&mut decoder, &mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
    let tag = packed.header("etag").unwrap();
    assert_ne!(plain.header("etag"), Some(tag));
    let same = ask_with(&server, "GET", day, &[gzip, ("If-None-Match", tag)]);
    assert_eq!((same.status, same.header("etag")), (304, Some(tag)));
    let head = ask_with(&server, "HEAD", day, &[gzip]);
    assert_eq!((head.status, head.header("etag")), (200, Some(tag)));
    // The body is compressed in advance, so its length is known.
    let length = packed.body.len().to_string();
    assert_eq!(head.header("content-length"), Some(&*length));
}

#[test]
fn imports_can_be_reported_held_and_dry_run() {
    let server = stocked();
    let import = |query: &str, rows: &[(&str, &str, &str, i64, i64)]| {
        let target = format!("/admin/v1/epg/import{query}");
        post(&server, &target, guide(rows).as_bytes())
    };
    let before = get(&server, "/api/schedule/v1/xmltv").body;
    let same = import("", &ROWS).json();
    for (member, number) in [
        ("channels", 2),
        ("programmes", 6),
        ("added", 0),
        ("changed", 0),
        ("removed", 0),
        ("unchanged", 6),
    ] {
        assert_eq!(same[member], number, "{member}: {same}");
    }
    assert_eq!(same["skipped"], json!({}));
    let poor = [("news", "a", "All", -120, 18 * 60)];
    let held = import("", &poor);
    assert_eq!((held.status, held.code().as_str()), (409, "IMPORT_HELD"));
    let details = held.json()["error"]["details"].clone();
    assert_eq!(
        (&details["held"], &details["removed"]),
        (&json!(true), &json!(4))
    );
    assert_eq!(details["doubts"].as_array().unwrap().len(), 1);
    let dry = import("?dryRun=true&accept=true", &poor);
    assert_eq!(
        (dry.status, dry.json()["dryRun"].clone()),
        (200, json!(true))
    );
    assert_eq!(get(&server, "/api/schedule/v1/xmltv").body, before);
    let other = [
        ROWS[0],
        ("sport", "s", "S", 0, 60),
        ("film", "e", "E", 0, 60),
    ];
    let report = import("?dryRun=true", &other).json();
    assert_eq!(report["unmapped"], json!(["sport"]));
    assert_eq!(report["skipped"], json!({"idTaken": 1, "unmapped": 1}));
    let made = import("?createLivestreams=true&accept=true", &other).json();
    assert_eq!(
        (&made["created"], &made["unmapped"]),
        (&json!(["sport"]), &json!([]))
    );
    assert_eq!(made["newChannels"], json!(["sport"]));
    let on = get(&server, &live("livestreams=sport")).json();
    assert_eq!(ids(&on["sport"]), ["s", "-", "-"]);
    let accepted = import("?accept=true", &poor);
    assert_eq!(
        (accepted.status, accepted.json()["held"].clone()),
        (200, json!(false))
    );
    assert_eq!(
        ids(&get(&server, &live("livestreams=news")).json()["news"]),
        ["a", "-", "-"]
    );
    // A source without settings is only a label. An invalid name is rejected.
    let labelled = import("?source=nobody&dryRun=true&accept=true", &ROWS);
    assert_eq!(
        (labelled.status, labelled.json()["programmes"].clone()),
        (200, json!(ROWS.len()))
    );
    let unnamed = import("?source=", &ROWS);
    assert_eq!((unnamed.status, unnamed.field().as_str()), (400, "source"));
}

#[test]
fn a_broken_guide_changes_nothing() {
    let server = stocked();
    let exported = || get(&server, "/api/schedule/v1/xmltv").body;
    let before = exported();
    let whole = before.clone();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&whole).unwrap();
    let packed = encoder.finish().unwrap();
    let json = guide(&ROWS);
    let cases: [(&str, &[u8], u16, &str); 8] = [
        (
            "a cut gzip",
            &packed[..packed.len() / 2],
            400,
            "IMPORT_INVALID",
        ),
        (
            "a cut tail",
            &packed[..packed.len() - 2],
            400,
            "IMPORT_INVALID",
        ),
        (
            "a cut document",
            &whole[..whole.len() / 2],
            400,
            "IMPORT_INVALID",
        ),
        (
            "cut JSON",
            &json.as_bytes()[..json.len() - 3],
            400,
            "IMPORT_INVALID",
        ),
        ("an empty file", b"", 400, "IMPORT_INVALID"),
        ("an empty guide", b"<tv></tv>", 409, "IMPORT_HELD"),
        ("garbage", b"\x00\xff garbage", 400, "IMPORT_INVALID"),
        (
            "another document",
            b"<html><body/></html>",
            400,
            "IMPORT_INVALID",
        ),
    ];
    for (name, body, status, code) in cases {
        for query in ["", "?accept=true"] {
            if status == 409 && !query.is_empty() {
                continue;
            }
            let answer = post(&server, &format!("/admin/v1/epg/import{query}"), body);
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (status, code),
                "{name}"
            );
            if status == 400 {
                let problems = answer.json()["error"]["details"]["problems"].clone();
                assert!(
                    !problems[0]["message"].as_str().unwrap().is_empty(),
                    "{name}"
                );
            }
            assert_eq!(exported(), before, "{name}");
        }
    }
    // A cut upload is not treated as a shorter guide.
    let (name, value) = server.admin();
    let head = format!(
        "POST /admin/v1/epg/import?accept=true HTTP/1.1\r\nHost: localhost\r\n{name}: {value}\r\n\
         Content-Length: {}\r\n\r\n",
        whole.len() + 1
    );
    let mut wire = Wire::to(server.ops);
    wire.send(head).send(&whole);
    wire.stream.shutdown(std::net::Shutdown::Write).unwrap();
    if let Some(answer) = wire.answer() {
        assert_eq!(answer.status, 400);
    }
    assert_eq!(exported(), before);
    for report in server.services.store.verify().unwrap().tables {
        assert!(report.is_sound(), "{report:?}");
    }
}

#[test]
fn cached_responses_follow_every_change() {
    let server = stocked();
    // A long query, because uncompressed responses to short ones are not cached.
    let many: Vec<_> = (0..60).map(|number| format!("nobody-{number}")).collect();
    let target = live(&format!("livestreams=news,film,{}", many.join(",")));
    let day = format!(
        "/api/schedule/v1/broadcasts/day/2026-01-01?livestreams=news,film,{}",
        many.join(",")
    );
    let now = |minutes: i64| set_clock(&server, at(minutes));
    let current = || get(&server, &target).json()["news"]["current"].clone();
    let titled = |title: &str| assert_eq!(current()["title"], title);
    for _ in 0..2 {
        now(0);
        titled("B <b>");
        titled("B <b>");
        now(30);
        titled("C");
        titled("C");
    }
    // A cached response expires with its program, whoever requested it first.
    set_clock(&server, at(60) - 4);
    let age = get(&server, &target);
    assert_eq!(age.header("cache-control"), Some("private, max-age=4"));
    set_clock(&server, at(60) - 1);
    let age = get(&server, &target);
    assert_eq!(age.header("cache-control"), Some("private, max-age=1"));
    let tag = age.header("etag").unwrap();
    let held = ask_with(&server, "GET", &target, &[("If-None-Match", tag)]);
    assert_eq!(held.status, 304);
    now(0);
    titled("B <b>");
    let before = get(&server, &day).body;
    assert_eq!(get(&server, &day).body, before);
    // A change of guide, rights or catalogue applies immediately.
    let mut changed = ROWS;
    changed[1].2 = "Other";
    let imported = post(&server, "/admin/v1/epg/import", guide(&changed).as_bytes());
    assert_eq!(imported.status, 200);
    titled("Other");
    assert_ne!(get(&server, &day).body, before);
    assert_eq!(current()["liveAvailable"], true);
    let rule = "[[rule]]\ntitle = \"Other\"\nlive = false\n";
    let ruled = format!("{CATALOG}\n{rule}");
    assert_eq!(
        post(&server, "/admin/v1/catalog/import", ruled.as_bytes()).status,
        200
    );
    assert_eq!(current()["liveAvailable"], false);
    // The partner token is checked before the cache.
    let bare = crate::support::raw_http::ask(server.public, request("GET", &target, &[], ""));
    assert_eq!(bare.code(), "PARTNER_TOKEN_INVALID");
}

#[test]
fn retention_deletes_whole_days_only() {
    let server = stocked();
    const DAY: i64 = 86_400;
    // One broadcast for each day of the last 40, and one that spans the edge of the retention.
    let rows: Vec<_> = (-40..=1)
        .map(|day| {
            let start = NOON.0 + day * DAY;
            json!({"id": format!("day{}", day + 40), "title": "T", "start": start, "stop": start + 60})
        })
        .collect();
    let edge = NOON.0 - 20 * DAY - NOON.0 % DAY;
    let over = json!({"id": "over", "title": "O", "start": edge - 60, "stop": edge + 60});
    let at_edge = json!({"id": "edge", "title": "E", "start": edge + 60, "stop": edge + 120});
    set_clock(&server, NOON.0 - 11 * DAY);
    let guide = json!({"film": rows, "empty": [over, at_edge]}).to_string();
    let imported = post(
        &server,
        "/admin/v1/epg/import?accept=true",
        guide.as_bytes(),
    );
    assert_eq!(imported.status, 200, "{}", imported.json());
    let status = |id: &str| get(&server, &format!("/api/schedule/v1/broadcasts/{id}")).status;
    let kept = || {
        (0..42)
            .filter(|day| status(&format!("day{day}")) == 200)
            .collect::<Vec<_>>()
    };
    assert_eq!(kept(), (0..42).collect::<Vec<_>>());
    let newer = get(
        &server,
        "/api/schedule/v1/broadcasts/day/2026-01-01?livestreams=news,film",
    )
    .body;

    let retain = |days_later: i64| {
        let now = UnixSeconds(NOON.0 + days_later * DAY);
        server.services.schedule.retain(now, 30).unwrap();
    };
    retain(-10);
    assert_eq!(
        kept(),
        (0..42).collect::<Vec<_>>(),
        "the first day of 30 stays"
    );
    retain(-9);
    assert_eq!(kept(), (1..42).collect::<Vec<_>>());
    // Days are deleted whole: what began before the edge, and nothing else.
    retain(10);
    assert_eq!(kept(), (20..42).collect::<Vec<_>>());
    assert_eq!((status("over"), status("edge")), (404, 200));
    for id in ["day3", "over"] {
        let gone = get(&server, &format!("/api/schedule/v1/broadcasts/{id}"));
        assert_eq!(
            (gone.status, gone.code().as_str()),
            (404, "BROADCAST_NOT_FOUND")
        );
    }
    let several = get(
        &server,
        "/api/schedule/v1/broadcasts?broadcasts=day3,day30,over,edge",
    )
    .json();
    assert_eq!(several.as_object().unwrap().len(), 2);
    let again = get(
        &server,
        "/api/schedule/v1/broadcasts/day/2026-01-01?livestreams=news,film",
    )
    .body;
    assert_eq!(again, newer);
    // The store agrees with memory: a reload brings nothing back.
    server.services.schedule.refresh().unwrap();
    assert_eq!(kept(), (20..42).collect::<Vec<_>>());
    for report in server.services.store.verify().unwrap().tables {
        assert!(report.is_sound(), "{report:?}");
    }
}
