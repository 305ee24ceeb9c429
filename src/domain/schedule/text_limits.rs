//! Limits of the texts of a broadcast.

/// Bytes. Together, these limits keep a broadcast without details below the 12 KiB of a chunk, and one with them below
/// the 16 KiB that the store accepts as one value.
pub(crate) const TITLE_MAX: usize = 500;
pub(crate) const SUBTITLE_MAX: usize = 300;
pub(crate) const DESCRIPTION_MAX: usize = 4_000;
pub(crate) const IMAGES_MAX: usize = 8;
/// Bytes. A longer URL is dropped: a truncated one would be a different one.
pub const FILENAME_MAX: usize = 700;
pub const IMAGE_KIND_MAX: usize = 40;
pub(crate) const CATEGORIES_MAX: usize = 8;
pub(crate) const LABEL_MAX: usize = 100;

/// Returns whether the text was too long.
pub(super) fn shorten(text: &mut Box<str>, max: usize) -> bool {
    if text.len() <= max {
        return false;
    }
    let end = text.floor_char_boundary(max);
    *text = text.get(..end).unwrap_or_default().trim_end().into();
    true
}
