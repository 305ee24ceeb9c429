//! Text export and import of a store, for migration and inspection.
//!
//! ```text
//! playgate-store <version> <format of the store> <instance>
//! <table> <key in hexadecimal> <version and body of the record in base64> <checksum of the line>
//! end <records>
//! ```
//!
//! Fields are separated by tabs. Indexes are not exported; an import rebuilds them. Damaged records
//! are skipped and reported in both directions.

use std::io::{BufRead, Write};

use data_encoding::{BASE64, HEXLOWER};

use crate::error::StoreError;
use crate::record::{sealed, without_checksum};
use crate::snapshot::examine::Found;
use crate::snapshot::format::Triple;
use crate::table::{TableInfo, Tables};
use crate::write_batch::WriteBatch;

const WORD: &str = "playgate-store";
const VERSION: &str = "1";
/// No valid line is longer. A longer one is not read into memory.
const LINE_MAX: u64 = 4 * crate::record::VALUE_MAX as u64;
const REPORTED_MAX: usize = 100;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    pub records: u64,
    pub damaged: Found,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    pub records: u64,
    pub skipped: u64,
    pub mistakes: Vec<(u64, &'static str)>,
    /// Whether the last line is present and its record count is correct; false for a truncated file.
    pub complete: bool,
}

pub(crate) fn write(
    pairs: impl Iterator<Item = Result<Triple, StoreError>>,
    schema: &Tables,
    instance: [u8; 16],
    out: &mut dyn Write,
) -> Result<Exported, StoreError> {
    let mut exported = Exported::default();
    let (format, instance) = (schema.format(), HEXLOWER.encode(&instance));
    writeln!(out, "{WORD}\t{VERSION}\t{format}\t{instance}")?;
    for pair in pairs {
        let (tree, key, value) = pair?;
        let Some(table) = schema.table(tree.as_bytes()) else {
            // Indexes are computed again by the import.
            continue;
        };
        let sound = (table.examine)(&key, &value)?.is_some();
        match without_checksum(&value).filter(|_| sound) {
            // A damaged record is not exported: the import could not distinguish it from an intact one.
            Some(body) => {
                let line = format!("{tree}\t{}\t{}", HEXLOWER.encode(&key), BASE64.encode(body));
                writeln!(out, "{line}\t{:08x}", crc32fast::hash(line.as_bytes()))?;
                exported.records += 1;
            }
            None => exported.damaged.add(tree, &key),
        }
    }
    writeln!(out, "end\t{}", exported.records)?;
    Ok(exported)
}

pub(crate) fn read(
    input: &mut dyn BufRead,
    schema: &Tables,
    batch_bytes: usize,
    commit: &mut dyn FnMut(WriteBatch) -> Result<(), StoreError>,
) -> Result<Imported, StoreError> {
    let mut imported = Imported::default();
    let mut lines = DumpLines { input, number: 0 };
    check_head(lines.next()?.as_deref(), schema)?;
    let mut batch = WriteBatch::default();
    while let Some(line) = lines.next()? {
        if let Some(records) = line.strip_prefix("end\t") {
            imported.complete = records.parse() == Ok(imported.records + imported.skipped)
                && lines.next()?.is_none();
            break;
        }
        match record(&line, schema) {
            Ok((table, key, value)) => {
                // `examine` has already succeeded for this line, in `record`.
                for (tree, entry) in (table.examine)(&key, &value)?.unwrap_or_default() {
                    batch.set(tree, entry, Some(Vec::new()));
                }
                batch.set(table.name, key, Some(value));
                imported.records += 1;
                if batch.bytes() >= batch_bytes {
                    // Batches bound the memory use and the size of a commit.
                    commit(std::mem::take(&mut batch))?;
                }
            }
            Err(why) => {
                imported.skipped += 1;
                if imported.mistakes.len() < REPORTED_MAX {
                    imported.mistakes.push((lines.number, why));
                }
            }
        }
    }
    commit(batch)?;
    Ok(imported)
}

fn check_head(line: Option<&str>, schema: &Tables) -> Result<(), StoreError> {
    let mut parts = line.unwrap_or_default().split('\t');
    if (parts.next(), parts.next()) != (Some(WORD), Some(VERSION)) {
        return Err(StoreError::Damaged {
            place: "line 1".to_owned(),
            what: format!(
                "does not begin with `{WORD}` and version {VERSION}: this is not an export of a store"
            ),
        });
    }
    match parts.next().and_then(|format| format.parse::<u32>().ok()) {
        Some(found) if found == schema.format() => Ok(()),
        Some(found) if found > schema.format() => Err(StoreError::Newer {
            found,
            known: schema.format(),
        }),
        _ => Err(StoreError::Damaged {
            place: "line 1".to_owned(),
            what: "is of an older format: import it with the version that wrote it, then upgrade"
                .to_owned(),
        }),
    }
}

type DumpRecord<'a> = (&'a TableInfo, Vec<u8>, Vec<u8>);

fn record<'a>(line: &str, schema: &'a Tables) -> Result<DumpRecord<'a>, &'static str> {
    let (line, sum) = line.rsplit_once('\t').ok_or("is not a record")?;
    // The checksum covers the line as text, so that an edited line is found before it is decoded.
    if u32::from_str_radix(sum, 16) != Ok(crc32fast::hash(line.as_bytes())) {
        return Err("has a wrong checksum");
    }
    let mut parts = line.split('\t');
    let mut part = || parts.next().ok_or("is not a record");
    let (table, key, body) = (part()?, part()?, part()?);
    let table = schema
        .table(table.as_bytes())
        .ok_or("is of an unknown table")?;
    let key = HEXLOWER.decode(key.as_bytes()).map_err(|_| "has no key")?;
    let body = BASE64
        .decode(body.as_bytes())
        .map_err(|_| "has no record")?;
    // The stored form has its own checksum, over tree and key as well.
    let value = sealed(table.name, &key, &body);
    match (table.examine)(&key, &value) {
        Ok(Some(_)) => Ok((table, key, value)),
        Ok(None) => Err("does not hold a record of its table"),
        // The head of a dump of a newer format is rejected, so this line was written by hand.
        Err(_) => Err("holds a record of a newer version"),
    }
}

struct DumpLines<'a> {
    input: &'a mut dyn BufRead,
    number: u64,
}

impl DumpLines<'_> {
    /// A line that is too long or not UTF-8 is returned as an invalid record.
    fn next(&mut self) -> Result<Option<String>, StoreError> {
        let mut bytes = Vec::new();
        let mut whole = true;
        loop {
            let left = LINE_MAX.saturating_sub(bytes.len() as u64);
            let read = std::io::Read::take(&mut *self.input, left).read_until(b'\n', &mut bytes)?;
            if read == 0 && bytes.is_empty() {
                return Ok(None);
            }
            let ended = bytes.last() == Some(&b'\n') || (read == 0 && left > 0);
            if ended {
                break;
            }
            if bytes.len() as u64 >= LINE_MAX {
                // The rest of the line is read and dropped, so that the next line is found.
                whole = false;
                bytes.clear();
                bytes.push(b' ');
            }
        }
        self.number += 1;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        let text = String::from_utf8(bytes).ok().filter(|_| whole);
        Ok(Some(text.unwrap_or_default()))
    }
}
