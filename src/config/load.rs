//! Loading: everything that was given, read, checked and listed.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use super::http::Environment;
use super::keys::Config;
use super::schema::Reader;
use super::sources::{Found, UNSAFE_NO_SYNC, variable_of};
use super::validate;
use super::{DEFAULT_FILE, Effective, LogLevel, Problems, Provenance};

/// What a configuration is loaded from.
#[derive(Default)]
pub struct Inputs {
    /// The file that was named; without one [`DEFAULT_FILE`], if it is there.
    pub file: Option<PathBuf>,
    /// Whether this is the demo: it reads no file unless one is named, and allows what belongs in a
    /// laboratory.
    pub demo: bool,
    /// The environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Keys that flags set: key, flag with its dashes, value.
    pub flags: Vec<(&'static str, &'static str, String)>,
    /// Whether a person reads the log on a terminal.
    pub terminal: bool,
}

impl Inputs {
    /// The inputs of this process, without flags.
    #[must_use]
    pub fn from_process(file: Option<PathBuf>) -> Self {
        Self {
            file,
            demo: false,
            environment: std::env::vars_os().collect(),
            flags: Vec::new(),
            terminal: std::io::stderr().is_terminal(),
        }
    }

    fn variable(&self, name: &str) -> Option<&OsString> {
        self.environment
            .iter()
            .find(|(variable, _)| variable == name)
            .map(|(_, value)| value)
    }
}

/// A configuration that can be started with.
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// Every key in force, in the order of the documentation.
    pub effective: Vec<Effective>,
    /// What the operator should know, one sentence each.
    pub warnings: Vec<String>,
    /// Whether every sync is switched off (`PLAYGATE_UNSAFE_NO_SYNC=1`).
    pub unsafe_no_sync: bool,
    /// Whether a person reads the log on a terminal.
    pub terminal: bool,
}

/// What the documentation of a key says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// The key with its section.
    pub key: String,
    /// Its environment variable.
    pub variable: String,
    /// Its default, as a variable would spell it; nothing if it has none.
    pub default: Option<&'static str>,
    /// What it is for.
    pub doc: &'static str,
    /// Whether it may also be given as a file (`key_file`) or a credential.
    pub secret: bool,
}

/// Every key there is, in the order of the documentation.
pub fn keys() -> impl Iterator<Item = KeyInfo> {
    Config::SECTIONS.iter().flat_map(|(prefix, keys)| {
        keys.iter().map(move |key| {
            let name = format!("{prefix}{}", key.name);
            KeyInfo {
                variable: variable_of(&name),
                key: name,
                default: key.default,
                doc: key.doc.trim(),
                secret: key.secret,
            }
        })
    })
}

/// Loads a configuration.
///
/// # Errors
/// Every mistake in it.
pub fn load(inputs: &Inputs) -> Result<Loaded, Problems> {
    let (loaded, problems) = read(inputs);
    problems.or(loaded)
}

/// Reads a configuration, with the defaults in place of what is wrong in it, and every mistake.
pub fn read(inputs: &Inputs) -> (Option<Loaded>, Problems) {
    let mut problems = Problems::default();
    let mut found = Found::new(&mut problems);
    match &inputs.file {
        Some(path) => found.file(path, true),
        None if inputs.demo => {}
        None => found.file(DEFAULT_FILE.as_ref(), false),
    }
    found.environment(&inputs.environment);
    found.flags(&inputs.flags);
    let Found {
        given, warnings, ..
    } = found;

    let credentials = inputs.variable("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    let data_dir = given
        .get("data_dir")
        .and_then(|given| given.raw.text().ok())
        .unwrap_or("./playgate-data");
    let mut reader = Reader {
        given: &given,
        credentials: credentials.as_deref(),
        data_dir: data_dir.into(),
        problems: &mut problems,
        shown: Vec::new(),
    };
    let config = Config::read(&mut reader);
    let mut effective = reader.shown;
    let unsafe_no_sync = no_sync(inputs, &mut problems);
    let Some(mut config) = config else {
        // A default that cannot be read; the tests read them all.
        problems.add(None, "the built-in defaults are damaged");
        return (None, problems);
    };
    if inputs.demo {
        apply_demo_defaults(&mut config, &mut effective);
    }
    validate::check(&config, &effective, inputs.demo, &mut problems);
    problems.sort();
    let mut warnings = warnings;
    warnings.extend(validate::warnings(&effective, unsafe_no_sync));
    let loaded = Loaded {
        warnings,
        config,
        effective,
        unsafe_no_sync,
        terminal: inputs.terminal,
    };
    (Some(loaded), problems)
}

/// The demo has Clear Key and a clock that can be moved, and is no production; it logs what needs
/// attention, since what it prints is to be read. All of it unless somebody says otherwise.
fn apply_demo_defaults(config: &mut Config, effective: &mut [Effective]) {
    for key in effective {
        if key.origin != Provenance::Default {
            continue;
        }
        let value = match key.key.as_str() {
            "playback.clearkey" => {
                config.playback.clearkey = true;
                "true"
            }
            "lab.clock" => {
                config.lab.clock = true;
                "true"
            }
            "environment" => {
                config.server.environment = Environment::Staging;
                Environment::Staging.as_str()
            }
            "log.level" => {
                config.log.level = LogLevel::Warn;
                "warn"
            }
            _ => continue,
        };
        key.value = Some(value.to_owned());
    }
}

fn no_sync(inputs: &Inputs, problems: &mut Problems) -> bool {
    match inputs.variable(UNSAFE_NO_SYNC) {
        None => false,
        Some(value) if value == "1" => true,
        Some(_) => {
            let origin = Provenance::Variable(UNSAFE_NO_SYNC.to_owned());
            problems.add(Some(origin), "must be 1 or not be set");
            false
        }
    }
}
