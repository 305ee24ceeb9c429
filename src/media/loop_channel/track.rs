//! One media file of a clip: a single track of fragments with an index (`sidx`) before the first, as
//! packagers write it for on-demand play.

use super::error::{LoopError, unfit};
use super::mp4_boxes::{Boxes, Fields, Mp4Box, Next, only};

/// Maximum number of bytes before the first fragment.
pub(super) const HEAD_MAX: usize = 1024 * 1024;
/// Maximum number of segments: 5.5 hours of two seconds each.
const PIECES_MAX: usize = 10_000;
/// Maximum size of a segment in bytes: twelve seconds at 20 Mbit/s. A segment is read into memory as a whole.
const PIECE_BYTES_MAX: u32 = 32 * 1024 * 1024;

/// The part of a file before the first fragment.
#[derive(Debug)]
pub(super) struct TrackHead {
    pub(super) init: Vec<u8>,
    /// Ticks per second.
    pub(super) scale: u32,
    pub(super) pieces: Vec<TrackPiece>,
    pub(super) end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrackPiece {
    pub(super) start: u64,
    pub(super) offset: u64,
    pub(super) length: u32,
}

impl TrackHead {
    /// `None` if more bytes are needed; [`LoopError::Unfit`] if a loop cannot be made of the file.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, LoopError> {
        let mut boxes = Boxes::new(bytes);
        let mut init = None;
        loop {
            let next = match boxes.step()? {
                Next::Whole(next) => next,
                Next::Cut([b'm', b'o', b'o', b'f'] | [b'm', b'd', b'a', b't']) => {
                    return Err(unfit(
                        "a track has no index (`sidx`) before its first fragment",
                    ));
                }
                Next::Cut(_) | Next::End => return Ok(None),
            };
            let end = next.at + next.whole.len();
            match &next.kind {
                b"moov" => {
                    let times = times(&next)?;
                    // The initialisation segment ends with `moov`.
                    let mut bytes = bytes.get(..end).unwrap_or_default().to_vec();
                    free_length(&mut bytes, &next)?;
                    init = Some((bytes, times));
                }
                b"sidx" => {
                    let (init, (scale, lead)) =
                        init.ok_or_else(|| unfit("a track has no `moov`"))?;
                    let (pieces, end) = pieces(&next, end, scale)?;
                    return Ok(Some(Self {
                        init,
                        scale,
                        pieces,
                        end: end.saturating_add(lead),
                    }));
                }
                b"moof" | b"mdat" => {
                    return Err(unfit(
                        "a track has no index (`sidx`) before its first fragment",
                    ));
                }
                _ => {}
            }
        }
    }
}

impl TrackHead {
    /// Ticks from the start of each segment to the start of the next.
    pub(super) fn lengths(&self, clip: u64) -> Vec<u64> {
        let first = self.pieces.first().map(|first| first.start);
        // The last one ends where the next iteration begins, so rounding errors do not add up.
        let again = first.map(|first| clip.saturating_add(first));
        let next = self.pieces.iter().skip(1).map(|piece| piece.start);
        (self.pieces.iter().zip(next.chain(again)))
            .map(|(piece, next)| next.saturating_sub(piece.start))
            .collect()
    }
}

fn times(moov: &Mp4Box<'_>) -> Result<(u32, u64), LoopError> {
    let trak = only(&Boxes::new(moov.content).all()?, *b"trak")?;
    let boxes = Boxes::new(trak.content).all()?;
    let mdia = Boxes::new(only(&boxes, *b"mdia")?.content).all()?;
    let scale = scale(&only(&mdia, *b"mdhd")?)?;
    let mut hdlr = Fields(only(&mdia, *b"hdlr")?.content);
    // Skips version, flags and a predefined field.
    hdlr.u64()?;
    // Audio encoders write priming samples, which an edit list hides and the index does not count. They take their time
    // in every iteration. The edit list of a video track, for reordered frames, hides nothing.
    let sound = hdlr.take::<4>()? == *b"soun";
    let edits = boxes.iter().find(|one| &one.kind == b"edts" && sound);
    let Some(edits) = edits else {
        return Ok((scale, 0));
    };
    let mut elst = Fields(only(&Boxes::new(edits.content).all()?, *b"elst")?.content);
    let (version, _) = elst.version()?;
    if elst.u32()? != 1 {
        return Err(unfit("an audio track has an edit list with several edits"));
    }
    elst.wide(version)?; // the length of the edit
    // Ticks before the presentation begins; a negative value is an empty edit.
    let lead = elst.wide(version)?;
    let lead = u32::try_from(lead).ok().filter(|lead| *lead < scale);
    let lead =
        lead.ok_or_else(|| unfit("an audio track begins with a second of silence or more"))?;
    Ok((scale, u64::from(lead)))
}

fn scale(mdhd: &Mp4Box<'_>) -> Result<u32, LoopError> {
    let mut fields = Fields(mdhd.content);
    let (version, _) = fields.version()?;
    for _ in ["creation", "modification"] {
        fields.wide(version)?;
    }
    match fields.u32()? {
        0 => Err(unfit("the timescale of a track is 0")),
        scale => Ok(scale),
    }
}

/// Overwrites the total duration with a `free` box.
fn free_length(init: &mut [u8], moov: &Mp4Box<'_>) -> Result<(), LoopError> {
    let extends = Boxes::new(moov.content).all()?;
    for mvex in extends.iter().filter(|one| &one.kind == b"mvex") {
        for mehd in Boxes::new(mvex.content).all()? {
            let kind = moov.at + moov.header() + mvex.at + mvex.header() + mehd.at + 4;
            if &mehd.kind == b"mehd"
                && let Some(kind) = init.get_mut(kind..kind + 4)
            {
                // Otherwise the player would end the livestream there.
                kind.copy_from_slice(b"free");
            }
        }
    }
    Ok(())
}

/// The index ends at byte `anchor`. Also returns the end of the last segment in ticks.
fn pieces(
    sidx: &Mp4Box<'_>,
    anchor: usize,
    scale: u32,
) -> Result<(Vec<TrackPiece>, u64), LoopError> {
    let mut fields = Fields(sidx.content);
    let (version, _) = fields.version()?;
    fields.u32()?; // the track's id
    if fields.u32()? != scale {
        return Err(unfit("a track and its index have different timescales"));
    }
    let mut start = fields.wide(version)?;
    let anchor = u64::try_from(anchor).unwrap_or(u64::MAX);
    // The first offset counts from the end of the index.
    let mut offset = anchor.saturating_add(fields.wide(version)?);
    // The first two bytes are reserved.
    let [_, _, high, low] = fields.take::<4>()?;
    let count = usize::from(u16::from_be_bytes([high, low]));
    if !(1..=PIECES_MAX).contains(&count) {
        return Err(unfit("an index must have 1 to 10000 segments"));
    }
    let mut pieces = Vec::with_capacity(count);
    for _ in 0..count {
        // The highest bit marks a nested index instead of a segment: such a value exceeds the limit too.
        let length = fields.u32()?;
        if !(1..=PIECE_BYTES_MAX).contains(&length) {
            return Err(unfit(
                "a segment must have at most 32 MiB, and the index one level",
            ));
        }
        let duration = fields.u32()?;
        fields.u32()?; // whether it begins with a key frame
        pieces.push(TrackPiece {
            start,
            offset,
            length,
        });
        start = start.saturating_add(u64::from(duration));
        offset = offset.saturating_add(u64::from(length));
    }
    Ok((pieces, start))
}
