//! Every parser under any bytes: built for tests and for fuzzing (`cfg(fuzzing)`) alone.
//!
//! A target is a function that takes bytes and panics if something is not as it must be: beside panics of
//! ours, mostly that what was read and written again is the same. What is private to a module has its
//! targets in a file `fuzzing.rs` of that module.
//!
//! cargo-fuzz runs them, guided by what they reach (`tests/fuzz`, docs/developing.md, "Long forms"). That needs all
//! dependencies built once more, ten minutes and more on two cores: too long for every change. There the
//! same functions run as tests, over the same seeds (`tests/fuzz/seeds`) and what they become when spoilt.

mod files;
mod requests;
#[cfg(test)]
mod tests;

/// A name, as `tests/fuzz` has it, and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 19] = [
    ("backup", files::backup),
    ("catalog", files::catalog),
    ("challenge", requests::challenge),
    ("clip", crate::media::loop_channel::fuzzing::track),
    ("config", files::config),
    ("events", crate::domain::telemetry::fuzzing::events),
    ("export", files::export),
    ("guide", files::guide),
    ("hash", requests::hash),
    ("json", requests::json),
    ("key", crate::store::fuzzing::key),
    ("log", files::log),
    ("manifest", crate::media::loop_channel::fuzzing::manifest),
    ("packed", crate::domain::telemetry::fuzzing::packed),
    ("record", files::record),
    ("request", requests::request),
    ("rights", files::rights),
    ("segment", crate::store::fuzzing::segment),
    ("value", requests::value),
];

/// Runs the target of a name.
///
/// # Panics
/// If there is none of that name, or something is not as it must be.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    assert!(target.is_some(), "no target {name}");
    if let Some((_, run)) = target {
        run(data);
    }
}
