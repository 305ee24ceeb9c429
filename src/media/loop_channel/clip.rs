//! A clip in the media directory: parses its manifest and tracks and checks that they fit together.

use std::io::{Read as _, Seek as _, SeekFrom};

use super::dash::Dash;
use super::error::{LoopError, unfit};
use super::hls::{Hls, Media, master};
use super::path::{ManifestFormat, ManifestRange};
use super::retime;
use super::timeline::{DASH_BACK, HLS_BACK, HLS_PIECES_MAX, LoopTimeline};
use super::track::{HEAD_MAX, TrackHead};
use playgate_ports::MediaDirectory;
use playgate_ports::media::MediaFile;
use playgate_types::{MediaPath, UnixSeconds};

/// Maximum size of a manifest in bytes.
const MANIFEST_MAX: u64 = 1024 * 1024;
/// Bytes of the first read of a track; most headers fit.
const HEAD_USUAL: usize = 16 * 1024;

#[derive(Debug)]
pub struct Clip {
    manifest: Manifest,
    tracks: Vec<Track>,
    timeline: LoopTimeline,
}

#[derive(Debug)]
enum Manifest {
    Dash(Dash),
    Hls(Hls),
}

#[derive(Debug)]
struct Track {
    path: MediaPath,
    head: TrackHead,
    media: Media,
}

impl Clip {
    pub(super) fn read(
        media: &MediaDirectory,
        path: &MediaPath,
        form: ManifestFormat,
    ) -> Result<Self, LoopError> {
        // Read at every request: it is a few kilobytes, and a changed clip needs no invalidation.
        let text = text(media, path)?.ok_or(LoopError::Absent)?;
        let mut tracks = Vec::new();
        let manifest = match form {
            ManifestFormat::Dash => {
                let dash = Dash::read(&text)?;
                for file in &dash.files {
                    tracks.push(Track::read(media, &resolve(path, file)?, Media::default())?);
                }
                Manifest::Dash(dash)
            }
            ManifestFormat::Hls => {
                let (hls, names) = Hls::read(&text)?;
                let media_playlist = matches!(hls, Hls::Media).then(|| (path.clone(), text));
                let mut playlists: Vec<_> = media_playlist.into_iter().collect();
                for name in names {
                    // A URI is relative to the playlist that contains it (RFC 8216, 4.1).
                    let path = resolve(path, &name)?;
                    let text = self::text(media, &path)?;
                    let text = text.ok_or_else(|| clip_error(&path, "does not exist"))?;
                    playlists.push((path, text));
                }
                for (path, text) in playlists {
                    let playlist = Media::read(&text).map_err(|why| clip_error(&path, why))?;
                    let file = resolve(&path, &playlist.file)?;
                    tracks.push(Track::read(media, &file, playlist)?);
                }
                Manifest::Hls(hls)
            }
        };
        let timeline = fit(&tracks)?;
        Ok(Self {
            manifest,
            tracks,
            timeline,
        })
    }

    pub fn manifest(
        &self,
        span: ManifestRange,
        track: Option<usize>,
        now: UnixSeconds,
    ) -> Result<Vec<u8>, LoopError> {
        let window = |back| {
            self.timeline
                .window(span, back, now)
                .ok_or(LoopError::Absent)
        };
        let playlist = |track: usize| {
            let window = window(HLS_BACK)?;
            // A window that the request chooses must not produce a playlist of gigabytes.
            if window.numbers.end() - window.numbers.start() >= HLS_PIECES_MAX {
                return Err(LoopError::Absent);
            }
            let Track { head, media, .. } = self.tracks.get(track).ok_or(LoopError::Absent)?;
            let timeline = (&self.timeline, self.target());
            Ok(media.write(track, head, timeline, &window))
        };
        let text = match (&self.manifest, track) {
            (Manifest::Dash(dash), None) => dash.write(&self.timeline, &window(DASH_BACK)?, now),
            (Manifest::Hls(Hls::Master(lines)), None) => master(lines, span),
            (Manifest::Hls(Hls::Master(_)), Some(track)) => playlist(track)?,
            (Manifest::Hls(Hls::Media), None) => playlist(0)?,
            // DASH has one manifest for all tracks; a single media playlist is the clip's only track.
            (Manifest::Dash(_) | Manifest::Hls(Hls::Media), Some(_)) => {
                return Err(LoopError::Absent);
            }
        };
        Ok(text.into_bytes())
    }

    /// The longest segment of all tracks in whole seconds: all playlists must have one target duration (RFC 8216, 6.2.4), which
    /// is compared with rounded segment durations (4.3.3.1).
    fn target(&self) -> u64 {
        let seconds = self.tracks.iter().map(|Track { head, .. }| {
            let scale = u64::from(head.scale);
            let longest = head
                .lengths(self.timeline.clip(head.scale))
                .into_iter()
                .max();
            longest.unwrap_or_default().saturating_add(scale / 2) / scale.max(1)
        });
        seconds.max().unwrap_or_default()
    }

    pub(super) fn init(mut self, track: usize) -> Result<Vec<u8>, LoopError> {
        let track = self.tracks.get_mut(track).ok_or(LoopError::Absent)?;
        Ok(std::mem::take(&mut track.head.init))
    }

    /// Returns a segment; [`LoopError::Absent`] until it has ended on the timeline.
    pub(super) fn segment(
        &self,
        media: &MediaDirectory,
        track: usize,
        number: u64,
        now: UnixSeconds,
    ) -> Result<Vec<u8>, LoopError> {
        let track = self.tracks.get(track).ok_or(LoopError::Absent)?;
        // There is no oldest segment: catch-up reaches back as far as the catalogue says.
        if self
            .timeline
            .newest(now)
            .is_none_or(|newest| number > newest)
        {
            return Err(LoopError::Absent);
        }
        let (turn, piece) = self.timeline.iteration(number);
        let piece = track.head.pieces.get(piece).ok_or(LoopError::Absent)?;
        let shift = self.timeline.begin(turn, track.head.scale);
        let shift = shift.ok_or(LoopError::Absent)?;
        let opened = media.open(&track.path)?;
        let mut opened = opened.ok_or_else(|| clip_error(&track.path, "does not exist"))?;
        opened.file.seek(SeekFrom::Start(piece.offset))?;
        let length = u64::from(piece.length);
        let bytes = read_up_to(&mut opened, length)?;
        // A truncated file can have a complete index.
        if u64::try_from(bytes.len()).ok() != Some(length) {
            return Err(clip_error(&track.path, "is shorter than its index says"));
        }
        // Any sequence number that grows and wraps is valid.
        let sequence = u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default();
        retime::retime(&bytes, shift, sequence).map_err(|why| clip_error(&track.path, why))
    }
}

impl Track {
    fn read(media: &MediaDirectory, path: &MediaPath, playlist: Media) -> Result<Self, LoopError> {
        let mut opened = media
            .open(path)?
            .ok_or_else(|| clip_error(path, "does not exist"))?;
        let mut bytes = Vec::new();
        let mut head = None;
        // A small read first: most headers fit, and segments are requested every few seconds.
        for most in [HEAD_USUAL, HEAD_MAX] {
            let more = u64::try_from(most - bytes.len()).unwrap_or(u64::MAX);
            bytes.append(&mut read_up_to(&mut opened, more)?);
            head = TrackHead::read(&bytes).map_err(|why| clip_error(path, why))?;
            if head.is_some() {
                break;
            }
        }
        let head =
            head.ok_or_else(|| clip_error(path, "has no index (`sidx`) in its first MiB"))?;
        Ok(Self {
            path: path.clone(),
            head,
            media: playlist,
        })
    }
}

fn fit(tracks: &[Track]) -> Result<LoopTimeline, LoopError> {
    let length = |track: &&Track| {
        // Compared in fractions of a second, because tracks have different timescales.
        let (end, scale) = (u128::from(track.head.end), u128::from(track.head.scale));
        end * (1 << 64) / scale
    };
    let longest = tracks.iter().max_by_key(length);
    let longest = longest.ok_or_else(|| unfit("the clip has no tracks"))?;
    let count = longest.head.pieces.len();
    let timeline = LoopTimeline::new(longest.head.end, longest.head.scale, count)?;
    let (piece, second) = timeline.piece();
    let (piece, second) = (u128::from(piece), u128::from(second));
    for track in tracks {
        if track.head.pieces.len() != count {
            return Err(clip_error(
                &track.path,
                "has another number of segments than the longest track",
            ));
        }
        let scale = u128::from(track.head.scale);
        let starts = track.head.pieces.iter().map(|piece| piece.start);
        let places = (0..).map(|number: u128| number * piece * scale);
        // Starts may be at most a quarter of a segment apart: the position that a player looks for must be in the
        // segment listed for it.
        let fits = starts
            .chain([track.head.end])
            .zip(places)
            .all(|(start, place)| {
                (u128::from(start) * second).abs_diff(place) * 4 <= piece * scale
            });
        if !fits {
            return Err(clip_error(
                &track.path,
                "is not cut into segments of one length, as long as the other tracks'",
            ));
        }
    }
    Ok(timeline)
}

fn resolve(manifest: &MediaPath, name: &str) -> Result<MediaPath, LoopError> {
    let folder = manifest.as_str().rsplit_once('/');
    let path = folder.map_or_else(|| name.to_owned(), |(folder, _)| format!("{folder}/{name}"));
    // `MediaPath` rejects names that leave the directory.
    MediaPath::parse(&path).ok_or_else(|| {
        unfit(format!(
            "`{name}` is not a file next to or below the manifest"
        ))
    })
}

fn clip_error(path: &MediaPath, why: impl std::fmt::Display) -> LoopError {
    unfit(format!("{}: {why}", path.as_str()))
}

fn text(media: &MediaDirectory, path: &MediaPath) -> Result<Option<String>, LoopError> {
    let Some(mut opened) = media.open(path)? else {
        return Ok(None);
    };
    if opened.length > MANIFEST_MAX {
        return Err(clip_error(path, "is longer than a MiB"));
    }
    // The read is limited too: the file may have grown since it was opened.
    let bytes = read_up_to(&mut opened, MANIFEST_MAX)?;
    let text = String::from_utf8(bytes).map_err(|_| clip_error(path, "is not UTF-8"))?;
    Ok(Some(text))
}

fn read_up_to(opened: &mut MediaFile, most: u64) -> Result<Vec<u8>, LoopError> {
    let mut bytes = Vec::new();
    (&mut opened.file).take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
