//! Key ids of a Widevine license request: a `SignedMessage` in the encoding of Protocol Buffers.

use super::{KeyId, base64_stretches};

/// Numbers of the fields that lead to key ids.
mod field {
    /// Of `SignedMessage`: the license request.
    pub(super) const REQUEST: u64 = 2;
    /// Of the license request. A request for a service certificate has none.
    pub(super) const CONTENT_ID: u64 = 2;
    /// Of the content id: what the player got from the manifest, from MP4 or WebM, or from any of them unparsed.
    pub(super) const PSSH: u64 = 1;
    pub(super) const WEBM: u64 = 2;
    pub(super) const INIT_DATA: u64 = 4;
    /// Of the `pssh` and the WebM form: the bytes.
    pub(super) const DATA: u64 = 1;
    /// Of the unparsed form: the bytes, after their type.
    pub(super) const INIT_BYTES: u64 = 2;
    /// Of the data of a `pssh` box.
    pub(super) const KEY_ID: u64 = 2;
    pub(super) const ENTITLED_KEY: u64 = 14;
    /// Of an entitled key: the id of the content key.
    pub(super) const ENTITLED_KEY_ID: u64 = 2;
}

pub(super) fn key_ids(challenge: &[u8]) -> Vec<KeyId> {
    let mut kids = Vec::new();
    signed_message(challenge, &mut kids);
    // Some license servers take the challenge as base64, or in JSON.
    if challenge.is_ascii() {
        for decoded in base64_stretches(challenge) {
            signed_message(&decoded, &mut kids);
        }
    }
    kids
}

fn signed_message(message: &[u8], kids: &mut Vec<KeyId>) {
    for request in bytes_of(message, field::REQUEST) {
        for content in bytes_of(request, field::CONTENT_ID) {
            for (source, data) in [
                (field::PSSH, field::DATA),
                (field::WEBM, field::DATA),
                (field::INIT_DATA, field::INIT_BYTES),
            ] {
                for source in bytes_of(content, source) {
                    bytes_of(source, data).for_each(|data| initialisation_data(data, kids));
                }
            }
        }
    }
}

fn initialisation_data(data: &[u8], kids: &mut Vec<KeyId>) {
    // A WebM file has the id alone.
    kids.extend(KeyId::try_from(data));
    pssh_data(data, kids);
    pssh_boxes(data, kids);
}

fn pssh_data(data: &[u8], kids: &mut Vec<KeyId>) {
    let entitled =
        bytes_of(data, field::ENTITLED_KEY).flat_map(|key| bytes_of(key, field::ENTITLED_KEY_ID));
    let ids = bytes_of(data, field::KEY_ID).chain(entitled);
    kids.extend(ids.filter_map(|id| KeyId::try_from(id).ok()));
}

/// Reads one or several `pssh` boxes of ISO/IEC 23001-7, of whatever DRM system.
fn pssh_boxes(mut data: &[u8], kids: &mut Vec<KeyId>) {
    while let Some((content, rest)) = next_box(data) {
        data = rest;
        let Some((version, content)) = content.split_first() else {
            continue;
        };
        // Three bytes of flags and the id of the DRM system.
        let Some(mut content) = content.get(19..) else {
            continue;
        };
        if *version > 0 {
            let Some((listed, rest)) = counted(content, 16) else {
                continue;
            };
            kids.extend(
                listed
                    .chunks_exact(16)
                    .filter_map(|id| KeyId::try_from(id).ok()),
            );
            content = rest;
        }
        if let Some((data, _)) = counted(content, 1) {
            pssh_data(data, kids);
        }
    }
}

/// Content of the next `pssh` box, and what follows it.
fn next_box(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = data.split_first_chunk::<4>()?;
    let (kind, rest) = rest.split_first_chunk::<4>()?;
    if kind != b"pssh" {
        return None;
    }
    let size = match u32::from_be_bytes(*size) {
        // To the end of the data.
        0 => rest.len(),
        // A size of 64 bits follows.
        1 => {
            let (size, rest) = rest.split_first_chunk::<8>()?;
            let size = usize::try_from(u64::from_be_bytes(*size))
                .ok()?
                .checked_sub(16)?;
            return Some(rest.split_at(size.min(rest.len())));
        }
        size => usize::try_from(size).ok()?.checked_sub(8)?,
    };
    Some(rest.split_at(size.min(rest.len())))
}

/// A list that its length of 32 bits precedes, in items of `size` bytes, and what follows it.
fn counted(data: &[u8], size: usize) -> Option<(&[u8], &[u8])> {
    let (count, rest) = data.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*count)).ok()?;
    let length = length.checked_mul(size)?;
    Some(rest.split_at(length.min(rest.len())))
}

/// The values of a field of bytes, up to the first byte that is no field.
fn bytes_of(mut message: &[u8], wanted: u64) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        loop {
            let (number, value) = next_field(&mut message)?;
            if number == wanted
                && let Some(value) = value
            {
                return Some(value);
            }
        }
    })
}

/// Number of the next field, and its value if it is bytes.
fn next_field<'a>(message: &mut &'a [u8]) -> Option<(u64, Option<&'a [u8]>)> {
    // Parsers drop the upper bits of a key.
    let key = varint(message)? & 0xffff_ffff;
    let number = key >> 3;
    if number == 0 {
        return None;
    }
    // The low three bits of a key are the wire type.
    let value = match key & 7 {
        0 => {
            varint(message)?;
            None
        }
        1 => {
            *message = message.get(8..)?;
            None
        }
        2 => {
            let length = usize::try_from(varint(message)?).ok()?;
            let (value, rest) = message.split_at_checked(length)?;
            *message = rest;
            Some(value)
        }
        // Start and end of a group. Parsers skip an unknown one; reading its fields as those of the message finds
        // all that follows.
        3 | 4 => None,
        5 => {
            *message = message.get(4..)?;
            None
        }
        _ => return None,
    };
    Some((number, value))
}

fn varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    // A varint has at most ten bytes.
    for shift in (0..64).step_by(7) {
        let (byte, rest) = input.split_first()?;
        *input = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use data_encoding::{BASE64, BASE64URL_NOPAD};

    use super::*;

    fn field(number: u8, value: &[u8]) -> Vec<u8> {
        let mut length = value.len();
        let mut out = vec![number << 3 | 2];
        while length > 0x7f {
            out.push(0x80 | u8::try_from(length & 0x7f).unwrap());
            length >>= 7;
        }
        out.push(u8::try_from(length).unwrap());
        [out, value.to_vec()].concat()
    }

    /// A challenge for a content id.
    fn challenge(content: &[u8]) -> Vec<u8> {
        let request = [field(1, b"client"), field(2, content)].concat();
        [vec![0x08, 1], field(2, &request), field(3, b"signature")].concat()
    }

    fn pssh_box(version: u8, kids: &[KeyId], data: &[u8]) -> Vec<u8> {
        let count = u32::try_from(kids.len()).unwrap().to_be_bytes();
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        let listed = match version {
            0 => Vec::new(),
            _ => [&count[..], &kids.concat()].concat(),
        };
        let content = [&[version, 0, 0, 0], &[0xed; 16][..], &listed, &length, data].concat();
        let size = u32::try_from(content.len() + 8).unwrap().to_be_bytes();
        [&size[..], b"pssh", &content].concat()
    }

    #[test]
    fn key_ids_of_each_kind_of_content_id_are_read() {
        let data = [field(2, &[1; 16]), field(2, &[2; 16]), field(4, b"x")].concat();
        let both = vec![[1; 16], [2; 16]];
        let entitled = field(14, &[field(1, &[9; 16]), field(2, &[3; 16])].concat());
        let boxes = [
            pssh_box(1, &[[4; 16]], b""),
            pssh_box(0, &[], &field(2, &[5; 16])),
        ];
        let init_data = |data: &[u8]| field(4, &[vec![0x08, 1], field(2, data)].concat());
        for (content, kids) in [
            (
                field(1, &[field(1, &data), vec![0x10, 1]].concat()),
                both.clone(),
            ),
            (field(1, &field(1, &entitled)), vec![[3; 16]]),
            (field(1, &field(1, &boxes.concat())), vec![[4; 16], [5; 16]]),
            (field(2, &field(1, &[6; 16])), vec![[6; 16]]),
            (init_data(&boxes.concat()), vec![[4; 16], [5; 16]]),
            (init_data(&data), both),
            (init_data(&[7; 16]), vec![[7; 16]]),
        ] {
            assert_eq!(key_ids(&challenge(&content)), kids);
        }
        // The request for a service certificate.
        assert!(key_ids(&[0x08, 0x04]).is_empty());
    }

    #[test]
    fn nothing_in_front_of_a_key_id_hides_it() {
        let cenc = |data: &[u8]| challenge(&field(1, &field(1, data)));
        let foreign = field(2, &[2; 16]);
        let group = [0x1b, 0x1c];
        let long_key = [0x92, 0x80, 0x80, 0x80, 0x80, 0x10, 16];
        for data in [
            [&group[..], &foreign].concat(),
            // A key id of another length, and bytes that are no field after it.
            [field(2, b"short"), foreign.clone(), vec![7, 7]].concat(),
            [&long_key[..], &[2; 16]].concat(),
        ] {
            assert_eq!(key_ids(&cenc(&data)), [[2; 16]]);
        }
        // After as many allowed ids as fit.
        let many = [field(2, &[1; 16]).repeat(3_000), foreign.clone()].concat();
        assert!(key_ids(&cenc(&many)).contains(&[2; 16]));
        // After an unreadable content id, and in a group before the message.
        let two = [field(1, b"\x07"), field(1, &field(1, &foreign))].concat();
        assert_eq!(key_ids(&challenge(&two)), [[2; 16]]);
        let grouped = [&group[..], &cenc(&foreign)].concat();
        assert_eq!(key_ids(&grouped), [[2; 16]]);
        // As text.
        let json = format!(
            r#"{{"challenge":"{}"}}"#,
            BASE64URL_NOPAD.encode(&cenc(&foreign))
        );
        assert_eq!(key_ids(json.as_bytes()), [[2; 16]]);
        assert_eq!(
            key_ids(BASE64.encode(&cenc(&foreign)).as_bytes()),
            [[2; 16]]
        );
    }
}
