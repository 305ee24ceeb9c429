//! The text of a catalogue file or a playlist, whatever program wrote it.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

use super::m3u;

/// Text, and how many of its lines were no UTF-8. Windows and spreadsheets write UTF-16 with a byte order mark. A playlist has
/// the names of channels only, and `.m3u` was Latin-1 before it was anything else; a catalogue has keys and addresses, in which
/// a byte that is read wrongly would be found much later.
pub(super) fn decode(mut bytes: Vec<u8>) -> Result<(String, usize), String> {
    match Encoding::for_bom(&bytes) {
        Some((encoding, mark)) if encoding == UTF_8 => drop(bytes.drain(..mark)),
        Some((encoding, _)) => {
            let (text, is_damaged) = encoding.decode_with_bom_removal(&bytes);
            let damaged = format!("it is no whole {}; save the file as UTF-8", encoding.name());
            return if is_damaged {
                Err(damaged)
            } else {
                Ok((text.into_owned(), 0))
            };
        }
        None => {}
    }
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return Ok((text, 0)),
        Err(error) => error.into_bytes(),
    };
    let lines = || bytes.split_inclusive(|byte| *byte == b'\n');
    let begin = String::from_utf8_lossy(lines().next().unwrap_or_default());
    if !m3u::is_m3u(&begin) {
        let line = (1..)
            .zip(lines())
            .find(|(_, line)| std::str::from_utf8(line).is_err());
        let number = line.map_or(1, |(number, _)| number);
        return Err(format!(
            "line {number} is not UTF-8; save the file as UTF-8"
        ));
    }
    let mut foreign = 0;
    let text = lines().map(|line| {
        std::str::from_utf8(line).map_or_else(
            |_| {
                foreign += 1;
                WINDOWS_1252.decode_without_bom_handling(line).0
            },
            Into::into,
        )
    });
    Ok((text.collect(), foreign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str) -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        units.flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn text_of_other_programs_is_read_and_counted() {
        let list = "#EXTM3U\n#EXTINF:-1,Två\n";
        for (bytes, lines) in [
            (list.as_bytes().to_vec(), 0),
            (format!("\u{feff}{list}").into_bytes(), 0),
            (utf16(list), 0),
            (b"#EXTM3U\n#EXTINF:-1,Tv\xe5\n".to_vec(), 1),
            (b"\xef\xbb\xbf#EXTM3U\n#EXTINF:-1,Tv\xe5\n".to_vec(), 1),
        ] {
            assert_eq!(decode(bytes).unwrap(), (list.to_owned(), lines));
        }
        assert_eq!(decode(utf16("[[offer]]")).unwrap().0, "[[offer]]");
        let mixed = b"#EXTM3U\n#EXTINF:-1,Tv\xc3\xa5\n#EXTINF:-1,Tv\xe5\n".to_vec();
        assert_eq!(
            decode(mixed).unwrap(),
            (format!("{list}#EXTINF:-1,Två\n"), 1)
        );
    }

    #[test]
    fn a_catalogue_with_a_foreign_byte_is_refused_with_its_line() {
        let error = decode(b"[[offer]]\nname = \"Tv\xe5\"\n".to_vec()).unwrap_err();
        assert_eq!(error, "line 2 is not UTF-8; save the file as UTF-8");
        let mut cut = utf16("#EXTM3U");
        cut.push(0xd8);
        assert!(
            decode(cut)
                .unwrap_err()
                .starts_with("it is no whole UTF-16LE;")
        );
    }
}
