//! Parses a URL that is to be signed. A URL that two servers could read in two ways is not signed: the edge
//! would compare a different path than the one that was signed.

use std::fmt::Write as _;

pub(super) struct SignedTarget<'a> {
    pub(super) origin: String,
    /// The path of the manifest's directory, with a slash at either end, in the spelling that clients
    /// send: characters that are not allowed in a path are percent-encoded, and so are those with a
    /// meaning in some scheme's tokens (`!`, `*`, `~`).
    pub(super) directory: String,
    /// Percent-decoded once.
    pub(super) decoded: Vec<u8>,
    file: &'a str,
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

pub(super) fn split(address: &str) -> Option<(&str, &str)> {
    let host = address.find("://")? + 3;
    let rest = address.get(host..)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    address.split_at_checked(host + end)
}

impl<'a> SignedTarget<'a> {
    /// Returns `None` for segments that are empty, `.` or `..`, a backslash or a control character,
    /// decoded or not.
    pub(super) fn parse(address: &'a str) -> Option<Self> {
        let (origin, rest) = split(address)?;
        let (rest, fragment) = cut(rest, '#');
        let (path, query) = cut(rest, '?');
        let path = if path.is_empty() { "/" } else { path };
        let (directory, file) = path.split_at_checked(path.rfind('/')? + 1)?;
        // Some servers resolve such segments before they compare, others after, so the edge could check
        // another path than the one that was signed.
        is_plain(&decode(path)).then(|| Self {
            origin: origin.to_ascii_lowercase(),
            directory: percent_encode(directory),
            decoded: decode(directory),
            file,
            query,
            fragment,
        })
    }

    pub(super) fn with_segment(&self, segment: &str) -> String {
        // Between directory and file, so that relative URLs in the manifest inherit the segment.
        self.assemble(&format!("{segment}/"), self.query)
    }

    /// `parameters` are `name=value`, several joined with `&`. `None` if the URL has one of that name
    /// already.
    pub(super) fn with_parameters(&self, parameters: &str) -> Option<String> {
        let names = |query: &'_ str| -> Vec<String> {
            let name = |part: &str| part.split('=').next().unwrap_or_default().to_owned();
            query.split('&').map(name).collect()
        };
        let Some(query) = self.query.filter(|query| !query.is_empty()) else {
            return Some(self.assemble("", Some(parameters)));
        };
        let ours = names(parameters);
        if names(query).iter().any(|name| ours.contains(name)) {
            // Servers disagree on which of two equal names counts.
            return None;
        }
        Some(self.assemble("", Some(&format!("{query}&{parameters}"))))
    }

    fn assemble(&self, between: &str, query: Option<&str>) -> String {
        let mut address = format!("{}{}{between}{}", self.origin, self.directory, self.file);
        for (mark, part) in [('?', query), ('#', self.fragment)] {
            if let Some(part) = part {
                address.push(mark);
                address.push_str(part);
            }
        }
        address
    }
}

fn cut(text: &str, mark: char) -> (&str, Option<&str>) {
    match text.split_once(mark) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

/// `path` is decoded and begins with a slash.
fn is_plain(path: &[u8]) -> bool {
    let mut segments = path.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        if matches!(segment, b"." | b"..") || (segment.is_empty() && !last) {
            return false;
        }
    }
    !path
        .iter()
        .any(|byte| byte.is_ascii_control() || *byte == b'\\')
}

/// Decodes `%` and two hexadecimal digits at the beginning.
fn escape(bytes: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = bytes else {
        return None;
    };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// A `%` that begins no escape is kept.
fn decode(path: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = escape(rest);
        decoded.push(escaped.unwrap_or(*first));
        let skipped = if escaped.is_some() { 2 } else { 0 };
        rest = after.get(skipped..).unwrap_or_default();
    }
    decoded
}

fn percent_encode(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    let bytes = path.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let escapes = escape(bytes.get(at..).unwrap_or_default()).is_some();
        // An existing escape is kept, or it would be encoded twice.
        if byte.is_ascii_alphanumeric() || b"/-._$&()+,;=:@".contains(byte) || escapes {
            encoded.push(char::from(*byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_parsed_and_assembled() {
        for (address, directory, with_segment, with_parameter) in [
            (
                "https://cdn.example/film/hd/m.mpd",
                "/film/hd/",
                "https://cdn.example/film/hd/TOKEN/m.mpd",
                "https://cdn.example/film/hd/m.mpd?t=1",
            ),
            (
                "https://CDN.example:8443/m.mpd?a=/b/&c#t=/5?",
                "/",
                "https://cdn.example:8443/TOKEN/m.mpd?a=/b/&c#t=/5?",
                "https://cdn.example:8443/m.mpd?a=/b/&c&t=1#t=/5?",
            ),
            (
                "http://cdn.example",
                "/",
                "http://cdn.example/TOKEN/",
                "http://cdn.example/?t=1",
            ),
            (
                "http://cdn.example?",
                "/",
                "http://cdn.example/TOKEN/?",
                "http://cdn.example/?t=1",
            ),
            (
                "http://cdn.example/film/",
                "/film/",
                "http://cdn.example/film/TOKEN/",
                "http://cdn.example/film/?t=1",
            ),
            (
                "http://cdn.example/a%20b/100%/{x}*~!ä/m(1).mpd",
                "/a%20b/100%25/%7Bx%7D%2A%7E%21%C3%A4/",
                "http://cdn.example/a%20b/100%25/%7Bx%7D%2A%7E%21%C3%A4/TOKEN/m(1).mpd",
                "http://cdn.example/a%20b/100%25/%7Bx%7D%2A%7E%21%C3%A4/m(1).mpd?t=1",
            ),
        ] {
            let target = SignedTarget::parse(address).unwrap();
            assert_eq!(target.directory, directory);
            assert_eq!(target.decoded, decode(directory));
            assert_eq!(target.with_segment("TOKEN"), with_segment);
            let parameter = target.with_parameters("t=1");
            assert_eq!(parameter.as_deref(), Some(with_parameter));
        }
        let twice = SignedTarget::parse("https://c/m?a=1&t=2").unwrap();
        assert_eq!(twice.with_parameters("s=1&t=3"), None);
        let decoded = SignedTarget::parse("http://c/a%20%C3%A4%/m")
            .unwrap()
            .decoded;
        assert_eq!(decoded, "/a ä%/".as_bytes());
    }

    #[test]
    fn an_ambiguous_url_is_not_signed() {
        for path in [
            "/../m",
            "/a/../m",
            "/a/./m",
            "/a//m",
            "//m",
            "/a/%2e%2e/m",
            "/a/.%2E/m",
            "/a%2F%2Fb/m",
            "/a%2f../m",
            "/a\\b/m",
            "/a%5Cb/m",
            "/a%00/m",
            "/a%0Ab/m",
            "/a/..",
            "/a/%2e",
        ] {
            let address = format!("https://cdn.example{path}");
            assert!(SignedTarget::parse(&address).is_none(), "{path}");
        }
        for path in ["/a/..b/m", "/a/.hidden", "/...", "/%252e%252e/m"] {
            let address = format!("https://cdn.example{path}");
            assert!(SignedTarget::parse(&address).is_some(), "{path}");
        }
    }
}
