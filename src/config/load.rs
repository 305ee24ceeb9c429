//! Loads the configuration: collects, parses and validates all inputs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use super::http::Environment;
use super::keys::Config;
use super::schema::{Given, KeyReader};
use super::sources::{ConfigSources, UNSAFE_NO_SYNC, variable_of};
use super::validate;
use super::{ConfigProblems, DEFAULT_FILE, Effective, LogLevel, Provenance};
use playgate_ports::zoneinfo;

#[derive(Default)]
pub struct Inputs {
    /// The file given by the user; otherwise [`DEFAULT_FILE`], if it exists.
    pub file: Option<PathBuf>,
    /// Demo mode: reads no default file and allows lab settings.
    pub demo: bool,
    pub environment: Vec<(OsString, OsString)>,
    /// Keys set by flags: key, flag with dashes, value.
    pub flags: Vec<(&'static str, &'static str, String)>,
    pub terminal: bool,
}

impl Inputs {
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

pub struct Loaded {
    pub config: Config,
    /// All effective values, in the order of the documentation.
    pub effective: Vec<Effective>,
    pub warnings: Vec<String>,
    /// Whether all syncs are disabled (`PLAYGATE_UNSAFE_NO_SYNC=1`).
    pub unsafe_no_sync: bool,
    pub terminal: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    pub key: String,
    pub variable: String,
    pub default: Option<&'static str>,
    pub doc: &'static str,
    /// Whether the key can also be given as `key_file` or as a credential.
    pub secret: bool,
}

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

pub fn load(inputs: &Inputs) -> Result<Loaded, ConfigProblems> {
    let (loaded, problems) = read(inputs);
    problems.or(loaded)
}

fn collect<'a>(inputs: &Inputs, problems: &'a mut ConfigProblems) -> ConfigSources<'a> {
    let mut found = ConfigSources::new(problems);
    match &inputs.file {
        Some(path) => found.file(path, true),
        // A demo must not pick up the configuration of an installation.
        None if inputs.demo => {}
        None => found.file(DEFAULT_FILE.as_ref(), false),
    }
    // The order is the precedence: later sources replace earlier ones.
    found.environment(&inputs.environment);
    found.flags(&inputs.flags);
    found
}

fn data_dir_of(given: &BTreeMap<String, Given>) -> &str {
    let given = given.get("data_dir");
    given
        .and_then(|given| given.raw.text().ok())
        .unwrap_or("./playgate-data")
}

/// Finds the data directory, and opens no file but the configuration itself.
pub fn data_dir(inputs: &Inputs) -> PathBuf {
    let mut problems = ConfigProblems::default();
    data_dir_of(&collect(inputs, &mut problems).given).into()
}

/// Loads a configuration with defaults in place of invalid values, and returns all errors.
pub fn read(inputs: &Inputs) -> (Option<Loaded>, ConfigProblems) {
    let mut problems = ConfigProblems::default();
    let ConfigSources {
        given, warnings, ..
    } = collect(inputs, &mut problems);

    let credentials = inputs.variable("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    // Read before the other keys, whose defaults refer to it.
    let data_dir = data_dir_of(&given);
    // Before the zones are read: a zone may be newer than the rules that are compiled in.
    let directory = given.get("schedule.zoneinfo");
    let directory = directory.and_then(|given| given.raw.text().ok());
    zoneinfo::apply(&zoneinfo::choose(directory.map(Path::new)));
    let mut reader = KeyReader {
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
        // Unreachable: the tests parse all defaults.
        problems.add(None, "a built-in default is invalid");
        return (None, problems);
    };
    if inputs.demo {
        apply_demo_defaults(&mut config, &mut effective);
    }
    validate::check(&config, &effective, inputs.demo, &mut problems);
    // The rules across keys add their problems last; sorting puts them among the others of their lines.
    problems.sort();
    let mut warnings = warnings;
    warnings.extend(validate::warnings(&config, &effective, unsafe_no_sync));
    let loaded = Loaded {
        warnings,
        config,
        effective,
        unsafe_no_sync,
        terminal: inputs.terminal,
    };
    (Some(loaded), problems)
}

fn apply_demo_defaults(config: &mut Config, effective: &mut [Effective]) {
    for key in effective {
        // A demo keeps what the user has set.
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
                // Log lines of level info would scroll the printed calls away.
                config.log.level = LogLevel::Warn;
                "warn"
            }
            _ => continue,
        };
        key.value = Some(value.to_owned());
    }
}

fn no_sync(inputs: &Inputs, problems: &mut ConfigProblems) -> bool {
    match inputs.variable(UNSAFE_NO_SYNC) {
        None => false,
        Some(value) if value == "1" => true,
        // `0` or `false` may mean either; a setting that loses data is not guessed.
        Some(_) => {
            let origin = Provenance::Variable(UNSAFE_NO_SYNC.to_owned());
            problems.add(Some(origin), "must be 1, or not set at all");
            false
        }
    }
}
