//! Reads secrets from files, since command-line arguments are visible to all users.

use std::io::{self, Read as _};
use std::path::Path;

use crate::output::Failure;
use playgate_ports::named_file;

/// Bytes of the longest secret: a password of 256 characters of 4 bytes, and a line end.
const SECRET_MAX: u64 = 1_026;

pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        // Bounds the memory for a wrong path; a longer text is refused by the rules for passwords.
        io::stdin().take(SECRET_MAX).read_to_string(&mut text)
    } else {
        named_file::open(path).and_then(|file| file.take(SECRET_MAX).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::file(path, &error))?;
    // One line end of either form; whatever precedes it is part of the secret.
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    let secret = secret.strip_suffix('\r').unwrap_or(secret);
    // An empty file is a mistake of the script that wrote it, not an empty password.
    if secret.is_empty() {
        return Err(Failure::usage(format!(
            "{}: contains no secret",
            path.display()
        )));
    }
    Ok(secret.to_owned())
}
