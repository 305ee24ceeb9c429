//! The stored form of records: checksum, version, bincode.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StoreError;

/// The largest stored value. sled leaks the space of overwritten values above 128 KiB, and a record
/// of this size already indicates a design error.
pub const VALUE_MAX: usize = 16 * 1024;

/// A value of a table. bincode stores its fields in order, so a changed field needs a new version.
/// The old structure is retained in a `mod v1` that [`Record::upgrade`] reads.
///
/// bincode cannot read back `serde_json::Value`, `flatten`, `untagged` or `skip_serializing_if`.
pub trait Record: Serialize + DeserializeOwned + Send + Sync + 'static {
    const VERSION: u8 = 1;

    fn upgrade(_version: u8, _bytes: &[u8]) -> Option<Self> {
        None
    }
}

const HEAD_BYTES: usize = 5;
/// Initial capacity of a value; most values are shorter.
const USUAL_VALUE: usize = 512;

const fn options() -> impl bincode::config::Config {
    // All options are explicit, so that the format on disk does not depend on defaults.
    bincode::config::standard()
        .with_little_endian()
        .with_variable_int_encoding()
        // Only the decoder checks this limit. It counts up to 16 bytes for a number or length that is encoded in one, so
        // a limit of `VALUE_MAX` would reject values that were written.
        .with_limit::<{ 16 * VALUE_MAX }>()
}

fn checksum(tree: &str, key: &[u8], body: &[u8]) -> [u8; 4] {
    // The checksum covers tree and key, so that a value found under another key counts as damaged.
    let mut hasher = crc32fast::Hasher::new();
    // The separator keeps ("ab", "c") and ("a", "bc") apart.
    hasher.update(tree.as_bytes());
    hasher.update(&[0]);
    hasher.update(key);
    hasher.update(body);
    hasher.finalize().to_be_bytes()
}

pub(super) fn seal<R: Record>(tree: &str, key: &[u8], record: &R) -> Result<Vec<u8>, StoreError> {
    // A buffer that grows step by step costs an entitlement request 5 % of its instructions.
    let mut value = Vec::with_capacity(USUAL_VALUE);
    value.extend_from_slice(&[0; HEAD_BYTES - 1]);
    value.push(R::VERSION);
    bincode::serde::encode_into_std_write(record, &mut value, options()).map_err(|_| {
        StoreError::TooLarge {
            table: tree.to_owned(),
        }
    })?;
    // The encoder ignores the limit of `options`, so the size is checked here.
    if value.len() > VALUE_MAX {
        return Err(StoreError::TooLarge {
            table: tree.to_owned(),
        });
    }
    let (head, body) = value.split_at_mut(HEAD_BYTES - 1);
    head.copy_from_slice(&checksum(tree, key, body));
    // Many values wait in the memtable at a time, so their unused capacity is freed.
    value.shrink_to_fit();
    Ok(value)
}

pub(super) fn open<R: Record>(tree: &str, key: &[u8], value: &[u8]) -> Result<R, StoreError> {
    let damaged = || StoreError::damaged_record(tree, key);
    let body = sound_body(tree, key, value).ok_or_else(damaged)?;
    check_version::<R>(tree, body)?;
    read_body(body).ok_or_else(damaged)
}

pub(super) fn check_version<R: Record>(tree: &str, body: &[u8]) -> Result<(), StoreError> {
    match body.first() {
        // A record of a newer version is intact. It must never be skipped or replaced as if it were damaged.
        Some(&found) if found > R::VERSION => Err(StoreError::NewerRecord {
            table: tree.to_owned(),
            found,
            known: R::VERSION,
        }),
        _ => Ok(()),
    }
}

pub(super) fn read_body<R: Record>(body: &[u8]) -> Option<R> {
    let (version, bytes) = body.split_first()?;
    // The version lies outside the bincode body, so that old bodies are never decoded with the new
    // structure.
    if *version == R::VERSION {
        read(bytes)
    } else {
        R::upgrade(*version, bytes)
    }
}

/// Replaces the table name in the checksum of an [`encode_note`]. Part of the format on disk.
const NOTE_TABLE: &str = "word";

/// Encodes a record for a separate file, outside of any table.
pub fn encode_note<R: Record>(record: &R) -> Result<Vec<u8>, StoreError> {
    seal(NOTE_TABLE, b"", record)
}

/// Decodes a record of such a file. Returns `None` if it is damaged or of a newer version.
pub fn decode_note<R: Record>(bytes: &[u8]) -> Option<R> {
    open(NOTE_TABLE, b"", bytes).ok()
}

/// Returns version and body of a stored value without verifying its checksum.
pub(super) fn without_checksum(value: &[u8]) -> Option<&[u8]> {
    value.get(HEAD_BYTES - 1..)
}

pub(super) fn sealed(tree: &str, key: &[u8], body: &[u8]) -> Vec<u8> {
    let mut value = checksum(tree, key, body).to_vec();
    value.extend_from_slice(body);
    value
}

pub(super) fn sound_body<'a>(tree: &str, key: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
    let (sum, body) = value.split_first_chunk::<{ HEAD_BYTES - 1 }>()?;
    (*sum == checksum(tree, key, body)).then_some(body)
}

/// Decodes one bincode value; bytes that are left over make it invalid.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match bincode::serde::decode_from_slice(bytes, options()) {
        Ok((value, used)) if used == bytes.len() => Some(value),
        Ok(_) | Err(_) => None,
    }
}

/// Version and body in hexadecimal, for golden tests: other bytes on disk need a new version.
pub fn golden<R: Record>(record: &R) -> String {
    let mut value = vec![R::VERSION];
    match bincode::serde::encode_into_std_write(record, &mut value, options()) {
        Ok(_) => data_encoding::HEXLOWER.encode(&value),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        name: String,
        count: u32,
    }

    impl Record for Sample {
        const VERSION: u8 = 2;

        fn upgrade(version: u8, bytes: &[u8]) -> Option<Self> {
            match version {
                1 => read(bytes).map(|name| Self { name, count: 0 }),
                _ => None,
            }
        }
    }

    fn sample() -> Sample {
        Sample {
            name: "a".to_owned(),
            count: 7,
        }
    }

    #[test]
    fn record_bytes_are_stable() {
        let value = seal("samples", b"k", &sample()).unwrap();
        assert_eq!(value.get(4..).unwrap(), [2, 1, b'a', 7]);
        assert_eq!(open::<Sample>("samples", b"k", &value), Ok(sample()));
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let value = seal("samples", b"k", &sample()).unwrap();
        for bit in 0..value.len() * 8 {
            let mut damaged = value.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let read = open::<Sample>("samples", b"k", &damaged);
            assert!(
                matches!(read, Err(StoreError::Damaged { .. })),
                "bit {bit}: {read:?}"
            );
        }
        for length in 0..value.len() {
            assert!(open::<Sample>("samples", b"k", &value[..length]).is_err());
        }
    }

    #[test]
    fn value_of_another_key_is_damage() {
        let value = seal("samples", b"k", &sample()).unwrap();
        assert!(open::<Sample>("samples", b"l", &value).is_err());
        assert!(open::<Sample>("others", b"k", &value).is_err());
    }

    #[test]
    fn older_version_is_read() {
        let mut body = vec![1];
        bincode::serde::encode_into_std_write("old", &mut body, options()).unwrap();
        let value = [&checksum("samples", b"k", &body)[..], &body].concat();
        let old = Sample {
            name: "old".to_owned(),
            count: 0,
        };
        assert_eq!(open::<Sample>("samples", b"k", &value), Ok(old));
    }

    #[test]
    fn newer_version_is_not_taken_for_damage() {
        // The body is valid for version 2 except for its version number, so only the number can decide.
        let value = sealed("samples", b"k", &[3, 1, b'a', 7]);
        let newer = StoreError::NewerRecord {
            table: "samples".to_owned(),
            found: 3,
            known: 2,
        };
        assert_eq!(open::<Sample>("samples", b"k", &value), Err(newer));
        // A version that never existed is damage.
        let value = sealed("samples", b"k", &[0, 1, b'a', 7]);
        let read = open::<Sample>("samples", b"k", &value);
        assert!(matches!(read, Err(StoreError::Damaged { .. })), "{read:?}");
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Numbers(Vec<u128>, Vec<String>);

    impl Record for Numbers {}

    #[test]
    fn record_of_the_maximum_size_is_read_back() {
        // Decoded numbers and lengths are larger than encoded ones.
        for (numbers, texts) in [(16_000, 0), (0, 16_000), (8_000, 4_000)] {
            let record = Numbers(vec![7; numbers], vec![String::new(); texts]);
            let value = seal("numbers", b"k", &record).unwrap();
            assert_eq!(open::<Numbers>("numbers", b"k", &value), Ok(record));
        }
    }

    #[test]
    fn oversized_record_is_rejected() {
        let large = Sample {
            name: "x".repeat(VALUE_MAX),
            count: 0,
        };
        assert!(matches!(
            seal("samples", b"k", &large),
            Err(StoreError::TooLarge { table }) if table == "samples"
        ));
    }
}
