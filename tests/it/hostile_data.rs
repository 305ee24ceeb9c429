//! Commands of root on a data directory whose owner prepared it: links, pipes and hard links lead root nowhere.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use crate::support::appliance::{Appliance, err, playgate, sign_up};
use crate::support::process::InTime as _;
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// The user and group `nobody`, who own the data directory.
const OWNER: u32 = 65_534;
const SECRET: &str = "a secret of root";

fn is_root() -> bool {
    let is_root = rustix::process::getuid().is_root();
    if !is_root {
        eprintln!("skipped: it needs root");
    }
    is_root
}

fn everything_below(path: &Path, found: &mut Vec<PathBuf>) {
    found.push(path.to_owned());
    if path.is_symlink() || !path.is_dir() {
        return;
    }
    for entry in fs::read_dir(path).unwrap() {
        everything_below(&entry.unwrap().path(), found);
    }
}

fn give_to(owner: u32, path: &Path) {
    let mut all = Vec::new();
    everything_below(path, &mut all);
    for path in all {
        lchown(path, Some(owner), Some(owner)).unwrap();
    }
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o660), 0).unwrap();
}

/// What root has beside the data directory. Only root may enter it.
struct Outside(PathBuf);

impl Outside {
    fn make(place: &Path) -> Self {
        let outside = place.join("outside");
        fs::create_dir(&outside).unwrap();
        for directory in ["directory", "directory/sled.1", "directory/log"] {
            fs::create_dir(outside.join(directory)).unwrap();
        }
        for file in [
            "file",
            "directory/file",
            "directory/1.log",
            "directory/content.key",
        ] {
            let path = outside.join(file);
            fs::write(&path, SECRET).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            // A file read for the first time since it was changed gets a new time of access on every file system with
            // such times.
            let handle = File::options().write(true).open(&path).unwrap();
            let times = fs::FileTimes::new()
                .set_accessed(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000))
                .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(2_000));
            handle.set_times(times).unwrap();
        }
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o700)).unwrap();
        Self(outside)
    }

    /// Names, owners, modes, sizes and times of everything in it.
    fn state(&self) -> Vec<String> {
        let mut all = Vec::new();
        everything_below(&self.0, &mut all);
        all.sort();
        let line = |path: &PathBuf| {
            let about = fs::symlink_metadata(path).unwrap();
            // Reading a directory is how this function works, so only files have their time of access.
            let read = about.is_file().then(|| about.atime());
            let (mode, user, size) = (about.mode(), about.uid(), about.len());
            let changed = (about.mtime(), about.mtime_nsec());
            // Hard links to it are the attack, and change its number of links alone.
            format!(
                "{} {mode:o} {user} {size} {changed:?} {read:?}",
                path.display()
            )
        };
        all.iter().map(line).collect()
    }
}

/// What the owner puts in the place of entries of the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trap {
    LinkToDirectory,
    LinkToFile,
    HardLink,
    Pipe,
}

const TRAPS: [Trap; 4] = [
    Trap::LinkToDirectory,
    Trap::LinkToFile,
    Trap::HardLink,
    Trap::Pipe,
];

impl Trap {
    fn set(self, path: &Path, outside: &Outside) {
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap();
        } else if path.is_symlink() || path.exists() {
            fs::remove_file(path).unwrap();
        }
        match self {
            Self::LinkToDirectory => symlink(outside.0.join("directory"), path).unwrap(),
            Self::LinkToFile => symlink(outside.0.join("file"), path).unwrap(),
            Self::HardLink => fs::hard_link(outside.0.join("file"), path).unwrap(),
            Self::Pipe => fifo(path),
        }
        if self != Self::HardLink {
            lchown(path, Some(OWNER), Some(OWNER)).unwrap();
        }
    }
}

/// Entries of the data directory that exist after some use, or that a command may create.
const ENTRIES: [&str; 15] = [
    "admin.sock",
    "aside",
    "backups",
    "ballast",
    "fleet",
    "journal",
    "keys",
    "lock",
    "media",
    "quality",
    "restored",
    "store.replaced",
    "telemetry",
    "upgrade-check",
    "upload.snapshot",
];
/// Entries of the store.
const IN_STORE: [&str; 8] = [
    "store/base",
    "store/identity",
    "store/identity.copy",
    "store/log",
    "store/log.end",
    "store/sled.1",
    "store/upgrade-backup",
    "store/word",
];

/// A used data directory in a place that everyone may enter.
fn used(place: &Path) -> PathBuf {
    fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
    let data = place.join("data");
    let mut appliance = Appliance::start(&data);
    sign_up(&appliance);
    appliance.run_ok(&["backup", "create"]);
    appliance.end();
    data
}

/// The commands that touch a data directory, each with its arguments.
fn commands(place: &Path) -> Vec<Vec<String>> {
    let catalog = place.join("catalog.toml");
    fs::write(&catalog, "[[livestream]]\nid = \"a\"\nname = \"A\"\n").unwrap();
    let lines = [
        "audit list",
        "backup create",
        "backup list",
        "backup verify 1.snapshot",
        "backup restore 1.snapshot --yes",
        "catalog export",
        "catalog history",
        "clock accept",
        "config check",
        "doctor",
        "epg sources",
        "fleet status",
        "healthcheck",
        "mail list",
        "operator list",
        "partner add somebody",
        "requests list",
        "rule list",
        "store verify",
        "store rebuild",
        "store compact",
        "store recover --accept-loss",
        "store export -",
        "store export --salvage -",
        "telemetry export",
        "telemetry report",
        "upgrade check",
        "user list",
        "user remove ann@example.com --yes",
    ];
    let mut commands: Vec<Vec<String>> = lines
        .iter()
        .map(|line| line.split(' ').map(str::to_owned).collect())
        .collect();
    let named = [
        &["catalog", "import"][..],
        &["store", "import"],
        &["user", "import"],
    ];
    for words in named {
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        words.push(catalog.to_str().unwrap().to_owned());
        commands.push(words);
    }
    commands
}

fn run(data: &Path, arguments: &[String]) -> Output {
    playgate(data)
        .args(arguments)
        .env("PLAYGATE_FLEET_ENDPOINTS", "http://127.0.0.1:1")
        .output_in_time()
}

/// Sets traps, runs every command, and returns what changed outside.
fn attack(place: &Path, data: &Path, outside: &Outside, trap: Trap, names: &[&str]) -> Vec<String> {
    let mut changes = Vec::new();
    for arguments in commands(place) {
        // A command may have moved a trap away.
        for name in names {
            trap.set(&data.join(name), outside);
        }
        let before = outside.state();
        let output = run(data, &arguments);
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        if printed.contains(SECRET) {
            changes.push(format!("{trap:?}: {arguments:?} prints {printed}"));
        }
        let after = outside.state();
        for line in after.iter().filter(|line| !before.contains(line)) {
            changes.push(format!("{trap:?}: {arguments:?} makes {line}"));
        }
        if after.len() < before.len() {
            changes.push(format!("{trap:?}: {arguments:?} removes a file"));
        }
    }
    changes
}

fn copied(from: &Path, to: &Path) -> PathBuf {
    let copied = Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status_in_time();
    assert!(copied.success());
    to.to_owned()
}

#[test]
fn no_command_of_root_leaves_a_hostile_data_directory() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = used(folder.path());
    give_to(OWNER, &data);
    std::thread::scope(|scope| {
        for trap in TRAPS {
            for (at, names) in [&ENTRIES[..], &["store"], &IN_STORE]
                .into_iter()
                .enumerate()
            {
                let place = folder.path().join(format!("{trap:?}{at}"));
                let data = &data;
                scope.spawn(move || {
                    fs::create_dir(&place).unwrap();
                    let outside = Outside::make(&place);
                    let data = copied(data, &place.join("data"));
                    let changes = attack(&place, &data, &outside, trap, names);
                    assert_eq!(changes, Vec::<String>::new());
                });
            }
        }
    });
}

/// The control of the test above: root follows the same links in a directory of its own, and that is noticed.
#[test]
fn links_in_a_directory_of_root_lead_outside() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = used(folder.path());
    let outside = Outside::make(folder.path());
    let changes = attack(
        folder.path(),
        &data,
        &outside,
        Trap::LinkToDirectory,
        &["quality"],
    );
    assert_ne!(changes, Vec::<String>::new());
}

/// What a process may do, by its own report.
fn rights(report: &str) -> Vec<String> {
    let wanted = [
        "Uid:",
        "Gid:",
        "Groups:",
        "CapPrm:",
        "CapEff:",
        "CapBnd:",
        "CapAmb:",
        "NoNewPrivs:",
    ];
    let lines = report.lines();
    let lines = lines.filter(|line| wanted.iter().any(|wanted| line.starts_with(wanted)));
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// A program in the place of a version: writes its rights, session and environment to the file `status`.
fn spy(place: &Path) -> PathBuf {
    let spy = place.join("spy");
    let status = place.join("status");
    let text = format!(
        "#!/bin/sh\n(cat /proc/self/status; awk '{{ print \"Session: \" $6 }}' /proc/self/stat; env) > {}\n\
         echo '{{\"ok\": true, \"version\": \"9\", \"problems\": []}}'\n",
        status.display(),
    );
    fs::write(&spy, text).unwrap();
    fs::set_permissions(&spy, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(status, "").unwrap();
    spy
}

#[test]
fn a_foreign_version_runs_as_the_owner_without_any_right_of_root() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = used(folder.path());
    let spy = spy(folder.path());
    let check = |owner: u32| {
        give_to(owner, &data);
        // Without capabilities root writes only to its own files.
        give_to(owner, &folder.path().join("status"));
        let arguments = [
            "upgrade",
            "check",
            "--json",
            "--binary",
            spy.to_str().unwrap(),
        ];
        let mut command = playgate(&data);
        command.args(arguments).env("TOKEN_OF_ROOT", SECRET);
        let output = command.output_in_time();
        assert!(output.status.success(), "{}", err(&output));
        let report = fs::read_to_string(folder.path().join("status")).unwrap();
        // Any process of the owner can read the environment of another.
        assert!(owner == 0 || !report.contains(SECRET), "{report}");
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let session = stat.split(' ').nth(5).unwrap();
        // In the session of root's terminal the owner could type into it.
        let is_same = report.contains(&format!("Session: {session}\n"));
        assert!(owner == 0 || !is_same, "{report}");
        rights(&report)
    };
    let none = "0000000000000000";
    let expected = |user: u32, groups: &str| {
        [
            format!("Uid: {user} {user} {user} {user}"),
            format!("Gid: {user} {user} {user} {user}"),
            format!("Groups:{groups}"),
            format!("CapPrm: {none}"),
            format!("CapEff: {none}"),
            format!("CapBnd: {none}"),
            format!("CapAmb: {none}"),
            "NoNewPrivs: 1".to_owned(),
        ]
    };
    assert_eq!(check(OWNER), expected(OWNER, ""));
    // A data directory of root: no other user may read it, but the program has no right beyond root's own files.
    let as_root = check(0);
    let of_root = expected(0, "");
    for line in of_root.iter().filter(|line| !line.starts_with("Groups:")) {
        assert!(as_root.contains(line), "{as_root:?} lacks {line}");
    }
}

#[test]
fn the_caller_behind_a_command_of_root_is_recorded() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = used(folder.path());
    give_to(OWNER, &data);
    let mut command = playgate(&data);
    command
        .args(["partner", "add", "behind"])
        .env("SUDO_USER", "alice");
    assert!(command.output_in_time().status.success());
    let listed = playgate(&data)
        .args(["audit", "list", "--json"])
        .output_in_time();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed[0]["claimed"], "alice");
}

/// Files that only root may read, in a directory that only root may enter.
fn private_files(place: &Path, backups: &Path) -> PathBuf {
    let private = place.join("private");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    let catalog = "[[asset]]\nid = \"film\"\ntitle = \"Film\"\nencrypted = true\n\
        keys = [{ kid = \"00112233445566778899aabbccddeeff\", key_file = \"a.key\" }]\n";
    for (name, content) in [
        ("catalog.toml", catalog),
        ("a.key", "000102030405060708090a0b0c0d0e0f"),
        ("password", "a long password 7"),
        ("playgate.toml", "environment = \"staging\"\n"),
    ] {
        fs::write(private.join(name), content).unwrap();
    }
    let backup = fs::read_dir(backups).unwrap().next().unwrap().unwrap();
    fs::copy(backup.path(), private.join("copy.snapshot")).unwrap();
    for entry in fs::read_dir(&private).unwrap() {
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(entry.unwrap().path(), mode).unwrap();
    }
    private
}

#[test]
fn root_opens_the_files_that_it_names_and_no_file_that_the_owner_names() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = used(folder.path());
    let private = private_files(folder.path(), &data.join("backups"));
    let path = |name: &str| private.join(name).to_str().unwrap().to_owned();
    give_to(OWNER, &data);
    let run = |arguments: &[&str]| {
        let mut command = playgate(&data);
        command
            .args(["--config", &path("playgate.toml")])
            .args(arguments);
        command.output_in_time()
    };
    for arguments in [
        &["catalog", "import", &path("catalog.toml")][..],
        &[
            "user",
            "add",
            "bob@example.com",
            "--partner",
            "test",
            "--password-file",
            &path("password"),
        ],
        &["backup", "verify", &path("copy.snapshot")],
        &[
            "store",
            "export",
            &path("export"),
            "--from",
            &path("copy.snapshot"),
        ],
        &["backup", "restore", "--yes", &path("copy.snapshot")],
        &["doctor", "--json", "--bundle", &path("bundle.tar.gz")],
    ] {
        let output = run(arguments);
        let is_doctor = arguments[0] == "doctor";
        assert!(
            output.status.success() || is_doctor,
            "{arguments:?}: {}",
            err(&output)
        );
    }
    for made in ["export", "bundle.tar.gz"] {
        let about = fs::metadata(path(made)).unwrap();
        assert!(about.uid() == 0 && about.len() > 0, "{made}");
    }
    // A command that fails leaves no file that it was to write.
    let failed = run(&[
        "store",
        "export",
        &path("none"),
        "--from",
        &path("password"),
    ]);
    assert_eq!(failed.status.code(), Some(5), "{}", err(&failed));
    assert!(!Path::new(&path("none")).exists());

    // The owner puts a link to a backup that only root may read where root expects one of the owner's.
    let linked = data.join("backups/linked.snapshot");
    symlink(path("copy.snapshot"), &linked).unwrap();
    lchown(&linked, Some(OWNER), Some(OWNER)).unwrap();
    let output = run(&["backup", "verify", linked.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(
        err(&output).contains("linked.snapshot: Permission denied"),
        "{}",
        err(&output)
    );
}

#[test]
fn a_server_that_root_starts_is_the_owners() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = used(folder.path());
    give_to(OWNER, &data);
    let mut appliance = Appliance::start(&data);
    let status = fs::read_to_string(format!("/proc/{}/status", appliance.process.id())).unwrap();
    let has = rights(&status);
    assert_eq!(
        has[0],
        format!("Uid: {OWNER} {OWNER} {OWNER} {OWNER}"),
        "{has:?}"
    );
    // Commands of root reach it by its socket.
    appliance.run_ok(&["partner", "list"]);
    appliance.end();
}
