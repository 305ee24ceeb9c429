//! Entry points of `src/fuzzing` into the clip parsers.

use super::dash::Dash;
use super::hls::{Hls, Media};
use super::path::{LoopPath, split};
use super::retime::retime;
use super::track::TrackHead;
use playgate_types::MediaPath;

pub fn track(data: &[u8]) {
    if let Ok(Some(head)) = TrackHead::read(data) {
        assert!(head.scale > 0, "no ticks a second");
        assert!(head.init.len() <= data.len(), "more head than bytes");
        let ordered = head
            .pieces
            .is_sorted_by_key(|piece| (piece.start, piece.offset));
        assert!(ordered, "pieces out of order");
        let before_end = head
            .pieces
            .last()
            .is_none_or(|piece| piece.start <= head.end);
        assert!(before_end, "a piece behind the end");
    }
    if let Ok(retimed) = retime(data, u64::MAX / 3, u32::MAX) {
        // Some fields become 64 bits wide; nothing else grows.
        assert!(retimed.len() <= data.len() * 2 + 64, "a segment that grows");
    }
}

pub fn manifest(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(dash) = Dash::read(text) {
        assert!(dash.files.len() <= data.len(), "more files than bytes");
    }
    if let Ok((_, names)) = Hls::read(text) {
        assert!(names.len() <= data.len(), "more names than bytes");
    }
    let _ = Media::read(text);
    if let Some(name) = LoopPath::parse(text) {
        assert_eq!(name.to_string(), text, "a name with two spellings");
    }
    if let Some((clip, ..)) = MediaPath::parse(text).and_then(|path| split(&path)) {
        assert!(text.starts_with(clip.as_str()), "a name below another clip");
    }
}
