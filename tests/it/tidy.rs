//! Reads `src/` and enforces rules that the compiler cannot: which file may name the engine, how a file starts and how long it
//! is, and who writes to the terminal.

use std::fs;
use std::path::{Path, PathBuf};

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
fn one_file_names_the_engine() {
    let sources = sources();
    let naming = sources
        .iter()
        .filter(|source| names_crate(&source.code, "sled"));
    let paths: Vec<_> = naming.map(|source| source.path.as_str()).collect();
    assert_eq!(paths, [ENGINE]);
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

/// A row with another number of cells than its heading belongs to another table.
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
fn the_source_reader_finds_the_names_of_crates() {
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
