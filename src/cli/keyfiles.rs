//! Catalogue files on their way to the server: the key files that they name are read here, since
//! the server may not be allowed to see them, and each `key_file` becomes a `key`.
//!
//! What the catalogue means is not this module's: it is parsed only as far as to find the names,
//! and stays the same otherwise, line for line, so that mistakes are reported where they are.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;

use data_encoding::HEXLOWER;
use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::exit::Failure;
use crate::config::limits::BODY_CATALOG;

/// The member of a key that names a file, relative to the catalogue file.
const NAME: &str = "key_file";
/// The member that holds the key itself, in hexadecimal.
const KEY: &str = "key";
/// Bytes of a key.
const KEY_BYTES: usize = 16;

/// Reads a catalogue file, or standard input for `-`, with the keys that it names.
pub fn read_catalog(path: &Path) -> Result<String, Failure> {
    let failed = |error: &io::Error| Failure::file(path, error);
    let limit = u64::try_from(BODY_CATALOG).unwrap_or(u64::MAX);
    let mut text = String::new();
    if path.as_os_str() == "-" {
        io::stdin().take(limit + 1).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(limit + 1).read_to_string(&mut text))
    }
    .map_err(|error| failed(&error))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    if text.trim_start().starts_with('{') {
        json(text, folder)
    } else {
        toml(text, folder)
    }
}

fn json(text: String, folder: &Path) -> Result<String, Failure> {
    // What is not JSON is sent as it is: the server tells what is wrong with it, and where.
    let Ok(mut catalog) = serde_json::from_str::<Value>(&text) else {
        return Ok(text);
    };
    let mut replaced = false;
    let entries = catalog
        .as_object_mut()
        .into_iter()
        .flat_map(|catalog| catalog.values_mut());
    for entry in entries.filter_map(Value::as_array_mut).flatten() {
        let keys = entry.get_mut("keys").and_then(Value::as_array_mut);
        for key in keys.into_iter().flatten().filter_map(Value::as_object_mut) {
            let Some(name) = key.get(NAME).and_then(Value::as_str) else {
                continue;
            };
            let value = read_key(&folder.join(name))?;
            key.remove(NAME);
            key.insert(KEY.to_owned(), Value::String(value));
            replaced = true;
        }
    }
    Ok(if replaced { catalog.to_string() } else { text })
}

fn toml(text: String, folder: &Path) -> Result<String, Failure> {
    let Ok(catalog) = DeTable::parse(&text) else {
        return Ok(text);
    };
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let entries = catalog.get_ref().values();
    for entry in entries
        .filter_map(|list| list.get_ref().as_array())
        .flatten()
    {
        let keys = entry
            .get_ref()
            .get("keys")
            .and_then(|keys| keys.get_ref().as_array());
        for key in keys
            .into_iter()
            .flatten()
            .filter_map(|key| key.get_ref().as_table())
        {
            let named = key.iter().find(|(name, _)| name.get_ref() == NAME);
            if let Some((name, DeValue::String(file))) =
                named.map(|(name, value)| (name, value.get_ref()))
                && let Some((_, value)) = named
            {
                edits.push((name.span(), KEY.to_owned()));
                edits.push((
                    value.span(),
                    format!("\"{}\"", read_key(&folder.join(&**file))?),
                ));
            }
        }
    }
    // From the end, so that earlier places stay where they are.
    edits.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
    let mut edited = text.clone();
    for (place, new) in edits {
        edited.replace_range(place, &new);
    }
    Ok(edited)
}

/// A key as 16 bytes, or as 32 hexadecimal digits; in the latter form.
fn read_key(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|error| Failure::file(path, &error))?;
    if bytes.len() == KEY_BYTES {
        return Ok(HEXLOWER.encode(&bytes));
    }
    let digits = bytes.trim_ascii().to_ascii_lowercase();
    match HEXLOWER.decode(&digits) {
        Ok(key) if key.len() == KEY_BYTES => Ok(HEXLOWER.encode(&key)),
        _ => Err(Failure::failed(format!(
            "{}: a key file holds 16 bytes, or 32 hexadecimal digits",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "00112233445566778899aabbccddeeff";

    #[test]
    fn key_files_become_keys_and_lines_stay() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("a.key"),
            format!("{}\n", DIGITS.to_uppercase()),
        )
        .unwrap();
        fs::write(folder.path().join("b.key"), [7; 16]).unwrap();
        let file = folder.path().join("catalog.toml");
        let text = "# key_file = \"no.key\"\n[[asset]]\nid = 'key_file = \"no\"'\n\
                    keys = [{ kid = \"x\", key_file = \"a.key\" },\n  { 'key_file' = 'b.key', kid = \"y\" }]\n";
        fs::write(&file, text).unwrap();
        let read = read_catalog(&file).unwrap();
        let expected = text
            .replace("key_file = \"a.key\"", &format!("key = \"{DIGITS}\""))
            .replace(
                "'key_file' = 'b.key'",
                &format!("key = \"{}\"", "07".repeat(16)),
            );
        assert_eq!(read, expected);

        let file = folder.path().join("catalog.json");
        fs::write(
            &file,
            r#"{"asset":[{"id":"a","keys":[{"kid":"x","key_file":"a.key"}]}]}"#,
        )
        .unwrap();
        let read: Value = serde_json::from_str(&read_catalog(&file).unwrap()).unwrap();
        assert_eq!(read.pointer("/asset/0/keys/0/key").unwrap(), DIGITS);
        assert_eq!(read.pointer("/asset/0/keys/0/key_file"), None);
    }

    #[test]
    fn what_cannot_be_parsed_is_sent_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("a.toml", "[[asset]\n"), ("a.json", "{\"asset\":")] {
            let file = folder.path().join(name);
            fs::write(&file, text).unwrap();
            assert_eq!(read_catalog(&file).unwrap(), text);
        }
    }

    #[test]
    fn a_key_file_that_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        fs::write(&file, "[[asset]]\nkeys = [{ key_file = \"gone.key\" }]\n").unwrap();
        assert!(
            read_catalog(&file)
                .unwrap_err()
                .to_string()
                .contains("gone.key")
        );
        fs::write(folder.path().join("gone.key"), "short").unwrap();
        assert!(
            read_catalog(&file)
                .unwrap_err()
                .to_string()
                .contains("16 bytes")
        );
    }
}
