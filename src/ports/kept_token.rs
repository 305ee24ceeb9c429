//! The newest refresh token of the mail server's login, in a file of its own next to the keys.
//!
//! Some identity providers answer every use of a refresh token with a new one and revoke the old: after a restart, the
//! configured one would be refused. A token is kept for the settings with which it was obtained, so that one that an
//! operator configures anew wins.

use std::io;
use std::path::PathBuf;

use data_encoding::HEXLOWER;
use ring::digest;

use super::private_file;
use playgate_process::data_file;

const NAME: &str = "smtp-refresh.token";
/// First line of the file. The number is the version.
const HEAD: &str = "playgate refresh token 1";

/// No `Debug`: the file holds a secret.
#[derive(Clone)]
pub(crate) struct KeptToken {
    directory: PathBuf,
    /// Hash of the settings.
    settings: String,
}

impl KeptToken {
    /// `settings` are those that lead to a token: another client, or another first token, has others.
    pub(crate) fn new(directory: PathBuf, settings: &[&str]) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        for text in settings {
            // With the length, so that no two lists are the same bytes.
            context.update(&(text.len() as u64).to_be_bytes());
            context.update(text.as_bytes());
        }
        Self {
            directory,
            settings: HEXLOWER.encode(context.finish().as_ref()),
        }
    }

    /// Returns the token that was kept for these settings.
    pub(crate) fn read(&self) -> Option<String> {
        let path = self.directory.join(NAME);
        let text = match data_file::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::error!(%error, "failed to read the refresh token of the mail server; using the configured one");
                }
                return None;
            }
        };
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) || lines.next()? != self.settings {
            return None;
        }
        lines
            .next()
            .filter(|token| !token.is_empty())
            .map(str::to_owned)
    }

    /// Returns once the token is on disk.
    pub(crate) fn write(&self, token: &str) -> io::Result<()> {
        // A line break would end it. No token has one.
        let token = token.lines().next().unwrap_or_default();
        let text = format!("{HEAD}\n{}\n{token}\n", self.settings);
        private_file::write(&self.directory, NAME, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_kept_for_its_settings_and_for_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("keys");
        let kept =
            |first: &str| KeptToken::new(directory.clone(), &["https://a/token", "tv", first]);
        assert_eq!(kept("r0").read(), None);
        kept("r0").write("r7").unwrap();
        assert_eq!(kept("r0").read().as_deref(), Some("r7"));
        // The operator has configured another one.
        assert_eq!(kept("r1").read(), None);
        let path = directory.join(NAME);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let golden = "playgate refresh token 1\n\
             bb8fa9be25dbb175311ae6db83b20a229143648cc3a270740b738aa9b172aedb\nr7\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), golden);
        for damaged in ["", "x", HEAD, &format!("{HEAD}\n\n\n")] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(kept("r0").read(), None, "{damaged:?}");
        }
    }
}
