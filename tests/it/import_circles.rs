//! No files of `src/` import each other in a circle: none of them could be read, tested or moved without the others. Imports
//! between a `mod.rs` or `lib.rs` and the files of its folder are not counted.

use std::collections::BTreeSet;

use crate::imports::Imports;
use crate::tidy::sources;

/// The rooms of a folder, which are its files and folders, from the ground up. A room imports only rooms below it.
const FLOORS: &[(&str, &[&str])] = &[
    (
        "store",
        &[
            "history",
            "key",
            "shared_log_error",
            "error",
            "disk_space",
            "failure",
            "lock",
            "record",
            "replication",
            "wal",
            "layout",
            "table",
            "write_batch",
            "engine",
            "memtable",
            "table_copies",
            "snapshot",
            "recovery",
            "shared",
            "options",
            "txn",
            "commit",
            "handle",
            "bulk",
            "fleet_member",
            "maintenance",
            "schema",
            "import",
            "open",
        ],
    ),
    (
        "domain",
        &[
            "backoff",
            "batches",
            "clock_guard",
            "decision",
            "identities",
            "lab",
            "schedule",
            "sealing",
            "set_aside",
            "store_admin",
            "audit",
            "catalog",
            "mail",
            "operators",
            "partners",
            "accounts",
            "backups",
            "entitlement",
            "epg_sources",
            "playback",
            "conformance",
            "playback_context",
        ],
    ),
    (
        "http",
        &[
            "connection_state",
            "route_facts",
            "errors",
            "freshness",
            "standby_fleet",
            "metrics",
            "request",
            "access",
            "offload",
            "response",
            "state",
            "faults",
            "routing",
            "pipeline",
            "standby",
            "connection",
            "server",
        ],
    ),
    (
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
            "help",
        ],
    ),
];

fn source() -> Imports {
    let sources = sources();
    let files = sources.iter();
    Imports::of(files.map(|source| (source.path.as_str(), source.text.as_str())))
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    // Move what both files need into a third, or pass it as a value.
    assert_eq!(source().circles(), BTreeSet::new());
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
            "x/a/mod.rs",
            "mod one;\npub(crate) use one::{First as\n    Renamed, Second};",
        ),
        (
            "x/a/one.rs",
            "use crate::{\n    b::{self, two::Two},\n    c,\n};\nuse super::Second;",
        ),
        (
            "x/b/two.rs",
            "//! use crate::c;\nuse crate::a::Renamed;\nuse std::fs;\nuse playgate_y::D;",
        ),
        ("x/b/mod.rs", "mod two;\nuse two::Two;"),
        (
            "x/c.rs",
            "#[cfg(test)]\nuse crate::a::one;\n#[cfg(test)]\nmod tests {\nuse crate::a::one;\n}",
        ),
        ("y/lib.rs", "pub use d::D;"),
        ("y/d.rs", "use playgate_x::c::C;"),
    ]);
    let circles: Vec<_> = imports.circles().into_iter().collect();
    assert_eq!(circles, ["x/a/one x/b/two"]);
    let other_crate = imports.upward("x", &["c", "b", "a"]);
    assert_eq!(other_crate, ["x/b/two -> x/a/one"]);
    let cli = Imports::of([
        ("cli/low.rs", "use super::high::High;\nuse super::Door;"),
        ("cli/high/mod.rs", "use crate::low::Low;"),
    ]);
    let upward = cli.upward("cli", &["low", "high"]);
    assert_eq!(upward, ["cli/low -> cli/high"]);
}
