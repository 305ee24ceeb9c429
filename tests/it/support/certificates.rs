//! Keys and certificates from openssl.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::support::process::InTime as _;

pub fn openssl(directory: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(directory)
        .output_in_time();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {arguments}: {stderr}");
}

/// Makes an authority, a certificate from it for this machine, and one for another name.
pub fn certificates() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -batch";
    openssl(
        at,
        &format!("req -x509 {key} -keyout ca.key -out ca.pem -days 3650 -subj /CN=authority"),
    );
    for (name, subject) in [
        ("here", "IP:127.0.0.1"),
        ("elsewhere", "DNS:elsewhere.example"),
    ] {
        let extensions = format!("subjectAltName={subject}\nbasicConstraints=CA:FALSE\n");
        std::fs::write(at.join("extensions"), extensions).unwrap();
        openssl(
            at,
            &format!("req {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"),
        );
        openssl(
            at,
            &format!(
                "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial \
                 -out {name}.pem -days 3650 -extfile extensions"
            ),
        );
    }
    directory
}
