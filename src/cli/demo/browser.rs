//! Opens a page in the browser of the user.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use crate::output;

const OF_DESKTOP: [&str; 2] = ["xdg-open", "open"];

/// Starts a browser and does not wait for it. Without one, the user opens the address.
pub(super) fn open(address: &str) {
    let chosen = std::env::var_os("BROWSER").filter(|name| !name.is_empty());
    let mut programs = chosen.into_iter().chain(OF_DESKTOP.map(OsString::from));
    let started = programs.any(|program| {
        let mut browser = Command::new(program);
        // What a browser prints would stand between the lines to paste.
        browser
            .arg(address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        browser.spawn().is_ok()
    });
    if !started {
        output::print_note(&format!("no browser found: open {address}/ yourself"));
    }
}
