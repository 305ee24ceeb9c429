//! Shifts a segment to its iteration of the loop: rewrites decode time and sequence number of its fragments,
//! and the offsets that depend on their size. Samples and their encryption are unchanged.

use super::error::{LoopError, unfit};
use super::mp4_boxes::{Boxes, Fields, Mp4Box, only};

/// Bytes of a 64-bit decode time in addition to 32 bits.
const WIDENED_BYTES: usize = 4;
/// `tfhd` flag: offsets count from a position in the file, not from the fragment.
const BASE_DATA_OFFSET: u32 = 0x1;
/// `trun` flag: contains the offset of its samples.
const DATA_OFFSET: u32 = 0x1;
/// `saio` flag: a type precedes the offsets.
const AUX_INFO_TYPE: u32 = 0x1;

/// `shift` is in ticks; [`LoopError::Unfit`] if the segment cannot be rewritten.
pub(super) fn retime(segment: &[u8], shift: u64, sequence: u32) -> Result<Vec<u8>, LoopError> {
    let mut out = Vec::with_capacity(segment.len() + WIDENED_BYTES);
    for one in Boxes::new(segment).all()? {
        match &one.kind {
            b"moof" => moof(&mut out, &one, shift, sequence)?,
            _ => out.extend_from_slice(one.whole),
        }
    }
    Ok(out)
}

/// Everything after byte `behind` moves by `by` bytes.
#[derive(Clone, Copy)]
struct Growth {
    behind: usize,
    by: usize,
}

impl Growth {
    /// `offset` counts from the start of the fragment.
    fn apply(self, offset: u64) -> u64 {
        let behind = usize::try_from(offset).is_ok_and(|offset| offset >= self.behind);
        match behind {
            true => offset.saturating_add(u64::try_from(self.by).unwrap_or(u64::MAX)),
            false => offset,
        }
    }
}

fn moof(out: &mut Vec<u8>, moof: &Mp4Box<'_>, shift: u64, sequence: u32) -> Result<(), LoopError> {
    let children = Boxes::new(moof.content).all()?;
    let traf = only(&children, *b"traf")?;
    let tracks = Boxes::new(traf.content).all()?;
    let tfdt = only(&tracks, *b"tfdt")?;
    let (_, flags) = Fields(only(&tracks, *b"tfhd")?.content).version()?;
    // Such offsets point into the clip's file, not into the segment.
    if flags & BASE_DATA_OFFSET != 0 {
        return Err(unfit(
            "the fragments of a track count from the file's beginning",
        ));
    }
    let mut fields = Fields(tfdt.content);
    let (version, _) = fields.version()?;
    let time = fields.wide(version)?.checked_add(shift);
    let time = time.ok_or_else(|| unfit("a decode time overflows"))?;
    // A 32-bit decode time becomes a 64-bit one, so everything behind it moves.
    let before = moof.header() + traf.at + traf.header() + tfdt.at;
    let growth = Growth {
        behind: before + tfdt.whole.len(),
        by: if version == 0 { WIDENED_BYTES } else { 0 },
    };
    open(out, moof, growth)?;
    for child in &children {
        match &child.kind {
            // The sequence number is replaced, since the clip's would repeat with each iteration.
            b"mfhd" => {
                // Box length 16, version and flags 0.
                out.extend_from_slice(&[0, 0, 0, 16]);
                out.extend_from_slice(b"mfhd\0\0\0\0");
                out.extend_from_slice(&sequence.to_be_bytes());
            }
            b"traf" => {
                open(out, child, growth)?;
                for one in &tracks {
                    match &one.kind {
                        b"tfdt" => {
                            // Box length 20, version 1: a 64-bit decode time.
                            out.extend_from_slice(&[0, 0, 0, 20]);
                            out.extend_from_slice(b"tfdt\x01\0\0\0");
                            out.extend_from_slice(&time.to_be_bytes());
                        }
                        b"trun" => trun(out, one, growth)?,
                        b"saio" => saio(out, one, growth)?,
                        _ => out.extend_from_slice(one.whole),
                    }
                }
            }
            _ => out.extend_from_slice(child.whole),
        }
    }
    Ok(())
}

fn open(out: &mut Vec<u8>, one: &Mp4Box<'_>, growth: Growth) -> Result<(), LoopError> {
    let length = u32::try_from(one.whole.len() + growth.by).ok();
    // A 16-byte header is only needed for boxes over 4 GiB.
    let length = length.filter(|_| one.header() == 8);
    let length = length.ok_or_else(|| unfit("the header of a fragment is too long"))?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&one.kind);
    Ok(())
}

fn trun(out: &mut Vec<u8>, trun: &Mp4Box<'_>, growth: Growth) -> Result<(), LoopError> {
    let mut fields = Fields(trun.content);
    let (_, flags) = fields.version()?;
    if flags & DATA_OFFSET == 0 {
        return Err(unfit("a `trun` box has no data offset"));
    }
    fields.u32()?; // the number of samples
    let rest = fields.0.len();
    let offset = u64::from(fields.u32()?);
    // The offset is signed in the standard, but samples of a segment are never before their fragment.
    let offset = i32::try_from(growth.apply(offset));
    let offset = offset.map_err(|_| unfit("the samples of a fragment do not follow it"))?;
    let kept = trun.whole.len() - rest;
    out.extend_from_slice(trun.whole.get(..kept).unwrap_or_default());
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(fields.0);
    Ok(())
}

/// Offsets of the encryption data of samples.
fn saio(out: &mut Vec<u8>, saio: &Mp4Box<'_>, growth: Growth) -> Result<(), LoopError> {
    let mut fields = Fields(saio.content);
    let (version, flags) = fields.version()?;
    if flags & AUX_INFO_TYPE != 0 {
        fields.u64()?;
    }
    let count = fields.u32()?;
    // Everything before the offsets is copied.
    let kept = saio.whole.len() - fields.0.len();
    out.extend_from_slice(saio.whole.get(..kept).unwrap_or_default());
    // A count beyond the end of the box is an error of `wide`.
    for _ in 0..count {
        let offset = growth.apply(fields.wide(version)?);
        match version {
            0 => {
                let short = u32::try_from(offset);
                let short = short.map_err(|_| unfit("the header of a fragment is too long"))?;
                out.extend_from_slice(&short.to_be_bytes());
            }
            _ => out.extend_from_slice(&offset.to_be_bytes()),
        }
    }
    out.extend_from_slice(fields.0);
    Ok(())
}
