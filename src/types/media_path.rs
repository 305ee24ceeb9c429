//! Paths of media files.

const PATH_MAX: usize = 1_024;
const DEPTH_MAX: usize = 16;

/// A relative path of plain segments. It cannot leave its directory, except by a symbolic link, and names no
/// hidden file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaPath(String);

impl MediaPath {
    pub fn parse(text: &str) -> Option<Self> {
        // The text is already percent-decoded. Decoding it again would turn `%252e` into a dot after this check.
        let plain = |segment: &str| {
            // A leading dot is a hidden file, `.` or `..`.
            !segment.is_empty()
                && !segment.starts_with('.')
                && !segment.chars().any(|c| c.is_control() || c == '\\')
        };
        let fits = text.len() <= PATH_MAX && text.split('/').count() <= DEPTH_MAX;
        (fits && text.split('/').all(plain)).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn depth(&self) -> usize {
        self.0.split('/').count() - 1
    }

    /// Returns whether a path below this one may have another segment of this many bytes.
    pub fn has_room_below(&self, bytes: usize) -> bool {
        self.0.len() + 1 + bytes <= PATH_MAX && self.depth() + 2 <= DEPTH_MAX
    }

    /// The first `depth` directories, if the file is in or below them.
    pub fn directory(&self, depth: usize) -> Option<&str> {
        let file_depth = self.depth();
        if depth == 0 {
            // A manifest in the media directory itself grants access to files next to it, not to the whole
            // tree.
            return (file_depth == 0).then_some("");
        }
        let end = self.0.match_indices('/').nth(depth - 1).map(|(at, _)| at)?;
        self.0.get(..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_inside() {
        for good in ["a", "a/b.mpd", "a b/ä.m4s", "a/b/c/d.ts", "a..b/c"] {
            assert!(MediaPath::parse(good).is_some(), "{good}");
        }
        let deep = "a/".repeat(16) + "b";
        let long = "a".repeat(1_025);
        for bad in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            ".",
            "..",
            "../a",
            "a/../b",
            "a/./b",
            ".git/config",
            "a/.hidden",
            "a\0b",
            "a\\..\\b",
            "a\nb",
            &deep,
            &long,
        ] {
            assert!(MediaPath::parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn a_directory_is_one_above_the_file() {
        let path = MediaPath::parse("film/hd/1.m4s").unwrap();
        assert_eq!(path.depth(), 2);
        assert_eq!(path.directory(1), Some("film"));
        assert_eq!(path.directory(2), Some("film/hd"));
        // A depth of 0 covers only files directly in the media directory.
        assert_eq!(path.directory(0), None);
        assert_eq!(path.directory(3), None);
        assert_eq!(MediaPath::parse("1.m4s").unwrap().directory(0), Some(""));
    }
}
