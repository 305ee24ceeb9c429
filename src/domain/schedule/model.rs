//! A broadcast as it is stored: what a guide says about it, and the bounds of that.
//!
//! Rights are not stored with it: they follow from the catalogue when an answer is rendered.

use serde::{Deserialize, Serialize};

use crate::types::{BroadcastId, UnixSeconds};

/// The longest title that is kept, in bytes. This and the next bounds together keep one broadcast
/// under the 12 KiB of a chunk, and so under the 16 KiB that the store takes as one value.
pub const TITLE_MAX: usize = 500;
/// The longest description that is kept, in bytes.
pub const DESCRIPTION_MAX: usize = 4_000;
/// How many images of one broadcast are kept.
pub const IMAGES_MAX: usize = 8;
/// The longest image address that is kept, in bytes; a cut address would be another one.
pub const FILENAME_MAX: usize = 700;
/// The longest image type that is kept, in bytes.
pub const IMAGE_KIND_MAX: usize = 40;
/// How many categories of one broadcast are kept.
pub const CATEGORIES_MAX: usize = 8;
/// The longest category or rating text that is kept, in bytes.
pub const LABEL_MAX: usize = 100;

/// One picture of a broadcast (interface part 2.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The wire's `type`: `sixteen-nine`, `three-four`, `square`, or what a JSON guide says.
    pub kind: Box<str>,
    /// Whether a client that shows one picture shows this one.
    pub default: bool,
    /// The address of the picture.
    pub filename: Box<str>,
    /// Whether the title is part of the picture.
    pub embedded_text: bool,
}

impl Image {
    /// The wire's `type` for a picture of these proportions.
    ///
    /// Decision: up to 13:15 counts as upright (posters are 2:3), up to 15:13 as square, all else
    /// and a picture of unknown size as `sixteen-nine`.
    #[must_use]
    pub fn kind_of(size: Option<(u32, u32)>) -> &'static str {
        match size {
            Some((width, height)) if width > 0 && height > 0 => {
                let (width, height) = (u64::from(width), u64::from(height));
                if width * 15 <= height * 13 {
                    "three-four"
                } else if width * 13 <= height * 15 {
                    "square"
                } else {
                    "sixteen-nine"
                }
            }
            _ => "sixteen-nine",
        }
    }
}

/// What a guide says about a broadcast, apart from its times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Never empty.
    pub title: Box<str>,
    /// Absent rather than empty.
    pub description: Option<Box<str>>,
    /// In the guide's order; at most one is the default.
    pub images: Vec<Image>,
    /// In the guide's order; rules on rights match them.
    pub categories: Vec<Box<str>>,
    /// From what age on it may be seen without a PIN; absent where nothing rates it.
    pub pg_age: Option<u8>,
    /// The source of `pg_age` as `system:value`, or a rating that no table knows; absent where the
    /// guide states the age itself or nothing at all.
    pub rating: Option<Box<str>>,
}

impl Metadata {
    /// Brings the texts and lists within their bounds; says whether anything had to be shortened.
    pub fn bound(&mut self) -> bool {
        let mut cut = shorten(&mut self.title, TITLE_MAX);
        if let Some(description) = &mut self.description {
            cut |= shorten(description, DESCRIPTION_MAX);
        }
        let before = (self.images.len(), self.categories.len());
        self.images.retain(|image| {
            image.filename.len() <= FILENAME_MAX && image.kind.len() <= IMAGE_KIND_MAX
        });
        self.images.truncate(IMAGES_MAX);
        self.categories.truncate(CATEGORIES_MAX);
        cut |= before != (self.images.len(), self.categories.len());
        for label in self.categories.iter_mut().chain(self.rating.as_mut()) {
            cut |= shorten(label, LABEL_MAX);
        }
        cut
    }
}

/// Cuts a text at the last character that ends within `max` bytes.
fn shorten(text: &mut Box<str>, max: usize) -> bool {
    if text.len() <= max {
        return false;
    }
    let end = text.floor_char_boundary(max);
    *text = text.get(..end).unwrap_or_default().trim_end().into();
    true
}

/// One broadcast of a livestream. It is on from `start` to just before `stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broadcast {
    /// The id that it keeps over re-imports and moves.
    pub id: BroadcastId,
    /// The first second it is on.
    pub start: UnixSeconds,
    /// The first second it is no longer on; always after `start`.
    pub stop: UnixSeconds,
    /// What the guide says about it.
    pub facts: Metadata,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_named_after_its_proportions() {
        for (size, kind) in [
            (None, "sixteen-nine"),
            (Some((1920, 1080)), "sixteen-nine"),
            (Some((1024, 768)), "sixteen-nine"),
            (Some((300, 400)), "three-four"),
            (Some((600, 900)), "three-four"),
            (Some((500, 500)), "square"),
            (Some((500, 520)), "square"),
            (Some((0, 5)), "sixteen-nine"),
            (Some((u32::MAX, u32::MAX)), "square"),
        ] {
            assert_eq!(Image::kind_of(size), kind, "{size:?}");
        }
    }

    #[test]
    fn the_largest_broadcast_fits_a_chunk() {
        let image = Image {
            kind: "k".repeat(IMAGE_KIND_MAX + 1).into(),
            default: true,
            filename: "f".repeat(FILENAME_MAX).into(),
            embedded_text: false,
        };
        let fitting = Image {
            kind: "k".repeat(IMAGE_KIND_MAX).into(),
            ..image.clone()
        };
        let mut facts = Metadata {
            title: "ä".repeat(TITLE_MAX).into(),
            description: Some("x".repeat(100_000).into()),
            images: std::iter::once(image)
                .chain(std::iter::repeat_n(fitting, 50))
                .collect(),
            categories: vec!["c".repeat(1_000).into(); 50],
            pg_age: Some(18),
            rating: Some("r".repeat(1_000).into()),
        };
        assert!(facts.bound());
        assert_eq!(facts.title.chars().count(), TITLE_MAX / 2);
        assert_eq!(facts.images.len(), IMAGES_MAX);
        let broadcast = Broadcast {
            id: BroadcastId::parse(&"\u{10ffff}".repeat(128)).unwrap(),
            start: UnixSeconds(i64::MAX),
            stop: UnixSeconds(i64::MAX),
            facts,
        };
        let bytes = bincode::serde::encode_to_vec(&broadcast, bincode::config::standard()).unwrap();
        assert!(bytes.len() <= 12 * 1024, "{}", bytes.len());
        assert!(!broadcast.facts.clone().bound());
    }
}
