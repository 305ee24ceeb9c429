//! Ids made of names.

use unicode_normalization::UnicodeNormalization as _;

/// Bytes, below the limit of an id in every script.
const LENGTH_MAX: usize = 100;

/// An id from a name in any script: lower-case letters and digits, with dashes between words. Empty if the name has
/// neither.
pub fn slug(name: &str) -> String {
    // `é` is `e` in ids. Letters of other scripts stay: an id may have them.
    let plain = name.nfc().map(|c| {
        let base = std::iter::once(c).nfd().next().unwrap_or(c);
        if base.is_ascii() { base } else { c }
    });
    let plain: String = plain.flat_map(char::to_lowercase).collect();
    let words = plain.split(|c: char| !c.is_alphanumeric());
    let mut slug = words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("-");
    slug.truncate(slug.floor_char_boundary(LENGTH_MAX));
    slug.truncate(slug.trim_end_matches('-').len());
    slug
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_scripts_give_ids() {
        for (name, id) in [
            ("Two & Three HD", "two-three-hd"),
            ("Canal+ Séries", "canal-series"),
            ("BBC One/Two", "bbc-one-two"),
            ("Первый канал", "первый-канал"),
            ("日本テレビ 1", "日本テレビ-1"),
            ("العربية", "العربية"),
            ("***", ""),
        ] {
            assert_eq!(slug(name), id);
        }
        assert!(slug(&"é b".repeat(200)).len() <= LENGTH_MAX);
    }
}
