//! Declares keys, and converts raw values to typed ones.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::compared::{is_shortened, raw_digest};
use super::provenance::Effective;
use super::setting::Setting;
use super::{ConfigProblems, Provenance};
use playgate_decode::{Mistake, Node, Value};
use playgate_ports::watched_file::readable_by_all;

#[derive(Clone, Copy)]
pub(super) struct KeyDeclaration {
    pub(super) name: &'static str,
    pub(super) doc: &'static str,
    /// The default, as written in a variable.
    pub(super) default: Option<&'static str>,
    pub(super) secret: bool,
}

pub(super) trait Section: Sized {
    const KEYS: &'static [KeyDeclaration];

    fn read(prefix: &str, reader: &mut KeyReader<'_>) -> Option<Self>;
}

/// Declares a section: `field: Type = parser, default;`.
macro_rules! section {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $type:ty = $read:expr, $default:expr;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $type,)*
        }

        impl Section for $name {
            const KEYS: &'static [KeyDeclaration] = &[$(KeyDeclaration {
                name: stringify!($field),
                doc: concat!($($doc),+),
                default: $default,
                secret: <$type as Setting>::SECRET,
            },)*];

            fn read(prefix: &str, reader: &mut KeyReader<'_>) -> Option<Self> {
                // All keys are read before the first error counts, so that all errors are reported together.
                $(let $field: Option<$type> =
                    reader.read(prefix, stringify!($field), $default, $read);)*
                Some(Self { $($field: $field?,)* })
            }
        }
    };
}

/// Declares the configuration: `field: Section = "prefix.";`.
macro_rules! whole {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $section:ty = $prefix:literal;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $section,)*
        }

        impl $name {
            pub(super) const SECTIONS: &'static [(&'static str, &'static [KeyDeclaration])] =
                &[$(($prefix, <$section as Section>::KEYS),)*];

            pub(super) fn read(reader: &mut KeyReader<'_>) -> Option<Self> {
                $(let $field = <$section as Section>::read($prefix, reader);)*
                Some(Self { $($field: $field?,)* })
            }
        }
    };
}

pub(super) use {section, whole};

#[derive(Clone)]
pub(super) struct Given {
    pub(super) raw: Node,
    pub(super) origin: Provenance,
}

pub(super) enum Refusal {
    /// The end of a sentence that begins with the name of the key.
    Value(String),
    Members(Vec<Mistake>),
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Value(why)
    }
}

pub(super) struct KeyReader<'a> {
    pub(super) given: &'a BTreeMap<String, Given>,
    pub(super) credentials: Option<&'a Path>,
    pub(super) data_dir: PathBuf,
    pub(super) problems: &'a mut ConfigProblems,
    pub(super) shown: Vec<Effective>,
}

impl KeyReader<'_> {
    /// Reads one key. An invalid value is reported, replaced by the default and not listed as effective.
    /// `None` only if the declaration itself is wrong.
    pub(super) fn read<T: Setting, E: Into<Refusal>>(
        &mut self,
        prefix: &str,
        field: &str,
        default: Option<&str>,
        read: impl Fn(&Node) -> Result<T, E>,
    ) -> Option<T> {
        let key = format!("{prefix}{field}");
        let given = if T::SECRET {
            match self.secret(&key) {
                Some(given) => given,
                None => return self.fallback(default, read),
            }
        } else {
            self.given.get(&key).cloned()
        };
        let given = given.or_else(|| {
            Some(Given {
                raw: Node::loose(default?),
                origin: Provenance::Default,
            })
        });
        let (value, whole, origin) = match given {
            Some(given) => match read(&self.filled_in(given.raw.clone())) {
                Ok(value) => (value, Some(given.raw), given.origin),
                Err(why) => {
                    self.refuse(&key, &given.origin, why.into());
                    // The default replaces the invalid value, so that the other keys are still checked.
                    return self.fallback(default, read);
                }
            },
            None => (T::absent()?, None, Provenance::Default),
        };
        let value_shown = value.show();
        let digest = whole.filter(|raw| T::SECRET || is_shortened(raw, value_shown.as_deref()));
        self.shown.push(Effective {
            value: value_shown,
            digest: digest.map(|raw| raw_digest(&raw)),
            key,
            origin,
        });
        Some(value)
    }

    fn refuse(&mut self, key: &str, origin: &Provenance, why: Refusal) {
        match why {
            Refusal::Value(why) => {
                let message = format!("`{key}` {why}");
                self.problems.add(Some(origin.clone()), message);
            }
            Refusal::Members(mistakes) => {
                for Mistake { line, message } in mistakes {
                    let origin = origin.clone().at_line(line);
                    self.problems
                        .add(Some(origin), format!("`{key}`: {message}"));
                }
            }
        }
    }

    fn fallback<T: Setting, E>(
        &self,
        default: Option<&str>,
        read: impl Fn(&Node) -> Result<T, E>,
    ) -> Option<T> {
        match default {
            Some(text) => read(&self.filled_in(Node::loose(text))).ok(),
            None => T::absent(),
        }
    }

    fn filled_in(&self, mut raw: Node) -> Node {
        if let Value::Loose(text) | Value::Text(text) = &mut raw.value {
            *text = text.replace("{data_dir}", &self.data_dir.to_string_lossy());
        }
        raw
    }

    /// Reads a secret from its value, file or credential. The outer `None` means that a problem was
    /// reported.
    fn secret(&mut self, key: &str) -> Option<Option<Given>> {
        let mut forms = Vec::new();
        forms.extend(self.given.get(key).cloned());
        if let Some(file) = self.given.get(&format!("{key}_file")).cloned() {
            let path = file
                .raw
                .text()
                .map(PathBuf::from)
                .map_err(|why| format!("`{key}_file` {why}"));
            let read = path.and_then(|path| read_secret(&path, true));
            forms.push(self.secret_given(key, read, file.origin)?);
        }
        if let Some(path) = self.credentials.map(|directory| directory.join(key))
            && path.exists()
        {
            // systemd gives credentials to the service only; their mode does not matter.
            let read = read_secret(&path, false);
            let origin = Provenance::Credential(key.to_owned());
            forms.push(self.secret_given(key, read, origin)?);
        }
        // An order of precedence would hide a stale secret, which then fails at the other server.
        if let [first, second, ..] = forms.as_slice() {
            let message = format!(
                "`{key}` is set twice, here and by {}: remove one",
                first.origin
            );
            self.problems.add(Some(second.origin.clone()), message);
            return None;
        }
        Some(forms.pop())
    }

    fn secret_given(
        &mut self,
        key: &str,
        read: Result<String, String>,
        origin: Provenance,
    ) -> Option<Given> {
        match read {
            Ok(text) => Some(Given {
                raw: Node::loose(text),
                origin,
            }),
            Err(why) => {
                self.problems.add(Some(origin), format!("`{key}`: {why}"));
                None
            }
        }
    }
}

pub(super) fn read_secret(path: &Path, check_rights: bool) -> Result<String, String> {
    const SIZE_MAX: u64 = 64 * 1024;
    let shown = path.display();
    let cannot = |error: std::io::Error| format!("cannot read {shown}: {error}");
    let metadata = fs::metadata(path).map_err(cannot)?;
    // Reading a device or a pipe by mistake would not end.
    if !metadata.is_file() || metadata.len() > SIZE_MAX {
        return Err(format!(
            "{shown} must be a regular file of at most {SIZE_MAX} bytes"
        ));
    }
    if check_rights && readable_by_all(path, metadata.mode()) {
        return Err(format!(
            "{shown} is readable by all users of this machine; run: chmod o= {shown}"
        ));
    }
    let text = fs::read_to_string(path).map_err(cannot)?;
    // Editors and `openssl rand` end a file with a line end, and some editors begin it with a byte order mark. Neither is
    // part of the secret.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
