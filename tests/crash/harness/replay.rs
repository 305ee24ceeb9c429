//! Turns recorded calls into changes of a simulated disk: follows descriptors, their positions, and paths.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::harness::recording::{Argument, Call};
use crate::harness::simulated_disk::{Change, Name, ROOT, SECTOR, SimulatedDisk};

/// The recorded process, and the id of it or of its child.
type Process = (usize, u32);

#[derive(Clone)]
enum Place {
    Node(usize),
    Elsewhere(PathBuf),
}

#[derive(Clone)]
struct Descriptor {
    place: Place,
    position: u64,
    append: bool,
}

/// A recording in the order of time. A sync takes part twice: it covers what was changed before it began, and only its return
/// promises that.
pub fn moments(calls: &[Call]) -> Vec<Moment<'_>> {
    let mut moments = Vec::new();
    for call in calls {
        // A closed number may be opened again before the close returns, and a child may run before its parent continues.
        let early = call.name == "close" || call.is_fork();
        if call.is_sync() {
            moments.push(Moment {
                at: call.began,
                call,
                begins_sync: true,
            });
        }
        let at = if early { call.began } else { call.ended };
        moments.push(Moment {
            at,
            call,
            begins_sync: false,
        });
    }
    moments.sort_by_key(|moment| moment.at);
    moments
}

pub struct Moment<'a> {
    /// In nanoseconds since 1970.
    pub at: u64,
    pub call: &'a Call,
    begins_sync: bool,
}

impl Moment<'_> {
    pub const fn begins_sync(&self) -> bool {
        self.begins_sync
    }
}

pub struct Replay {
    pub disk: SimulatedDisk,
    root: PathBuf,
    descriptors: HashMap<(Process, i64), Descriptor>,
    /// The syncs in progress: what each covers.
    syncs: HashMap<(Process, u64), u64>,
}

impl Replay {
    /// Begins with an empty directory of this path.
    pub fn new(root: &Path) -> Self {
        Self {
            disk: SimulatedDisk::new(),
            root: root.to_owned(),
            descriptors: HashMap::new(),
            syncs: HashMap::new(),
        }
    }

    /// `forgets` returns whether the disk ignores the sync of a path, for controls.
    pub fn apply(&mut self, moment: &Moment<'_>, forgets: &dyn Fn(&Path) -> bool) {
        let call = moment.call;
        if !call.is_sync() {
            return self.apply_change(call);
        }
        let key = (call.process, call.began);
        if moment.begins_sync {
            self.syncs.insert(key, self.disk.next());
            return;
        }
        let covered = self.syncs.remove(&key).unwrap();
        if let Some(node) = self.node(call, 0)
            && !forgets(&self.path_to(node))
        {
            self.disk.sync(node, covered);
        }
    }

    /// Returns the path below the root that a call changes or syncs, if it does; an absolute one if the file was removed.
    pub fn path_of(&self, call: &Call) -> Option<PathBuf> {
        if let Some(Argument::Plain(first)) = call.arguments.first()
            && first.parse::<i64>().is_ok()
            && !call.name.ends_with("at")
        {
            return self.node(call, 0).map(|node| self.path_to(node));
        }
        let at = usize::from(!matches!(call.arguments.first(), Some(Argument::Bytes(_))));
        let base = (at == 1).then_some(0);
        matches!(call.arguments.get(at), Some(Argument::Bytes(_))).then_some(())?;
        let path = self.place(call, base, at);
        path.strip_prefix(&self.root).ok().map(Path::to_owned)
    }

    fn node(&self, call: &Call, at: usize) -> Option<usize> {
        match self
            .descriptors
            .get(&(call.process, call.number(at)))?
            .place
        {
            Place::Node(node) => Some(node),
            Place::Elsewhere(_) => None,
        }
    }

    fn apply_change(&mut self, call: &Call) {
        let process = call.process;
        match call.name.as_str() {
            "open" => self.open(call, None, 0),
            "openat" => self.open(call, Some(0), 1),
            "close" => {
                self.descriptors.remove(&(process, call.number(0)));
            }
            "dup" | "dup2" | "dup3" => self.duplicate(call),
            "fcntl" if call.plain(1).starts_with("F_DUPFD") => self.duplicate(call),
            "fcntl" => {}
            "lseek" => {
                if let Some(descriptor) = self.descriptors.get_mut(&(process, call.number(0))) {
                    descriptor.position = u64::try_from(call.result).unwrap();
                }
            }
            "write" | "writev" => self.write(call, None),
            "pwrite64" => self.write(call, Some(3)),
            "ftruncate" => self.set_length(call, 1, false),
            "fallocate" => {
                assert_eq!(call.plain(1), "0", "an unknown mode of fallocate");
                self.set_length(call, 3, true);
            }
            "copy_file_range" => self.copy(call),
            "mkdir" => self.make_directory(call, None, 0),
            "mkdirat" => self.make_directory(call, Some(0), 1),
            "rmdir" | "unlink" => self.remove(call, None, 0),
            "unlinkat" => self.remove(call, Some(0), 1),
            "rename" => self.rename(call, (None, 0), (None, 1)),
            "renameat" | "renameat2" => self.rename(call, (Some(0), 1), (Some(2), 3)),
            "link" => self.link(call, (None, 0), (None, 1)),
            "linkat" => self.link(call, (Some(0), 1), (Some(2), 3)),
            "clone" | "clone3" | "fork" | "vfork" => {
                if call.is_fork() {
                    let child = (process.0, u32::try_from(call.result).unwrap());
                    let inherited: Vec<_> = (self.descriptors.iter())
                        .filter(|((owner, _), _)| *owner == process)
                        .map(|((_, number), descriptor)| ((child, *number), descriptor.clone()))
                        .collect();
                    self.descriptors.extend(inherited);
                }
            }
            other => {
                let is_elsewhere = self.path_of(call).is_none();
                assert!(is_elsewhere, "the simulation does not know {other}");
            }
        }
    }

    /// Returns where a path leads, as seen from a directory's descriptor.
    fn place(&self, call: &Call, base: Option<usize>, at: usize) -> PathBuf {
        let path = call.path(at);
        let below = |number: i64, rest: &Path| match self.descriptors.get(&(call.process, number)) {
            Some(Descriptor {
                place: Place::Elsewhere(path),
                ..
            }) => path.join(rest),
            Some(Descriptor {
                place: Place::Node(node),
                ..
            }) => self.root.join(self.path_to(*node)).join(rest),
            None => PathBuf::from("/unknown"),
        };
        if let Ok(rest) = path.strip_prefix("/proc/self/fd")
            && let Some(number) = rest.components().next()
            && let Ok(number) = number.as_os_str().to_str().unwrap().parse()
        {
            return below(number, &rest.components().skip(1).collect::<PathBuf>());
        }
        match base {
            Some(base) if path.is_relative() && call.plain(base) != "AT_FDCWD" => {
                below(call.number(base), &path)
            }
            _ => path,
        }
    }

    /// Returns the path below the root, or an absolute one if it was removed.
    fn path_to(&self, mut node: usize) -> PathBuf {
        let mut names = Vec::new();
        while node != ROOT {
            let mut all = self.disk.names.iter();
            let Some(((directory, name), _)) = all.find(|(_, found)| **found == node) else {
                return PathBuf::from("/removed");
            };
            names.push(name.as_str());
            node = *directory;
        }
        names.into_iter().rev().collect()
    }

    /// Returns directory and name of a path below the root.
    fn name(&self, path: &Path) -> Option<Name> {
        let below = path.strip_prefix(&self.root).ok()?;
        let mut parts = below.components().filter_map(|part| match part {
            Component::Normal(part) => Some(part.to_str().unwrap().to_owned()),
            _ => None,
        });
        let mut name = (ROOT, parts.next()?);
        for part in parts {
            name = (*self.disk.names.get(&name)?, part);
        }
        Some(name)
    }

    fn open(&mut self, call: &Call, base: Option<usize>, at: usize) {
        let path = self.place(call, base, at);
        let flags = call.plain(at + 1).to_owned();
        let name = self.name(&path);
        let found = match &name {
            Some(name) => self.disk.names.get(name).copied(),
            None => (path == self.root).then_some(ROOT),
        };
        let node = match (found, name) {
            (None, Some(name)) if flags.contains("O_CREAT") => {
                let node = self.disk.add_node(false);
                self.disk.set_names(vec![(name, Some(node))]);
                Some(node)
            }
            (found, _) => found,
        };
        if let Some(node) = node
            && flags.contains("O_TRUNC")
            && self.disk.contents[node].length > 0
        {
            self.disk.change(Change::Length(node, 0));
        }
        let descriptor = Descriptor {
            place: node.map_or(Place::Elsewhere(path), Place::Node),
            position: 0,
            append: flags.contains("O_APPEND"),
        };
        self.descriptors
            .insert((call.process, call.result), descriptor);
    }

    fn duplicate(&mut self, call: &Call) {
        if let Some(descriptor) = self
            .descriptors
            .get(&(call.process, call.number(0)))
            .cloned()
        {
            self.descriptors
                .insert((call.process, call.result), descriptor);
        }
    }

    fn write(&mut self, call: &Call, offset: Option<usize>) {
        let key = (call.process, call.number(0));
        let Some(Descriptor {
            place: Place::Node(node),
            position,
            append,
        }) = self.descriptors.get(&key).cloned()
        else {
            return;
        };
        let written = usize::try_from(call.result).unwrap();
        let at = match offset {
            Some(offset) => u64::try_from(call.number(offset)).unwrap(),
            None if append => self.disk.contents[node].length,
            None => position,
        };
        let data = Arc::clone(call.bytes(1));
        self.disk.put(node, at, &data[..written]);
        if offset.is_none() {
            self.descriptors.get_mut(&key).unwrap().position = at + written as u64;
        }
    }

    fn set_length(&mut self, call: &Call, at: usize, only_longer: bool) {
        let descriptor = self.descriptors.get(&(call.process, call.number(0)));
        let Some(Descriptor {
            place: Place::Node(node),
            ..
        }) = descriptor
        else {
            return;
        };
        let (node, length) = (*node, u64::try_from(call.number(at)).unwrap());
        let present = self.disk.contents[node].length;
        if length > present || (length < present && !only_longer) {
            self.disk.change(Change::Length(node, length));
        }
    }

    fn copy(&mut self, call: &Call) {
        let of = |at: usize| {
            self.descriptors
                .get(&(call.process, call.number(at)))
                .cloned()
        };
        let (Some(from), Some(to)) = (of(0), of(2)) else {
            return;
        };
        let Place::Node(target) = to.place else {
            return;
        };
        let Place::Node(source) = from.place else {
            panic!("a copy of a file that was not recorded");
        };
        let (mut data, length) = (Vec::new(), u64::try_from(call.result).unwrap());
        for byte in from.position..from.position + length {
            let sector = self.disk.contents[source]
                .sectors
                .get(&(byte / SECTOR as u64));
            data.push(sector.map_or(0, |sector| {
                sector[usize::try_from(byte % SECTOR as u64).unwrap()]
            }));
        }
        self.disk.put(target, to.position, &data);
        for at in [0, 2] {
            self.descriptors
                .get_mut(&(call.process, call.number(at)))
                .unwrap()
                .position += length;
        }
    }

    fn make_directory(&mut self, call: &Call, base: Option<usize>, at: usize) {
        if let Some(name) = self.name(&self.place(call, base, at)) {
            let node = self.disk.add_node(true);
            self.disk.set_names(vec![(name, Some(node))]);
        }
    }

    fn remove(&mut self, call: &Call, base: Option<usize>, at: usize) {
        let name = self.name(&self.place(call, base, at));
        // Sockets are not recorded.
        if let Some(name) = name.filter(|name| self.disk.names.contains_key(name)) {
            self.disk.set_names(vec![(name, None)]);
        }
    }

    fn rename(&mut self, call: &Call, from: (Option<usize>, usize), to: (Option<usize>, usize)) {
        let [from, to] = [from, to].map(|(base, at)| self.name(&self.place(call, base, at)));
        let (Some(from), Some(to)) = (from, to) else {
            return;
        };
        let Some(moved) = self.disk.names.get(&from).copied() else {
            return;
        };
        let exchanges = call.arguments.len() > 4 && call.plain(4).contains("RENAME_EXCHANGE");
        let replaced = self.disk.names.get(&to).copied().filter(|_| exchanges);
        self.disk
            .set_names(vec![(from, replaced), (to, Some(moved))]);
    }

    fn link(&mut self, call: &Call, from: (Option<usize>, usize), to: (Option<usize>, usize)) {
        let [from, to] = [from, to].map(|(base, at)| self.name(&self.place(call, base, at)));
        if let (Some(from), Some(to)) = (from, to) {
            let node = self.disk.names[&from];
            self.disk.set_names(vec![(to, Some(node))]);
        }
    }
}
