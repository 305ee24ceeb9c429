//! Entry points of `src/fuzzing` for the formats on disk. They correct the checksums of the
//! input, since otherwise only the checksum verification would be tested.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use super::record::sealed;
use super::wal::{
    Expected, Segment, Survey, announced_size, frame, parse, payload_at, read_segment,
};
use super::write_batch::WriteBatch;
use super::{Key, Schema};
use crate::history::History;
use crate::maintenance::dump;
use crate::snapshot::format::Snapshot;
use playgate_types::{
    AssetId, BroadcastId, DeviceId, Email, LivestreamId, OfferId, PartnerId, SessionId, TokenHash,
    TvDay, UnixSeconds, UserId,
};

/// Input: table name, line feed, key length in one byte, key, and any body, to which a valid
/// checksum is added.
pub fn record(schema: &Schema, data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let table = parts.next().and_then(|name| schema.table(name));
    let rest = parts.next().and_then(<[u8]>::split_first);
    let (Some(table), Some((length, rest))) = (table, rest) else {
        return;
    };
    let (key, body) = rest.split_at(rest.len().min(usize::from(*length)));
    let mut value = sealed(table.name, key, body);
    let entries = (table.examine)(key, &value).ok().flatten();
    for (tree, entry) in entries.into_iter().flatten() {
        assert!(table.indexes.contains(&tree), "{tree} is of another table");
        assert!(entry.ends_with(key), "{tree} leads elsewhere");
    }
    if let Some(byte) = value.last_mut() {
        *byte ^= 1;
    }
    let damaged = (table.examine)(key, &value);
    assert_eq!(damaged, Ok(None), "{}: damage is not seen", table.name);
}

/// Decodes any bytes as a key of every type; the result must encode to the same bytes.
pub fn key(data: &[u8]) {
    fn of<K: Key>(data: &[u8]) {
        if let Some(key) = K::from_bytes(data) {
            assert_eq!(key.to_bytes(), data, "another encoding of the same key");
        }
        // The order of keys must equal the order of their encodings.
        let (one, other) = data.split_at(data.len() / 2);
        if let (Some(a), Some(b)) = (K::from_bytes(one), K::from_bytes(other)) {
            assert_eq!(a.cmp(&b), one.cmp(other), "another order");
        }
    }
    of::<String>(data);
    of::<(u8, i64, u32)>(data);
    of::<(UserId, u64)>(data);
    of::<(PartnerId, Email)>(data);
    of::<(OfferId, AssetId)>(data);
    of::<(UserId, DeviceId)>(data);
    of::<(UserId, SessionId)>(data);
    of::<(LivestreamId, UnixSeconds, BroadcastId)>(data);
    of::<(String, LivestreamId)>(data);
    of::<(TvDay, TokenHash)>(data);
}

/// Encodes any payload as a frame, and decodes any bytes as frames and as a write batch.
pub fn log(schema: &Schema, data: &[u8]) {
    let number = data.len() as u64 + 1;
    if let Ok(made) = frame(number, number - 1, data) {
        assert_eq!(announced_size(&made), Some(made.len()));
        let read = parse(&made).map(|read| (read.number, read.synced, read.payload));
        assert_eq!(read, Some((number, number - 1, data)));
    }
    if let Some(read) = parse(data) {
        assert!(read.size() <= data.len(), "a frame beyond the bytes");
    }
    if let Some(batch) = WriteBatch::decode(data, schema) {
        let again = WriteBatch::decode(&batch.encode(), schema);
        assert!(
            again.is_some_and(|again| again.into_changes().eq(batch.into_changes())),
            "a write batch that reads back differently"
        );
    }
}

/// Reads any bytes as a segment, as they are and with valid frame numbers and checksums. Every
/// readable frame must be within the range that the survey reports.
pub fn segment(data: &[u8]) {
    for repaired in [false, true] {
        let mut bytes = data.to_vec();
        if repaired {
            fix_checksums(&mut bytes, 16);
        }
        let Some((_file, path)) = in_memory(&bytes) else {
            return;
        };
        let segment = Segment {
            first: 1,
            end: u64::MAX,
            path,
            history: History::default(),
        };
        let Ok(survey) = Survey::over(vec![segment.clone()], &Expected::default()) else {
            return;
        };
        assert!(survey.next >= 1, "a log that ends before it begins");
        assert!(
            survey.torn.is_none_or(|at| at <= bytes.len()),
            "torn beyond its end"
        );
        let mut before = 0;
        let walked = read_segment(&segment, &mut |frame, at| {
            assert!(frame.number > 0 && at >= before, "frames out of place");
            before = at + frame.size();
            Ok(())
        });
        assert!(
            walked.is_err() || before <= bytes.len(),
            "a frame beyond the file"
        );
    }
}

pub fn backup(schema: &Schema, data: &[u8]) {
    let mut bytes = data.to_vec();
    fix_checksums(&mut bytes, 8);
    let Some((_file, path)) = in_memory(&bytes) else {
        return;
    };
    let Ok(snapshot) = Snapshot::open(&path, schema) else {
        return;
    };
    let mut read = 0;
    for (_, key, value) in snapshot.map_while(Result::ok) {
        read += key.len() + value.len();
    }
    assert!(read <= bytes.len(), "more pairs than bytes");
}

/// Reads any text as an export with valid line checksums. Imported records must survive another
/// export and import.
pub fn export(schema: &Schema, data: &[u8]) {
    let mut text = format!("playgate-store\t1\t{}\t{:032x}\n", schema.format(), 1).into_bytes();
    for line in data.split(|byte| *byte == b'\n') {
        text.extend_from_slice(line);
        if !line.starts_with(b"end\t") {
            text.extend_from_slice(format!("\t{:08x}", crc32fast::hash(line)).as_bytes());
        }
        text.push(b'\n');
    }
    let mut all = WriteBatch::default();
    let mut input = text.as_slice();
    let read = dump::read(&mut input, schema, 1_000, &mut |batch| {
        all.merge(batch);
        Ok(())
    });
    let Ok(first) = read else { return };
    let is_table = |tree: &str| schema.table(tree.as_bytes()).is_some();
    let pairs = all
        .into_changes()
        .filter_map(|(tree, key, value)| Some(Ok((tree, key, value?))));
    let pairs = pairs.filter(|pair| matches!(pair, Ok((tree, ..)) if is_table(tree)));
    let mut out = Vec::new();
    let Ok(exported) = dump::write(pairs, schema, [0; 16], &mut out) else {
        return;
    };
    // A repeated key is one record.
    assert!(exported.records <= first.records, "more records than lines");
    assert_eq!(exported.damaged.count, 0, "what was read in is damaged");
    let mut input = out.as_slice();
    let again = dump::read(&mut input, schema, usize::MAX, &mut |_| Ok(()));
    let again = again.map(|again| (again.records, again.skipped, again.complete));
    assert_eq!(again.ok(), Some((exported.records, 0, true)));
}

/// Gives the frames from an offset on valid numbers and checksums, as far as their lengths allow.
fn fix_checksums(bytes: &mut [u8], mut at: usize) {
    let mut number = 1;
    while let Some(size) = bytes.get(at..).and_then(announced_size) {
        let Some(old) = bytes.get_mut(at..at.saturating_add(size)) else {
            return;
        };
        let length = old
            .first_chunk::<4>()
            .map(|length| u32::from_le_bytes(*length));
        let length = length.and_then(|length| usize::try_from(length).ok());
        let payload = length.and_then(|length| old.get(payload_at(length)));
        let Some(Ok(new)) = payload.map(|payload| frame(number, number - 1, payload)) else {
            return;
        };
        old.copy_from_slice(&new);
        number += 1;
        at += size;
    }
}

/// Creates a file with this content in memory; it exists while the handle is open.
pub fn in_memory(bytes: &[u8]) -> Option<(File, PathBuf)> {
    let made = rustix::fs::memfd_create("fuzzing", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
    let mut file = File::from(made);
    file.write_all(bytes).ok()?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Some((file, path.into()))
}
