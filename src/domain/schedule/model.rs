//! Stored form of a broadcast: times and metadata from the guide, with their size limits.
//!
//! Rights are not stored. They follow from the catalogue when an answer is rendered.

use serde::{Deserialize, Serialize};

use super::details::Details;
use super::text_limits::{
    CATEGORIES_MAX, DESCRIPTION_MAX, FILENAME_MAX, IMAGE_KIND_MAX, IMAGES_MAX, LABEL_MAX,
    SUBTITLE_MAX, TITLE_MAX, shorten,
};
use playgate_types::{BroadcastId, UnixSeconds};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The wire's `type`: `sixteen-nine`, `three-four`, `square`, or the value of a JSON guide.
    pub kind: Box<str>,
    pub default: bool,
    pub filename: Box<str>,
    pub embedded_text: bool,
}

impl Image {
    /// The wire's `type` for an image size.
    pub fn kind_of(size: Option<(u32, u32)>) -> &'static str {
        match size {
            Some((width, height)) if width > 0 && height > 0 => {
                let (width, height) = (u64::from(width), u64::from(height));
                // Ratios up to 13:15 count as upright (posters are 2:3), up to 15:13 as square.
                if width * 15 <= height * 13 {
                    "three-four"
                } else if width * 13 <= height * 15 {
                    "square"
                } else {
                    "sixteen-nine"
                }
            }
            // Most guides give no size, and most of their images are wide.
            _ => "sixteen-nine",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Never empty.
    pub title: Box<str>,
    /// `None` instead of an empty text.
    pub description: Option<Box<str>>,
    /// Images in the order of the guide; at most one is the default.
    pub images: Vec<Image>,
    /// Categories in the order of the guide; rights rules match them.
    pub categories: Vec<Box<str>>,
    /// Minimum age to watch without a PIN; `None` if unrated.
    pub pg_age: Option<u8>,
    /// Source of `pg_age` as `system:value`, or a rating that no table contains. `None` if the guide gives the age
    /// itself or no rating.
    pub rating: Option<Box<str>>,
    /// Usually the title of the episode. `None` instead of an empty text.
    pub subtitle: Option<Box<str>>,
    pub season: Option<u16>,
    /// Counted from 1.
    pub episode: Option<u16>,
    /// `None` instead of empty ones.
    pub details: Option<Box<Details>>,
}

impl Metadata {
    /// Shortens texts and lists to their limits. Returns whether anything was shortened.
    pub fn bound(&mut self) -> bool {
        let mut cut = shorten(&mut self.title, TITLE_MAX);
        if let Some(description) = &mut self.description {
            cut |= shorten(description, DESCRIPTION_MAX);
        }
        if let Some(subtitle) = &mut self.subtitle {
            cut |= shorten(subtitle, SUBTITLE_MAX);
        }
        let before = (self.images.len(), self.categories.len());
        // Images that are too long are dropped and not cut.
        self.images.retain(|image| {
            image.filename.len() <= FILENAME_MAX && image.kind.len() <= IMAGE_KIND_MAX
        });
        self.images.truncate(IMAGES_MAX);
        self.categories.truncate(CATEGORIES_MAX);
        cut |= before != (self.images.len(), self.categories.len());
        for label in self.categories.iter_mut().chain(self.rating.as_mut()) {
            cut |= shorten(label, LABEL_MAX);
        }
        if let Some(mut details) = self.details.take() {
            cut |= details.bound();
            self.details = details.boxed();
        }
        cut
    }
}

/// On air from `start` until just before `stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broadcast {
    /// Stays the same over repeated imports and moves.
    pub id: BroadcastId,
    pub start: UnixSeconds,
    /// Always after `start`.
    pub stop: UnixSeconds,
    pub metadata: Metadata,
}

/// A programme of a guide before it has its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewRow {
    pub line: u64,
    /// Given by the source; permanent.
    pub id: Option<BroadcastId>,
    pub start: UnixSeconds,
    pub stop: UnixSeconds,
    pub metadata: Metadata,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::details::{Credit, CreditKind, PreviousShowing};
    use playgate_store::VALUE_MAX;

    #[test]
    fn the_image_type_follows_from_its_proportions() {
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
        let mut metadata = Metadata {
            title: "ä".repeat(TITLE_MAX).into(),
            description: Some("x".repeat(100_000).into()),
            images: std::iter::once(image)
                .chain(std::iter::repeat_n(fitting, 50))
                .collect(),
            categories: vec!["c".repeat(1_000).into(); 50],
            pg_age: Some(18),
            rating: Some("r".repeat(1_000).into()),
            subtitle: Some("s".repeat(1_000).into()),
            season: Some(u16::MAX),
            episode: Some(u16::MAX),
            details: None,
        };
        assert!(metadata.bound());
        assert_eq!(metadata.title.chars().count(), TITLE_MAX / 2);
        assert_eq!(metadata.images.len(), IMAGES_MAX);
        let broadcast = Broadcast {
            id: BroadcastId::parse(&"\u{10ffff}".repeat(128)).unwrap(),
            start: UnixSeconds(i64::MAX),
            stop: UnixSeconds(i64::MAX),
            metadata,
        };
        let bytes = bincode::serde::encode_to_vec(&broadcast, bincode::config::standard()).unwrap();
        assert!(bytes.len() <= 12 * 1024, "{}", bytes.len());
        assert!(!broadcast.metadata.clone().bound());
        let mut broadcast = broadcast;
        let mut details = Details {
            date: Some("2026-11-28".into()),
            previously_shown: Some(PreviousShowing {
                start: Some("2026-11-28T20:00:00Z".into()),
                channel: Some("c".repeat(1_000).into()),
            }),
            ..Details::default()
        };
        for number in 0..100 {
            details.add_credit(Credit {
                kind: CreditKind::Guest,
                name: format!("{number}{}", "n".repeat(number)).into(),
                role: Some("r".repeat(1_000).into()),
                guest: true,
            });
        }
        broadcast.metadata.details = details.boxed();
        assert!(broadcast.metadata.bound());
        let bytes = bincode::serde::encode_to_vec(&broadcast, bincode::config::standard()).unwrap();
        assert!(bytes.len() <= VALUE_MAX - 64, "{}", bytes.len());
    }
}
