//! Commands of root on a data directory whose owner prepared it: links, pipes and hard links lead root nowhere.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use crate::support::appliance::{Appliance, err, playgate, sign_up};
use crate::support::external_tools::program;
use crate::support::process::InTime as _;
use crate::upgrade::package;
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

/// All other commands but these: most are a request to the server, or to a server that the command is for its time, so they are
/// tried with one set of traps.
const OTHERS: [&str; 67] = [
    "catalog drop-keys --yes",
    "catalog undo --yes",
    "clock advance 1h",
    "clock freeze",
    "clock reset",
    "clock scale 2",
    "clock set 2027-01-01T00:00:00Z",
    "clock show",
    "config show",
    "epg import CATALOG",
    "epg refresh a",
    "epg why a",
    "fleet dissolve --yes",
    "fleet handover",
    "fleet init --name a",
    "fleet invite",
    "fleet join --name b -",
    "fleet leave",
    "fleet recover --yes",
    "fleet reseed",
    "fleet rotate-key",
    "lab check --partner test",
    "lab fault add {}",
    "lab fault remove",
    "lab fault list",
    "lab reset test",
    "mail preview reset",
    "mail retry",
    "mail show 1",
    "mail test ann@example.com",
    "operator add --role admin b",
    "operator remove b",
    "operator token add b",
    "operator token list b",
    "operator token remove b c",
    "partner disable test",
    "partner enable test",
    "partner list",
    "partner remove test --yes",
    "partner change --telemetry-duration-unit s test",
    "partner show test",
    "partner token add test",
    "partner token list test",
    "partner token remove test c",
    "requests har",
    "requests show a",
    "requests tail",
    "rights remove a",
    "rights change a --live off",
    "rule add --live off --all",
    "rule remove 1",
    "user add b@example.com",
    "user change ann@example.com --name A",
    "user devices ann@example.com",
    "user disable ann@example.com",
    "user enable ann@example.com",
    "user grant ann@example.com a",
    "user logout ann@example.com",
    "user offers ann@example.com",
    "user pin ann@example.com",
    "user reset ann@example.com",
    "user revoke ann@example.com a",
    "user sessions ann@example.com",
    "user show ann@example.com",
    "user streams ann@example.com",
    "user watching",
    "user why ann@example.com a",
];

/// `a_server_that_root_starts_is_the_owners` is the test of these.
const SERVERS: [&str; 2] = ["demo", "serve"];

/// Commands that touch no data directory, or restart the service.
const WITHOUT_DATA: [&str; 6] = [
    "completions",
    "config keys",
    "fleet try",
    "lab run",
    "man",
    "upgrade rollback",
];

/// Adds all commands below one, by the texts of `--help`.
fn subcommands(of: &[String], found: &mut Vec<String>) {
    let output = playgate(Path::new("/nonexistent"))
        .args(of)
        .arg("--help")
        .output_in_time();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names = Vec::new();
    let mut lists_commands = false;
    for line in text.lines() {
        // Commands are listed in groups of several names, and other things under these.
        if let Some(head) = line.strip_suffix(':').filter(|head| !head.starts_with(' ')) {
            lists_commands =
                !["Arguments", "Options", "Global options", "Examples"].contains(&head);
        }
        // The further lines of a description are further to the right.
        let name = line
            .strip_prefix("  ")
            .and_then(|line| line.split(' ').next());
        names.extend(name.filter(|name| lists_commands && !["", "help"].contains(name)));
    }
    if names.is_empty() {
        found.push(of.join(" "));
    }
    for name in names {
        subcommands(&[of, &[name.to_owned()]].concat(), found);
    }
}

#[test]
fn every_command_is_tried_with_a_hostile_data_directory() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut tried: Vec<String> = commands(folder.path())
        .iter()
        .map(|words| words.join(" "))
        .collect();
    tried.extend(OTHERS.map(str::to_owned));
    let mut all = Vec::new();
    subcommands(&[], &mut all);
    assert!(all.len() > 100, "{all:?}");
    for command in all {
        let is_tried = tried.iter().any(|line| {
            let rest = line.strip_prefix(&command);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        });
        let is_elsewhere = [&WITHOUT_DATA[..], &SERVERS].concat().contains(&&*command);
        assert!(is_tried || is_elsewhere, "{command}");
    }
    let data = used(folder.path());
    give_to(OWNER, &data);
    let catalog = folder.path().join("catalog.toml");
    std::thread::scope(|scope| {
        for (trap, names) in [
            (Trap::LinkToDirectory, &ENTRIES[..]),
            (Trap::LinkToFile, &["store"]),
        ] {
            // Some wait for an etcd that is not there.
            for (at, lines) in OTHERS.chunks(6).enumerate() {
                let place = folder.path().join(format!("{trap:?}{at}"));
                let (data, catalog) = (&data, &catalog);
                scope.spawn(move || {
                    fs::create_dir(&place).unwrap();
                    let outside = Outside::make(&place);
                    let data = copied(data, &place.join("data"));
                    let lines = lines.iter().map(|line| {
                        let line = line.replace("CATALOG", catalog.to_str().unwrap());
                        line.split(' ').map(str::to_owned).collect()
                    });
                    let changes = attack(&data, &outside, trap, names, lines.collect());
                    assert_eq!(changes, Vec::<String>::new());
                });
            }
        }
    });
}

/// Sets traps, runs commands, and returns what changed outside.
fn attack(
    data: &Path,
    outside: &Outside,
    trap: Trap,
    names: &[&str],
    commands: Vec<Vec<String>>,
) -> Vec<String> {
    let mut changes = Vec::new();
    for arguments in commands {
        // A command may have moved a trap away.
        for name in names {
            trap.set(&data.join(name), outside);
        }
        let before = outside.state();
        let output = run(data, &arguments);
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        // It would end before it touches anything.
        assert!(!printed.contains("Usage:"), "{arguments:?}: {printed}");
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
                    let changes = attack(&data, &outside, trap, names, commands(&place));
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
        &data,
        &outside,
        Trap::LinkToDirectory,
        &["quality"],
        commands(folder.path()),
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
fn spying(place: &Path) -> String {
    let status = place.join("status");
    fs::write(&status, "").unwrap();
    format!(
        "#!/bin/sh\n(cat /proc/self/status; awk '{{ print \"Session: \" $6 }}' /proc/self/stat; env) > {}\n\
         echo '{{\"ok\": true, \"version\": \"9\", \"problems\": []}}'\n",
        status.display(),
    )
}

fn spy(place: &Path) -> PathBuf {
    let spy = place.join("spy");
    fs::write(&spy, spying(place)).unwrap();
    fs::set_permissions(&spy, fs::Permissions::from_mode(0o755)).unwrap();
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

/// The program in a package has the rights of the data directory's owner, whoever owns the package and whoever asks.
#[test]
fn a_package_runs_as_the_owner_whoever_owns_it() {
    if !is_root() {
        return;
    }
    const STRANGER: u32 = 12_345;
    let folder = tempfile::tempdir().unwrap();
    let data = used(folder.path());
    give_to(OWNER, &data);
    let status = folder.path().join("status");
    let Some(dpkg) = program("dpkg") else { return };
    let architecture = Command::new(dpkg)
        .arg("--print-architecture")
        .output_in_time();
    let architecture = String::from_utf8(architecture.stdout).unwrap();
    let Some(deb) = package(folder.path(), architecture.trim(), &spying(folder.path())) else {
        return;
    };
    // A directory that the owner of the data directory can change: root opens nothing there.
    let of_owner = folder.path().join("of-owner");
    fs::create_dir(&of_owner).unwrap();
    give_to(OWNER, &of_owner);
    let private = [of_owner.join("9.deb"), folder.path().join("9.deb")];
    for path in &private {
        fs::copy(&deb, path).unwrap();
    }
    let link = of_owner.join("link.deb");
    symlink(&private[1], &link).unwrap();
    let check = |user: u32, path: &Path, of: u32, mode: u32| {
        lchown(&status, Some(OWNER), Some(OWNER)).unwrap();
        fs::write(&status, "").unwrap();
        lchown(path, Some(of), Some(of)).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = playgate(&data);
        command
            .args(["upgrade", "check", "--json", "--deb"])
            .arg(path);
        if user != 0 {
            command.uid(user).gid(user);
        }
        let output = command.output_in_time();
        let report = fs::read_to_string(&status).unwrap();
        (output.status.success(), rights(&report), err(&output))
    };
    let (_, as_owner, _) = check(OWNER, &private[0], OWNER, 0o600);
    assert!(as_owner.contains(&format!("Uid: {OWNER} {OWNER} {OWNER} {OWNER}")));
    for of in [0, OWNER, STRANGER] {
        for mode in [0o600, 0o644] {
            // Root names it, so root opens it, where only root can have put it.
            let (ok, rights, said) = check(0, &private[1], of, mode);
            assert!(ok, "{of} {mode:o}: {said}");
            assert!(rights.contains(&"NoNewPrivs: 1".to_owned()), "{rights:?}");
            for line in as_owner
                .iter()
                .filter(|line| line.ends_with(&OWNER.to_string()))
            {
                assert!(
                    rights.contains(line),
                    "{of} {mode:o}: {rights:?} lacks {line}"
                );
            }
            let may_read = of == OWNER || mode == 0o644;
            for (user, path) in [(0, &private[0]), (OWNER, &private[0]), (OWNER, &private[1])] {
                let (ok, rights, said) = check(user, path, of, mode);
                assert_eq!(ok, may_read, "{user} {of} {mode:o}: {said}");
                assert_eq!(rights.is_empty(), !may_read);
                assert!(rights.iter().all(|line| !line.starts_with("Uid: 0")));
                let is_named = said.contains(path.to_str().unwrap());
                assert!(ok || (is_named && said.contains("ermission")), "{said}");
            }
        }
    }
    // A link of the owner to a package that only root may read.
    check(0, &private[1], 0, 0o600);
    fs::write(&status, "").unwrap();
    let mut command = playgate(&data);
    command.args(["upgrade", "check", "--deb"]).arg(&link);
    assert!(!command.output_in_time().status.success());
    assert_eq!(fs::read_to_string(&status).unwrap(), "");
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
