//! Commands of root that work on a data directory of another user run in a process of that user: its real and only user
//! and group, no capabilities, `no_new_privs`. Whoever controls the data directory can put links and pipes in it; root
//! would follow them.
//!
//! Root determines the owner, opens the files that the command line names, starts this program again and waits. That
//! process leaves the terminal's session, so that the owner cannot type into the terminal of root, and then becomes the
//! owner by executing this program once more.

mod named_files;
mod trusted_path;

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};

use clap::ArgMatches;
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::process::{
    Pid, Signal, getpid, getppid, getuid, set_parent_process_death_signal, setsid,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::global::Global;
use crate::output::{Exit, Failure};
use crate::process::{THIS_PROGRAM, caller, system_log};
use named_files::{NamedFiles, command_of, is_given};
use playgate_config::{DEFAULT_FILE, data_dir};
use playgate_ports::named_file;
use trusted_path::{is_unmapped, trace};

/// Tells the second of the three processes whom to become, as `user:group`.
const BECOME: &str = "BECOME_OWNER_FOR_PLAYGATE";
/// The process id of root's process, on which the third one depends.
const PARENT: &str = "PARENT_OF_PLAYGATE";

/// Commands that touch no data directory, or only ask the running server: these stay what they are.
const UNTOUCHED: [&str; 6] = [
    "completions",
    "man",
    "config keys",
    "fleet try",
    // Starts the client of whoever runs it, and needs a running server.
    "lab run",
    // Restarts the service. It lets the version before check itself by `upgrade check`.
    "upgrade rollback",
];

/// The user and group that own a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    user: u32,
    group: u32,
}

/// Takes the second and third step if this process was started by the one before.
pub(crate) fn resume() -> Result<(), Failure> {
    if getuid().is_root() {
        let Some(owner) = std::env::var_os(BECOME) else {
            return Ok(());
        };
        let owner = owner.to_str().and_then(|owner| owner.split_once(':'));
        let owner = owner.and_then(|(user, group)| {
            Some(Owner {
                user: user.parse().ok()?,
                group: group.parse().ok()?,
            })
        });
        let owner = owner.ok_or_else(|| Failure::usage(format!("{BECOME} is malformed")))?;
        // It fails only for the leader of a group, which has just left its own.
        let _ = setsid();
        return Err(become_owner(owner));
    }
    let parent = std::env::var_os(PARENT);
    let parent = parent.and_then(|parent| parent.to_str()?.parse().ok());
    let parent = parent.and_then(Pid::from_raw);
    if parent.is_some() && parent == getppid() {
        // Ctrl-C reaches only the process that is left in the session of the terminal.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
        if parent != getppid() {
            return Err(Failure::failed("interrupted"));
        }
    }
    Ok(())
}

/// Continues a command of root as the owner of the data directory. Returns `None` if this process may go on itself.
pub(crate) fn continue_as_owner(
    global: &Global,
    matches: &ArgMatches,
) -> Result<Option<ExitCode>, Failure> {
    if !getuid().is_root() {
        return Ok(None);
    }
    let (command, arguments) = command_of(matches);
    let is_temporary = command == "demo" && !is_given(matches, "data_dir");
    if UNTOUCHED.contains(&command.as_str()) || is_temporary {
        return Ok(None);
    }
    let Some(owner) = owner(global)? else {
        return Ok(None);
    };
    // A server keeps its process id, which the service manager knows, and its sockets.
    if ["serve", "demo"].contains(&command.as_str()) {
        return Err(become_owner(owner));
    }
    let mut files = NamedFiles::open(&command, arguments, owner);
    let config = global.config.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
    files.add_read(config, owner);
    if command == "doctor" && is_given(arguments, "bundle") {
        hand_down_system_log(&mut files);
    }
    let status = this_program()
        .env(BECOME, format!("{}:{}", owner.user, owner.group))
        .env(PARENT, getpid().to_string())
        .env(caller::VARIABLE, caller_name())
        .env(named_file::VARIABLE, files.list())
        .status();
    files.remove_empty();
    let status = status.map_err(|error| failed(owner, &error))?;
    let by_signal = || status.signal().map(|signal| 128 + signal);
    let code = status.code().or_else(by_signal);
    Ok(Some(
        code.and_then(|code| u8::try_from(code).ok())
            .unwrap_or(1)
            .into(),
    ))
}

fn caller_name() -> String {
    match caller::name().as_str() {
        "0" => "root".to_owned(),
        name => name.to_owned(),
    }
}

/// Executes this program again as the owner; returns only on failure. The process stays the same.
fn become_owner(owner: Owner) -> Failure {
    drop_capabilities_of_successors();
    let error = this_program()
        .env_remove(BECOME)
        // Without other groups: the standard library clears them if root changes the user.
        .uid(owner.user)
        .gid(owner.group)
        .exec();
    failed(owner, &error)
}

fn this_program() -> Command {
    let mut arguments = std::env::args_os();
    let mut command = Command::new(THIS_PROGRAM);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments);
    // The environment of root may hold secrets, which the owner could read in `/proc`.
    let passed_on = std::env::vars_os().filter(|(name, _)| is_passed_on(name));
    command.env_clear().envs(passed_on);
    command
}

/// Whether a variable reaches the process of the owner: settings of this program, of its terminal and locale, and what the
/// service manager says.
fn is_passed_on(name: &OsStr) -> bool {
    const PREFIXES: [&str; 4] = ["PLAYGATE_", "LC_", "LISTEN_", "WATCHDOG_"];
    const NAMES: [&str; 16] = [
        BECOME,
        PARENT,
        caller::VARIABLE,
        named_file::VARIABLE,
        "COLUMNS",
        "COMPLETE",
        "CREDENTIALS_DIRECTORY",
        "LANG",
        "NOTIFY_SOCKET",
        "NO_COLOR",
        "PATH",
        "RUST_BACKTRACE",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TERM",
        "TZ",
    ];
    let name = name.to_string_lossy();
    NAMES.contains(&&*name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn failed(owner: Owner, error: &io::Error) -> Failure {
    let Owner { user, group } = owner;
    let said = format!(
        "cannot become the owner of the data directory (user {user}, group {group}): {error}"
    );
    Failure::new(Exit::Failed, said)
        .hint("root does not open files of another user itself; run the command as that user")
}

/// What this thread executes from here on can get no capability back. It keeps its own, which the change of user needs.
fn drop_capabilities_of_successors() {
    // Each of these restricts something that the change of user takes away too, so that a failure is no danger.
    let _ = set_no_new_privs(true);
    let _ = clear_ambient_capability_set();
    for capability in CapabilitySet::all().iter() {
        let _ = remove_capability_from_bounding_set(capability);
    }
    if let Ok(current) = capabilities(None) {
        let inheritable = CapabilitySet::empty();
        let _ = set_capabilities(
            None,
            CapabilitySets {
                inheritable,
                ..current
            },
        );
    }
}

/// Starts a program that nobody vouches for: if this process is root's, without capabilities, which it cannot get back.
pub(crate) fn start_confined(
    start: impl FnOnce() -> io::Result<Child> + Send,
) -> io::Result<Child> {
    if !getuid().is_root() {
        return start();
    }
    // Capabilities belong to a thread, and a program inherits those of the thread that starts it.
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| {
            drop_capabilities_of_successors();
            let none = CapabilitySet::empty();
            let none = CapabilitySets {
                effective: none,
                permitted: none,
                inheritable: none,
            };
            set_capabilities(None, none)?;
            start()
        });
        let panicked = |_| Err(io::Error::other("the thread that starts it failed"));
        starting.join().unwrap_or_else(panicked)
    })
}

/// The user to continue as; `None` if everything belongs to root.
fn owner(global: &Global) -> Result<Option<Owner>, Failure> {
    let directory = data_dir(&global.inputs()?);
    // Without the last directories, such as on a disk that is not mounted, nothing is there to protect from.
    let Ok(traced) = trace(&directory) else {
        return Ok(None);
    };
    let stat = traced.found.as_ref().and_then(|found| fstat(found).ok());
    if let Some(stat) = stat
        && stat.st_uid != 0
    {
        let owner = Owner {
            user: stat.st_uid,
            group: usable_group(stat.st_uid, stat.st_gid),
        };
        return Ok((!is_unmapped(owner.user)).then_some(owner));
    }
    // A directory of root, or none yet, but on a path that another user can lead elsewhere.
    if let Some(&user) = traced.strangers.first() {
        return Ok(Some(Owner {
            user,
            group: usable_group(user, 0),
        }));
    }
    let config: PathBuf = global.config.clone().unwrap_or_else(|| DEFAULT_FILE.into());
    let Ok(traced) = trace(&config) else {
        return Ok(None);
    };
    match traced.strangers.first() {
        None => Ok(None),
        Some(user) => Err(Failure::usage(format!(
            "{}: user {user} can change this file or its directory, and the data directory {} belongs to root",
            config.display(),
            directory.display()
        ))
        .hint("let root own the configuration and its directory (`chown root`), or run the command as that user")),
    }
}

/// The group to run with. With the group of root a process could read files that are none of the owner's business.
fn usable_group(user: u32, group: u32) -> u32 {
    const NO_GROUP: u32 = 65_534;
    if group != 0 {
        return group;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let primary_group = users.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        let is_user = fields.next()?.parse() == Ok(user);
        let group: u32 = fields.next()?.parse().ok()?;
        is_user.then_some(group)
    });
    primary_group
        .filter(|group| *group != 0)
        .unwrap_or(NO_GROUP)
}

/// Only root may read the whole log of the unit, which is part of a support bundle.
fn hand_down_system_log(files: &mut NamedFiles) {
    let Some(log) = system_log::read() else {
        return;
    };
    let Ok(memory) = memfd_create("log", MemfdFlags::CLOEXEC) else {
        return;
    };
    let mut file = fs::File::from(memory);
    if file.write_all(log.as_bytes()).is_ok() {
        files.hand_down(Path::new(system_log::HANDED_DOWN), file.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_never_runs_with_the_group_of_root() {
        assert_eq!(usable_group(1, 7), 7);
        assert_ne!(usable_group(1, 0), 0);
        assert_eq!(usable_group(4_000_000_000, 0), 65_534);
    }
}
