//! Fuzz targets of all parsers; built only for tests and for fuzzing (`cfg(fuzzing)`).
//!
//! A target is a function that takes bytes and panics if a property does not hold. Usually the property is that
//! a value that was read, written and read again is the same. Targets of private parsers are in `fuzzing.rs` of
//! their module.
//!
//! cargo-fuzz runs them guided by coverage (`tests/fuzz`, docs/developing.md, "Long forms"). That needs another
//! build of all dependencies, which takes at least ten minutes on two cores. For every change the same functions
//! run as tests, on the same seeds (`tests/fuzz/seeds`) and on random mutations of them.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]
#![cfg(any(test, fuzzing))]

mod files;
mod requests;
#[cfg(test)]
mod tests;

/// The name of the target in `tests/fuzz`, and its function.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 21] = [
    ("backup", files::backup),
    ("catalog", files::catalog),
    ("challenge", requests::challenge),
    ("clip", playgate_media::loop_channel::fuzzing::track),
    ("cmcd", requests::cmcd),
    ("config", files::config),
    ("events", playgate_records::telemetry::fuzzing::events),
    ("export", files::export),
    ("guide", files::guide),
    ("hash", requests::hash),
    ("json", requests::json),
    ("key", playgate_store::fuzzing::key),
    ("log", files::log),
    ("manifest", playgate_media::loop_channel::fuzzing::manifest),
    ("packed", playgate_records::telemetry::fuzzing::packed),
    ("record", files::record),
    ("request", requests::request),
    ("rights", files::rights),
    ("segment", playgate_store::fuzzing::segment),
    ("value", requests::value),
    ("zone", files::zone_file),
];

/// Runs the target with this name.
///
/// # Panics
/// If there is no such target, or a property does not hold.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    assert!(target.is_some(), "no target {name}");
    if let Some((_, run)) = target {
        run(data);
    }
}
