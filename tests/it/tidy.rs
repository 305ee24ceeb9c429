//! Reads `src/` and enforces rules that one crate cannot express: which module may use which, where an external crate
//! may be named, and how a file starts and how long it is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules that each top-level module may name through `crate::`, as on the architecture page.
const ARROWS: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("process", &["types"]),
    ("ports", &["process", "types"]),
    ("segment_log", &["process"]),
    ("store", &["process", "types"]),
    ("fleet", &["observe", "ports", "process", "store", "types"]),
    ("media", &["ports", "types"]),
    ("decode", &["types"]),
    (
        "domain",
        &["decode", "media", "ports", "process", "store", "types"],
    ),
    (
        "records",
        &[
            "domain",
            "ports",
            "process",
            "segment_log",
            "store",
            "types",
        ],
    ),
    ("catalog_file", &["decode", "domain", "types"]),
    ("config", &["decode", "domain", "ports", "types"]),
    ("observe", &["config", "ports", "types"]),
    (
        "services",
        &[
            "config", "domain", "observe", "ports", "process", "records", "store",
        ],
    ),
    (
        "jobs",
        &["domain", "observe", "records", "services", "types"],
    ),
    (
        "http",
        &[
            "catalog_file",
            "config",
            "decode",
            "domain",
            "media",
            "observe",
            "ports",
            "process",
            "records",
            "services",
            "types",
        ],
    ),
    // Only the command line and tests build the application.
    (
        "app",
        &[
            "config", "domain", "http", "observe", "ports", "process", "records", "services",
            "store", "types",
        ],
    ),
    (
        "cli",
        &[
            "app",
            "catalog_file",
            "config",
            "domain",
            "fleet",
            "http",
            "jobs",
            "observe",
            "ports",
            "process",
            "records",
            "services",
            "store",
            "types",
        ],
    ),
    // Built only for tests and fuzzers. No module may name it.
    (
        "fuzzing",
        &[
            "catalog_file",
            "config",
            "domain",
            "http",
            "media",
            "ports",
            "records",
            "store",
            "types",
        ],
    ),
];

/// External crates that a top-level module must not name.
const FOREIGN: &[(&str, &[&str])] = &[
    (
        "types",
        &["hyper", "http", "serde_json", "tokio", "sled", "clap"],
    ),
    (
        "domain",
        &[
            "hyper",
            "http",
            "serde_json",
            "tokio",
            "sled",
            "clap",
            "lettre",
        ],
    ),
    (
        "records",
        &[
            "hyper",
            "http",
            "serde_json",
            "tokio",
            "sled",
            "clap",
            "lettre",
        ],
    ),
    (
        "media",
        &["hyper", "http", "serde_json", "tokio", "sled", "clap"],
    ),
    ("store", &["hyper", "http", "serde_json", "tokio", "clap"]),
    ("http", &["sled", "bincode", "clap", "lettre"]),
    ("config", &["hyper", "sled", "clap"]),
];

/// The only file that may name sled.
const ENGINE: &str = "store/engine/sled_engine.rs";

/// The maximal number of lines of a file without its unit tests. A longer file has more than one responsibility.
const LINES_MAX: usize = 460;

/// A source file.
pub(crate) struct Source {
    /// The path relative to the read folder.
    pub path: String,
    pub text: String,
    code: String,
}

impl Source {
    /// The top-level module that the file belongs to.
    fn module(&self) -> &str {
        let first = self.path.split('/').next().unwrap();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.contains("/tests/")
    }
}

pub(crate) fn sources() -> Vec<Source> {
    sources_below("src")
}

fn sources_below(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut paths = Vec::new();
    collect(&root, &mut paths);
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(&root).unwrap();
            Source {
                path: path.to_str().unwrap().to_owned(),
                code: code(&text),
                text,
            }
        })
        .collect()
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

/// Removes whole-line comments, and the unit tests at the end.
fn code(text: &str) -> String {
    let text = match text.find("#[cfg(test)]\nmod tests {") {
        Some(at) => &text[..at],
        None => text,
    };
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect()
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the top-level modules that the code names through `crate::`, in paths and in braces.
fn modules_named(code: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        // `$crate::` in a macro counts too, and `mycrate::` does not.
        if code[..at].chars().next_back().is_some_and(is_name) {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        if let Some(list) = rest.strip_prefix('{') {
            named.extend(heads_of_list(list));
        } else {
            named.insert(rest.chars().take_while(|c| is_name(*c)).collect());
        }
    }
    named
}

/// Returns the first names of the elements of a `{…}` list, after its opening brace.
fn heads_of_list(list: &str) -> Vec<String> {
    let mut heads = vec![String::new()];
    let mut depth = 0_usize;
    let mut in_head = true;
    for c in list.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                heads.push(String::new());
                in_head = true;
            }
            c if depth == 0 && in_head && is_name(c) => heads.last_mut().unwrap().push(c),
            c if c.is_whitespace() => {}
            _ => in_head = false,
        }
    }
    heads.retain(|head| !head.is_empty());
    heads
}

/// Returns whether the code names a crate as the first segment of a path or in a bare `use`.
fn names_crate(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = &code[at + name.len()..];
        !before.is_some_and(|c| is_name(c) || c == ':' || c == '.')
            && (after.starts_with("::")
                || (after.starts_with(';') && code[..at].trim_end().ends_with("use")))
    })
}

#[test]
fn modules_use_only_the_layers_below() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        let module = source.module();
        if matches!(module, "lib" | "main") {
            continue;
        }
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("{}: no arrows for this module", source.path));
            continue;
        };
        for named in modules_named(&source.code) {
            if named != module && !allowed.contains(&named.as_str()) {
                wrong.push(format!("{} names crate::{named}", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn external_crates_are_named_only_where_allowed() {
    let mut wrong = Vec::new();
    for source in &sources() {
        if source.path != ENGINE && names_crate(&source.code, "sled") {
            wrong.push(format!("{} names sled", source.path));
        }
        if source.is_test() {
            continue;
        }
        for (module, crates) in FOREIGN {
            if source.module() != *module {
                continue;
            }
            for name in *crates {
                let engine = source.path == ENGINE && *name == "sled";
                if !engine && names_crate(&source.code, name) {
                    wrong.push(format!("{} names {name}", source.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_open_with_a_comment_and_stay_short() {
    let mut wrong = Vec::new();
    for source in &sources() {
        if !source.is_test() && !source.text.starts_with("//!") {
            wrong.push(format!("{} does not open with `//!`", source.path));
        }
        let lines = match source.text.find("#[cfg(test)]\nmod tests {") {
            Some(at) => source.text[..at].lines().count(),
            None => source.text.lines().count(),
        };
        if lines > LINES_MAX && !source.is_test() {
            wrong.push(format!("{} has {lines} lines", source.path));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A single hanging process once blocked a whole test run.
#[test]
fn tests_wait_for_processes_with_a_deadline() {
    let without = ["output", "status", "wait_with_output"].map(|call| format!(".{call}()"));
    // Calls of other types with such a name.
    let others = ["code.status()", "self.status()", "fleet.status()"];
    let waits = |line: &&str| {
        let is_other = others.iter().any(|call| line.contains(call));
        !is_other && without.iter().any(|call| line.contains(call))
    };
    let wrong: Vec<String> = sources_below("tests")
        .into_iter()
        .flat_map(|source| {
            let lines = source.code.lines().filter(waits);
            let shown = lines.map(|line| format!("{}: {}", source.path, line.trim()));
            shown.collect::<Vec<_>>()
        })
        .collect();
    assert!(wrong.is_empty(), "use `support::process` in {wrong:?}");
}

/// Expressions that copy the text of a domain error into a message.
const DISPLAYED: [&str; 6] = [
    "error.to_string()",
    "denied.to_string()",
    "why.to_string()",
    "{error}",
    "{error:",
    "to_string(&error)",
];

#[test]
fn messages_contain_no_text_of_lower_layers() {
    let mut wrong = Vec::new();
    for source in sources() {
        if !source.path.starts_with("http/errors/mapping/") || source.is_test() {
            continue;
        }
        for words in DISPLAYED {
            if source.code.contains(words) {
                wrong.push(format!("{} has {words}", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A row with another number of cells than its heading belongs to another table.
/// Everything else goes through `cli/output`, which writes out what reorders a line or controls a terminal.
#[test]
fn only_the_output_module_and_the_log_write_to_the_terminal() {
    // A dump is letters and digits; the output of a client under test goes to standard error as it is.
    const WRITERS: [&str; 6] = [
        "cli/commands/lab/client.rs",
        "cli/commands/store.rs",
        "cli/output/colour.rs",
        "cli/output/stream.rs",
        "observe/journal.rs",
        "observe/log.rs",
    ];
    const WRITE: [&str; 4] = ["println!", "print!", "io::stdout()", "io::stderr()"];
    for source in sources() {
        if source.is_test() || WRITERS.contains(&source.path.as_str()) {
            continue;
        }
        // Asks whether it is a terminal.
        let code = source.code.replace("io::stderr().is_terminal()", "");
        let found = WRITE.into_iter().find(|call| code.contains(call));
        assert_eq!(found, None, "{}", source.path);
    }
}

#[test]
fn rows_of_tables_in_the_documentation_have_the_cells_of_their_heading() {
    let mut rows = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let mut heading = None;
        for (line, row) in (1..).zip(text.lines()) {
            if !row.starts_with('|') {
                heading = None;
                continue;
            }
            let found = cells(row);
            let expected = *heading.get_or_insert(found);
            assert_eq!(found, expected, "{}:{line}", document.display());
            rows += 1;
        }
    }
    assert!(rows > 200, "{rows}");
    assert_eq!(cells("| 404 `A` | x |"), 2);
    assert_eq!(cells(r"| `a\|b` | x | y |"), 3);
}

fn documents() -> Vec<PathBuf> {
    let folders = ["docs", "docs/decisions"];
    let entries = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap());
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    paths.push("README.md".into());
    paths
}

/// An escaped bar is part of a cell.
fn cells(row: &str) -> usize {
    row.replace(r"\|", "").matches('|').count() - 1
}

#[test]
fn the_source_reader_finds_every_path() {
    let code = code(
        "//! crate::wrong\nuse crate::store::Store;\nuse crate::{a::B, c::{D, e::F},\n    g};\n\
         fn f() { crate::types::x() }\n#[cfg(test)]\nmod tests { use crate::late; }",
    );
    let named: Vec<_> = modules_named(&code).into_iter().collect();
    assert_eq!(named, ["a", "c", "g", "store", "types"]);
    assert!(names_crate("use tokio::sync;", "tokio"));
    assert!(names_crate("use sled;", "sled"));
    assert!(names_crate("let x = http::Method::GET;", "http"));
    assert!(!names_crate("use crate::http::Reply;", "http"));
    assert!(!names_crate(
        "let http = 1; my_tokio::x(); use self::tokio::y;",
        "tokio"
    ));
    assert!(!names_crate("\"tokio\"", "tokio"));
}
