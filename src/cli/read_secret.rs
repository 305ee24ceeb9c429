//! Secrets on their way in: read from files, since every user of the machine sees arguments.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::exit::Failure;

/// Bytes of the longest secret that is read: a password of 256 characters of 4 bytes, and a line end.
const SECRET_MAX: u64 = 1_026;

/// The secret in a file, or on standard input for `-`, without the line end.
pub fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().take(SECRET_MAX).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(SECRET_MAX).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::file(path, &error))?;
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    let secret = secret.strip_suffix('\r').unwrap_or(secret);
    if secret.is_empty() {
        return Err(Failure::usage(format!(
            "{}: holds no secret",
            path.display()
        )));
    }
    Ok(secret.to_owned())
}
