//! One file of a clip: a single track in fragments, with an index of them (`sidx`) before the first,
//! as packagers write it for on-demand play.

use super::error::{LoopError, unfit};
use super::mp4_boxes::{Boxes, Fields, Mp4Box, Next, only};

/// Bytes before the first fragment, at most.
pub(super) const HEAD_MAX: usize = 1024 * 1024;
/// Pieces of a clip: five hours and a half of two seconds each.
const PIECES_MAX: usize = 10_000;
/// Bytes of one piece: twelve seconds at 20 Mbit/s. It is read whole.
const PIECE_BYTES_MAX: u32 = 32 * 1024 * 1024;

/// What precedes the first fragment.
#[derive(Debug)]
pub(super) struct Head {
    /// The part that players fetch first.
    pub(super) init: Vec<u8>,
    /// Ticks a second.
    pub(super) scale: u32,
    /// Where each piece begins in the clip, in ticks, and its place in the file.
    pub(super) pieces: Vec<Piece>,
    /// How long all of it takes, in ticks.
    pub(super) end: u64,
}

/// A piece of the clip in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// When it begins, in ticks.
    pub(super) start: u64,
    /// Where it begins, in bytes.
    pub(super) offset: u64,
    /// Its length in bytes.
    pub(super) length: u32,
}

impl Head {
    /// Reads the beginning of a file; `None` if it must be longer.
    ///
    /// # Errors
    /// [`LoopError::Unfit`].
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

impl Head {
    /// How long each piece lasts in a clip of this length, in ticks: from its beginning to that of
    /// the next, which after the last one is the first of the next turn. So nothing adds up.
    pub(super) fn lengths(&self, clip: u64) -> Vec<u64> {
        let first = self.pieces.first().map(|first| first.start);
        let again = first.map(|first| clip.saturating_add(first));
        let next = self.pieces.iter().skip(1).map(|piece| piece.start);
        (self.pieces.iter().zip(next.chain(again)))
            .map(|(piece, next)| next.saturating_sub(piece.start))
            .collect()
    }
}

/// The ticks a second of the only track, and how many it has before the first that is played.
///
/// An encoder of sound puts samples before the first, which an edit list hides and the index does not
/// count. They take their time all the same, in every turn.
fn times(moov: &Mp4Box<'_>) -> Result<(u32, u64), LoopError> {
    let trak = only(&Boxes::new(moov.content).all()?, *b"trak")?;
    let boxes = Boxes::new(trak.content).all()?;
    let mdia = Boxes::new(only(&boxes, *b"mdia")?.content).all()?;
    let scale = scale(&only(&mdia, *b"mdhd")?)?;
    let mut hdlr = Fields(only(&mdia, *b"hdlr")?.content);
    hdlr.u64()?;
    // Pictures that are shown in another order than decoded have such a list too: nothing is hidden.
    let sound = hdlr.take::<4>()? == *b"soun";
    let edits = boxes.iter().find(|one| &one.kind == b"edts" && sound);
    let Some(edits) = edits else {
        return Ok((scale, 0));
    };
    let mut elst = Fields(only(&Boxes::new(edits.content).all()?, *b"elst")?.content);
    let (version, _) = elst.version()?;
    if elst.u32()? != 1 {
        return Err(unfit("a track of sound is pieced together by an edit list"));
    }
    elst.wide(version)?; // the length of the edit
    // Before the presentation begins; a negative one is an empty edit.
    let lead = elst.wide(version)?;
    let lead = u32::try_from(lead).ok().filter(|lead| *lead < scale);
    let lead =
        lead.ok_or_else(|| unfit("a track of sound begins with a second of silence or more"))?;
    Ok((scale, u64::from(lead)))
}

fn scale(mdhd: &Mp4Box<'_>) -> Result<u32, LoopError> {
    let mut fields = Fields(mdhd.content);
    let (version, _) = fields.version()?;
    for _ in ["creation", "modification"] {
        fields.wide(version)?;
    }
    match fields.u32()? {
        0 => Err(unfit("a track counts no ticks a second")),
        scale => Ok(scale),
    }
}

/// What says how long all fragments are together would tell a player that the livestream ends then:
/// its box becomes one that is free space.
fn free_length(init: &mut [u8], moov: &Mp4Box<'_>) -> Result<(), LoopError> {
    let extends = Boxes::new(moov.content).all()?;
    for mvex in extends.iter().filter(|one| &one.kind == b"mvex") {
        for mehd in Boxes::new(mvex.content).all()? {
            let kind = moov.at + moov.header() + mvex.at + mvex.header() + mehd.at + 4;
            if &mehd.kind == b"mehd"
                && let Some(kind) = init.get_mut(kind..kind + 4)
            {
                kind.copy_from_slice(b"free");
            }
        }
    }
    Ok(())
}

/// The pieces of an index that ends at byte `anchor`, and where the last one ends in ticks.
fn pieces(sidx: &Mp4Box<'_>, anchor: usize, scale: u32) -> Result<(Vec<Piece>, u64), LoopError> {
    let mut fields = Fields(sidx.content);
    let (version, _) = fields.version()?;
    fields.u32()?; // the track's id
    if fields.u32()? != scale {
        return Err(unfit("a track and its index count different ticks"));
    }
    let mut start = fields.wide(version)?;
    let anchor = u64::try_from(anchor).unwrap_or(u64::MAX);
    let mut offset = anchor.saturating_add(fields.wide(version)?);
    let [_, _, high, low] = fields.take::<4>()?;
    let count = usize::from(u16::from_be_bytes([high, low]));
    if !(1..=PIECES_MAX).contains(&count) {
        return Err(unfit("an index must have 1 to 10000 segments"));
    }
    let mut pieces = Vec::with_capacity(count);
    for _ in 0..count {
        // The highest bit says that an index follows in place of a segment: over the limit too.
        let length = fields.u32()?;
        if !(1..=PIECE_BYTES_MAX).contains(&length) {
            return Err(unfit(
                "a segment must have at most 32 MiB, and the index one level",
            ));
        }
        let duration = fields.u32()?;
        fields.u32()?; // whether it begins with a key frame
        pieces.push(Piece {
            start,
            offset,
            length,
        });
        start = start.saturating_add(u64::from(duration));
        offset = offset.saturating_add(u64::from(length));
    }
    Ok((pieces, start))
}
