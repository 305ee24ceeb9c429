//! No files of `src/` import each other in a circle: none of them could be read, tested or moved without the others. Imports
//! between a `mod.rs` and the files of its folder are not counted.

use std::collections::BTreeSet;

use crate::imports::Imports;
use crate::tidy::sources;

/// The circles that are left. Do not add one: move what both files need into a third, or pass it as a value.
const ALLOWED: &[&str] = &[
    "app/fleet_metrics app/metrics app/quality_metrics",
    "config/address config/secret config/value_parsers",
    "decode/table decode/value",
    "domain/accounts/hashing/firebase domain/accounts/hashing/hash_format",
    "domain/accounts/known_clients domain/accounts/model domain/accounts/tables domain/accounts/throttle",
    "domain/catalog/content_keys domain/catalog/history domain/catalog/import domain/catalog/plausibility \
     domain/catalog/snapshot domain/catalog/tables",
    "domain/entitlement/evaluate domain/entitlement/explain",
    "domain/epg_sources/create domain/epg_sources/service",
    "domain/journal/erasure domain/journal/segment domain/journal/writer",
    "domain/playback/left_sessions domain/playback/session domain/playback/stream_limits domain/playback/tables",
    "domain/schedule/channel domain/schedule/channel_builder",
    "domain/schedule/details domain/schedule/model",
    "domain/schedule/diff domain/schedule/ids",
    "domain/schedule/plausibility domain/schedule/report",
    "domain/segment_file/member_index domain/segment_file/packed domain/segment_file/packer",
    "domain/telemetry/compress domain/telemetry/index_packed",
    "fleet/claim fleet/watching",
    "fleet/driver fleet/peer_server",
    "fleet/etcd/attempt fleet/etcd/gateway fleet/etcd/login",
    "fleet/peer_keys fleet/peer_tls",
    "fleet/peers fleet/promises",
    "http/access/audit http/access/auth http/access/cors http/admin/resolve http/api/catalog http/api/license \
     http/connection/h1 http/connection/h2 http/console http/deadline http/embedded_files http/faults \
     http/faults/targets http/freshness http/lab_player http/metrics http/openapi http/pipeline http/request/body \
     http/request/body_budget http/response/cache http/response/journal_entry http/response/render http/response/reply \
     http/response/reset_page_view http/response/respond http/response/xmltv_cache http/routing/endpoint \
     http/routing/endpoint/admin/backups http/routing/endpoint/admin/conformance http/routing/endpoint/admin/content \
     http/routing/endpoint/admin/lab http/routing/endpoint/admin/requests http/routing/endpoint/admin/user_line \
     http/routing/endpoint/admin/users http/routing/endpoint/telemetry http/routing/route http/routing/route_table \
     http/routing/router http/server/forwarded http/server/listener http/server/pass_on http/server/tls http/standby \
     http/state",
    "http/openapi/code_example http/openapi/page",
    "http/openapi/document http/openapi/error_response http/openapi/operation",
    "http/wire/playback http/wire/users",
    "observe/journal observe/log",
    "ports/fetch ports/fetch_options",
    "ports/license_server/doverunner ports/license_server/message",
    "store/commit/derived store/txn",
    "store/commit/inbox store/commit/writer store/maintenance/compaction store/maintenance/missing_files \
     store/maintenance/new_snapshot store/maintenance/thread store/replication/replica",
    "store/commit/memory_table store/commit/packed",
    "store/engine/deferred store/recovery/evidence store/recovery/loss store/recovery/opening store/shared",
    "store/lock store/recovery/layout",
    "store/maintenance/backup store/maintenance/staging",
    "store/snapshot/compare store/snapshot/verify",
];

/// The rooms of a folder, which are its files and folders, from the ground up. A room imports only rooms below it.
const FLOORS: &[(&str, &[&str])] = &[(
    "cli",
    &[
        "output",
        "process",
        "global",
        "client",
        "as_owner",
        "server",
        "doctor",
        "demo",
        "commands",
        "arguments",
    ],
)];

fn source() -> Imports {
    let sources = sources();
    let files = sources.iter();
    Imports::of(files.map(|source| (source.path.as_str(), source.text.as_str())))
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let found = source().circles();
    let allowed: BTreeSet<String> = ALLOWED.iter().map(|circle| (*circle).to_owned()).collect();
    let new: Vec<_> = found.difference(&allowed).collect();
    let gone: Vec<_> = allowed.difference(&found).collect();
    assert!(new.is_empty(), "new circles: {new:#?}");
    assert!(
        gone.is_empty(),
        "not circles any more, remove them from the list: {gone:#?}"
    );
}

#[test]
fn rooms_import_only_rooms_below_them() {
    let imports = source();
    for (folder, rooms) in FLOORS {
        assert_eq!(imports.upward(folder, rooms), [""; 0]);
    }
}

#[test]
fn a_planted_circle_and_an_upward_import_are_found() {
    let imports = Imports::of([
        (
            "a/mod.rs",
            "mod one;\npub(crate) use one::{First as\n    Renamed, Second};",
        ),
        (
            "a/one.rs",
            "use crate::{\n    b::{self, two::Two},\n    c,\n};\nuse super::Second;",
        ),
        (
            "b/two.rs",
            "//! use crate::c;\nuse crate::a::Renamed;\nuse std::fs;",
        ),
        ("b/mod.rs", "mod two;\nuse two::Two;"),
        (
            "c.rs",
            "#[cfg(test)]\nuse crate::a::one;\n#[cfg(test)]\nmod tests {\nuse crate::a::one;\n}",
        ),
    ]);
    let circles: Vec<_> = imports.circles().into_iter().collect();
    assert_eq!(circles, ["a/one b/two"]);
    let cli = Imports::of([
        ("cli/low.rs", "use super::high::High;\nuse super::Door;"),
        ("cli/high/mod.rs", "use crate::cli::low::Low;"),
    ]);
    let upward = cli.upward("cli", &["low", "high"]);
    assert_eq!(upward, ["cli/low -> cli/high"]);
}
