//! The `use` items of source files, and which file imports which. A name that a `mod.rs` or `lib.rs` re-exports counts for the file that
//! defines it.

use std::collections::{BTreeMap, BTreeSet};

struct Import {
    path: Vec<String>,
    /// The name by which this file knows it.
    name: String,
    is_public: bool,
}

/// The imports of each module, whose path is that of its file, such as `cli/output/table`. A `mod.rs` or `lib.rs` has the path of
/// its folder.
pub(crate) struct Imports(BTreeMap<String, Vec<Import>>);

impl Imports {
    pub(crate) fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let modules = files.into_iter().filter_map(|(path, text)| {
            let path = path.strip_suffix(".rs")?;
            let is_test = path.ends_with("tests") || path.contains("/tests/");
            if is_test || path.contains("fuzzing") || path == "main" {
                return None;
            }
            let folder = path
                .strip_suffix("/mod")
                .or_else(|| path.strip_suffix("/lib"));
            let module = folder.unwrap_or(path);
            Some((module.to_owned(), uses(text)))
        });
        Self(modules.collect())
    }

    /// The path that an import names, from the folder of its crate on; `None` for a crate of somebody else.
    fn absolute(&self, module: &str, path: &[String]) -> Option<Vec<String>> {
        let mut from: Vec<String> = module.split('/').map(str::to_owned).collect();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                from.truncate(1);
                rest = &path[1..];
            }
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|first| first == "super") {
                    from.pop()?;
                    rest = &rest[1..];
                }
            }
            other if other.starts_with("playgate_") => {
                from = vec![other.replacen("playgate_", "", 1)];
                rest = &path[1..];
            }
            child if self.0.contains_key(&format!("{module}/{child}")) => {}
            _ => return None,
        }
        from.extend_from_slice(rest);
        Some(from)
    }

    /// The module that defines what a path names.
    fn owner(&self, path: &[String]) -> Option<String> {
        let length = (1..=path.len())
            .rev()
            .find(|length| self.0.contains_key(&path[..*length].join("/")))?;
        let module = path[..length].join("/");
        let Some(name) = path.get(length) else {
            return Some(module);
        };
        let exported = self.0[&module]
            .iter()
            .find(|import| import.is_public && import.name == *name)
            .and_then(|import| self.absolute(&module, &import.path))
            .filter(|target| target[..] != path[..=length])
            .and_then(|target| self.owner(&[&target[..], &path[length + 1..]].concat()));
        Some(exported.unwrap_or(module))
    }

    /// Which modules each module imports, without those above and below it in the tree of folders.
    fn graph(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let targets = |module: &str, imports: &[Import]| {
            let paths = imports
                .iter()
                .filter_map(|import| self.absolute(module, &import.path));
            let owners = paths.filter_map(|path| self.owner(&path));
            owners.filter(|owner| !is_around(owner, module)).collect()
        };
        let modules = self.0.iter();
        modules
            .map(|(module, imports)| (module.as_str(), targets(module, imports)))
            .collect()
    }

    /// The circles, each as the sorted paths of its modules.
    pub(crate) fn circles(&self) -> BTreeSet<String> {
        let graph = self.graph();
        let reached: BTreeMap<&str, BTreeSet<&str>> = graph
            .keys()
            .map(|module| (*module, reached(&graph, module)))
            .collect();
        let circle = |module: &&str| {
            let others = reached[module].iter().copied();
            let circle: Vec<&str> = others
                .filter(|other| reached[other].contains(module))
                .collect();
            (!circle.is_empty()).then(|| circle.join(" "))
        };
        reached.keys().filter_map(circle).collect()
    }

    /// The imports of a room that is above, such as `cli/output/table -> cli/client/admin`.
    pub(crate) fn upward(&self, folder: &str, rooms: &[&str]) -> Vec<String> {
        let floor = |module: &str| {
            let inside = module.strip_prefix(folder)?.strip_prefix('/')?;
            let room = inside.split('/').next()?;
            let floor = rooms.iter().position(|name| *name == room);
            Some(floor.unwrap_or_else(|| panic!("{folder}/{room} has no floor")))
        };
        let mut found = Vec::new();
        for (module, imports) in &self.0 {
            let paths = imports
                .iter()
                .filter_map(|import| self.absolute(module, &import.path));
            for owner in paths.filter_map(|path| self.owner(&path)) {
                // The folder itself is above its rooms.
                if floor(module).is_some_and(|level| owner == folder || floor(&owner) > Some(level))
                {
                    found.push(format!("{module} -> {owner}"));
                }
            }
        }
        found
    }
}

/// Whether one of two modules is the other, or a folder around it.
fn is_around(a: &str, b: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    within(a, b) || within(b, a)
}

/// What a module imports, directly or through others; itself if it is in a circle.
fn reached<'a>(graph: &'a BTreeMap<&str, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = graph[from].iter().map(String::as_str).collect();
    while let Some(module) = open.pop() {
        if reached.insert(module) {
            open.extend(graph[module].iter().map(String::as_str));
        }
    }
    reached
}

/// The `use` items of a file outside of its tests.
fn uses(text: &str) -> Vec<Import> {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let mut imports = Vec::new();
    let mut lines = text[..end].lines();
    let mut before = "";
    while let Some(line) = lines.next() {
        let item = line.trim_start();
        let is_for_tests = before.starts_with("#[cfg(test") || before.starts_with("#[cfg(any(test");
        before = item;
        let (visibility, tree) = match item.strip_prefix("use ") {
            Some(tree) => ("", tree),
            None => item.split_once(" use ").unwrap_or_default(),
        };
        let is_restricted = visibility.starts_with("pub(") && visibility.ends_with(')');
        if tree.is_empty() || is_for_tests || !(is_restricted || matches!(visibility, "" | "pub")) {
            continue;
        }
        let mut tree = tree.to_owned();
        while !tree.contains(';') {
            let Some(more) = lines.next() else { break };
            tree.push_str(more);
        }
        let tree = tree.split(';').next().unwrap_or_default();
        expand(tree, &[], !visibility.is_empty(), &mut imports);
    }
    imports
}

/// Adds the imports of a tree such as `a::{b, c::{self, D as E}}`.
fn expand(tree: &str, above: &[String], is_public: bool, imports: &mut Vec<Import>) {
    let (head, list) = match tree.split_once('{') {
        Some((head, list)) => (head, list.trim_end().strip_suffix('}')),
        None => (tree, None),
    };
    let (head, alias) = head.split_once(" as ").unwrap_or((head, ""));
    let segments = head.split("::").map(|segment| segment.trim().to_owned());
    let mut path = above.to_vec();
    path.extend(segments.filter(|segment| !segment.is_empty()));
    let Some(list) = list else {
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = match (alias.trim(), path.last()) {
            ("", Some(last)) => last.clone(),
            (alias, _) => alias.to_owned(),
        };
        imports.push(Import {
            path,
            name,
            is_public,
        });
        return;
    };
    let (mut depth, mut start) = (0, 0);
    for (at, c) in list.char_indices().chain([(list.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !list[start..at].trim().is_empty() {
                    expand(&list[start..at], &path, is_public, imports);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}
