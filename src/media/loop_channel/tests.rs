//! Loop channels made from the demo's clip: the output is parsed box by box.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::mp4_boxes::{Boxes, Fields, only};
use super::retime::retime;
use super::track::TrackHead;
use super::{LoopError, ManifestRange, generate, manifest};
use playgate_ports::MediaDirectory;
use playgate_types::{MediaPath, UnixSeconds};

/// 2026-01-01T12:00:00Z: the beginning of an iteration.
const NOON: UnixSeconds = UnixSeconds(1_767_268_800);
/// The number of the segment that begins at [`NOON`].
const FIRST: u64 = 883_634_400;

/// A media directory with the demo's clip.
struct Lab {
    folder: TempDir,
    media: MediaDirectory,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clip = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("data/demo/clip");
        for kind in ["clear", "encrypted"] {
            fs::create_dir(folder.path().join(kind)).unwrap();
            for file in fs::read_dir(clip.join(kind)).unwrap() {
                let file = file.unwrap();
                fs::copy(file.path(), folder.path().join(kind).join(file.file_name())).unwrap();
            }
        }
        let media = MediaDirectory::new(folder.path());
        Self { folder, media }
    }

    fn ask(&self, path: &str, now: UnixSeconds) -> Result<Vec<u8>, LoopError> {
        generate(&self.media, &MediaPath::parse(path).unwrap(), now)
    }

    fn text(&self, path: &str, now: UnixSeconds) -> String {
        String::from_utf8(self.ask(path, now).unwrap()).unwrap()
    }

    /// Modifies a file of the clip.
    fn change(&self, name: &str, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
        let path = self.folder.path().join(name);
        let changed = change(fs::read(&path).unwrap());
        fs::write(&path, changed).unwrap();
    }

    fn replace(&self, name: &str, from: &str, to: &str) {
        self.change(name, |bytes| {
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.contains(from), "{from}");
            text.replace(from, to).into_bytes()
        });
    }

    /// The reason why the clip is rejected.
    fn complaint(&self, path: &str) -> String {
        match self.ask(path, NOON) {
            Err(LoopError::Unfit(why)) => why,
            other => panic!("{other:?}"),
        }
    }
}

/// The parsed header of a fragment.
#[derive(Debug, PartialEq, Eq)]
struct Fragment {
    sequence: u32,
    time: u64,
    /// Byte range of its samples.
    samples: (usize, usize),
    duration: u64,
    /// The encryption data of the first sample, if it is encrypted: the bytes that `saio` points at.
    vector: Option<Vec<u8>>,
}

/// Parses a segment with one fragment. `usual` is the default duration of a sample.
fn fragment(segment: &[u8]) -> Fragment {
    let boxes = Boxes::new(segment).all().unwrap();
    assert_eq!(boxes.len(), 2);
    let moof = only(&boxes, *b"moof").unwrap();
    assert_eq!(moof.at, 0);
    let heads = Boxes::new(moof.content).all().unwrap();
    let mut mfhd = Fields(only(&heads, *b"mfhd").unwrap().content);
    mfhd.version().unwrap();
    let tracks = Boxes::new(only(&heads, *b"traf").unwrap().content)
        .all()
        .unwrap();
    let mut tfdt = Fields(only(&tracks, *b"tfdt").unwrap().content);
    let (version, _) = tfdt.version().unwrap();
    let mut tfhd = Fields(only(&tracks, *b"tfhd").unwrap().content);
    let (_, flags) = tfhd.version().unwrap();
    tfhd.u32().unwrap();
    let mut usual = 0;
    if flags & 2 != 0 {
        tfhd.u32().unwrap();
    }
    if flags & 8 != 0 {
        usual = tfhd.u32().unwrap();
    }
    let mut trun = Fields(only(&tracks, *b"trun").unwrap().content);
    let (_, flags) = trun.version().unwrap();
    let count = trun.u32().unwrap();
    let begin = usize::try_from(trun.u32().unwrap()).unwrap();
    let (mut end, mut duration) = (begin, 0);
    for _ in 0..count {
        let sample_duration = (flags & 0x100 != 0).then(|| trun.u32().unwrap());
        duration += u64::from(sample_duration.unwrap_or(usual));
        end += usize::try_from(trun.u32().unwrap()).unwrap();
        if flags & 0x400 != 0 {
            trun.u32().unwrap();
        }
    }
    let vector = tracks.iter().find(|one| &one.kind == b"saio").map(|saio| {
        let mut saio = Fields(saio.content);
        saio.version().unwrap();
        assert_eq!(saio.u32().unwrap(), 1);
        let at = usize::try_from(saio.u32().unwrap()).unwrap();
        segment[at..at + 8].to_vec()
    });
    Fragment {
        sequence: mfhd.u32().unwrap(),
        time: tfdt.wide(version).unwrap(),
        samples: (begin, end),
        duration,
        vector,
    }
}

#[test]
fn segments_are_contiguous_across_iterations() {
    let lab = Lab::new();
    let now = NOON + 100;
    for (track, scale) in [(0, 48_000), (1, 12_800), (2, 12_800)] {
        let mut expected = u64::try_from(NOON.0).unwrap() * scale;
        for number in FIRST..FIRST + 15 {
            let path = format!("encrypted/manifest.mpd/{track}-{number}.m4s");
            let segment = lab.ask(&path, now).unwrap();
            let read = fragment(&segment);
            assert_eq!(read.time, expected, "{path}");
            assert_eq!(u64::from(read.sequence), number);
            // Samples begin where the data of the fragment begins, and fill it.
            let boxes = Boxes::new(&segment).all().unwrap();
            let data = only(&boxes, *b"mdat").unwrap();
            assert_eq!(read.samples, (data.at + 8, segment.len()));
            expected += read.duration;
        }
    }
}

#[test]
fn a_segment_keeps_its_encryption_data() {
    let lab = Lab::new();
    let file = fs::read(lab.folder.path().join("encrypted/video-360.mp4")).unwrap();
    // The initialisation vectors that follow the header of `senc` in each fragment of the file.
    let marks: Vec<_> = (0..file.len() - 4)
        .filter(|at| &file[*at..at + 4] == b"senc")
        .collect();
    assert_eq!(marks.len(), 5);
    for (piece, mark) in marks.iter().enumerate() {
        let path = format!(
            "encrypted/manifest.mpd/2-{}.m4s",
            FIRST + u64::try_from(piece).unwrap()
        );
        let read = fragment(&lab.ask(&path, NOON + 100).unwrap());
        assert_eq!(read.vector.unwrap(), file[mark + 12..mark + 20], "{path}");
    }
}

#[test]
fn a_segment_is_served_once_it_is_over() {
    let lab = Lab::new();
    let number = FIRST + 2;
    let path = format!("clear/manifest.mpd/1-{number}.m4s");
    for (now, there) in [
        (NOON + 4, false),
        (NOON + 5, false),
        (NOON + 6, true),
        (NOON + 900_000, true),
    ] {
        assert_eq!(lab.ask(&path, now).is_ok(), there, "{now}");
    }
    for absent in [
        "clear/manifest.mpd/3-1.m4s",
        "clear/manifest.mpd/3-init.mp4",
        "clear/manifest.mpd/live.m3u8",
        "clear/manifest.mpd/live-0.mpd",
        "clear/master.m3u8/live.mpd",
        "clear/master.m3u8/live-3.m3u8",
        "clear/audio.m3u8/live-0.m3u8",
        "clear/none.mpd/live.mpd",
        "clear/live.mpd",
        "clear/manifest.mpd/catchup-20-10.mpd",
        "clear/master.m3u8/catchup-0-1767268800-0.m3u8",
    ] {
        let answer = lab.ask(absent, NOON);
        assert!(
            matches!(answer, Err(LoopError::Absent)),
            "{absent}: {answer:?}"
        );
    }
}

#[test]
fn the_init_segment_contains_no_duration() {
    let lab = Lab::new();
    let file = fs::read(lab.folder.path().join("encrypted/audio.mp4")).unwrap();
    let init = lab.ask("encrypted/manifest.mpd/0-init.mp4", NOON).unwrap();
    let holds = |bytes: &[u8], kind: &[u8]| bytes.windows(4).any(|four| four == kind);
    assert!(holds(&file, b"mehd") && !holds(&init, b"mehd"));
    assert!(holds(&init, b"pssh") && holds(&init, b"mvex"));
    assert!(!holds(&init, b"sidx"));
    let boxes = Boxes::new(&init).all().unwrap();
    assert_eq!(boxes.last().map(|last| last.kind), Some(*b"moov"));
}

#[test]
fn a_live_manifest_is_open_and_a_catchup_manifest_ends() {
    let lab = Lab::new();
    let live = lab.text("encrypted/manifest.mpd/live.mpd", NOON + 1);
    for part in [
        "type=\"dynamic\" availabilityStartTime=\"1970-01-01T00:00:00Z\" publishTime=\"2026-01-01T12:00:01Z\" \
         minimumUpdatePeriod=\"PT2S\" suggestedPresentationDelay=\"PT6S\" timeShiftBufferDepth=\"PT90000S\">",
        "<Period id=\"0\" start=\"PT0S\">",
        "cenc:default_KID=\"5ad1c0de-0000-4000-8000-000000000001\"",
        "schemeIdUri=\"urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e\" value=\"ClearKey1.0\">",
        "<SegmentTemplate timescale=\"1\" startNumber=\"883589400\" initialization=\"0-init.mp4\" \
         media=\"0-$Number$.m4s\"><SegmentTimeline><S t=\"1767178800\" d=\"2\" r=\"44999\"/></SegmentTimeline>",
        "urn:mpeg:dash:utc:direct:2014\" value=\"2026-01-01T12:00:01Z\"/></MPD>",
    ] {
        assert!(live.contains(part), "{part} in {live}");
    }
    for gone in [
        "mediaPresentationDuration",
        "BaseURL",
        "SegmentBase",
        "subsegment",
    ] {
        assert!(!live.contains(gone), "{gone} in {live}");
    }
    let window = ManifestRange::Window {
        start: NOON + 3,
        stop: NOON + 9,
    };
    let path = manifest("clear/manifest.mpd", window).unwrap();
    let running = lab.text(path.as_str(), NOON + 6);
    for part in [
        "type=\"dynamic\" availabilityStartTime=\"2026-01-01T12:00:03Z\"",
        "mediaPresentationDuration=\"PT6S\"",
        "presentationTimeOffset=\"1767268803\"",
        "<S t=\"1767268802\" d=\"2\" r=\"1\"/>",
    ] {
        assert!(running.contains(part), "{part} in {running}");
    }
    let over = lab.text(path.as_str(), NOON + 10);
    assert!(
        over.contains("type=\"static\" mediaPresentationDuration=\"PT6S\">"),
        "{over}"
    );
    assert!(
        over.contains("<S t=\"1767268802\" d=\"2\" r=\"3\"/>"),
        "{over}"
    );
    assert!(!over.contains("UTCTiming"), "{over}");
}

#[test]
fn a_live_hls_playlist_is_open_and_a_catchup_playlist_ends() {
    let lab = Lab::new();
    let master = lab.text("clear/master.m3u8/live.m3u8", NOON);
    assert!(master.contains("URI=\"live-0.m3u8\",GROUP-ID"), "{master}");
    assert!(
        master.contains("\nlive-1.m3u8\n") && master.contains("\nlive-2.m3u8\n"),
        "{master}"
    );
    let live = lab.text("clear/master.m3u8/live-0.m3u8", NOON + 12);
    let head = "#EXTM3U\n#EXT-X-VERSION:6\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:883632456\n\
                #EXT-X-MAP:URI=\"0-init.mp4\"\n#EXT-X-PROGRAM-DATE-TIME:2026-01-01T10:55:12.005Z\n\
                #EXTINF:2.005333,\n0-883632456.m4s\n";
    assert!(live.starts_with(head), "{live}");
    let tail = "#EXTINF:1.984,\n0-883634403.m4s\n#EXTINF:2,\n0-883634404.m4s\n\
                #EXTINF:2.005333,\n0-883634405.m4s\n";
    assert!(live.ends_with(tail), "{live}");
    let playlist = "clear/master.m3u8/catchup-1767268800-1767268804-1.m3u8";
    assert_eq!(
        lab.text(playlist, NOON + 100),
        "#EXTM3U\n#EXT-X-VERSION:6\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:883634400\n\
         #EXT-X-PLAYLIST-TYPE:EVENT\n#EXT-X-START:TIME-OFFSET=0\n#EXT-X-MAP:URI=\"1-init.mp4\"\n\
         #EXT-X-PROGRAM-DATE-TIME:2026-01-01T12:00:00Z\n\
         #EXTINF:2,\n1-883634400.m4s\n#EXTINF:2,\n1-883634401.m4s\n#EXT-X-ENDLIST\n"
    );
    let running = lab.text(playlist, NOON + 2);
    assert!(running.contains("#EXT-X-PLAYLIST-TYPE:EVENT\n#EXT-X-START:TIME-OFFSET=0\n"));
    assert!(!running.contains("ENDLIST"));
    // A media playlist without a master playlist. Samples before the first one take their time in every iteration.
    let sound = lab.text("clear/audio.m3u8/live.m3u8", NOON + 12);
    assert_eq!(sound, live);
}

/// The reason why the clip is rejected after a change.
fn complaint(manifest: &str, change: impl FnOnce(&Lab)) -> String {
    let lab = Lab::new();
    change(&lab);
    lab.complaint(&format!("clear/{manifest}"))
}

#[test]
fn an_unusable_manifest_is_rejected_with_its_reason() {
    let [mpd, hls] = ["manifest.mpd/live.mpd", "master.m3u8/live.m3u8"];
    let key = "#EXT-X-KEY:URI=\"k\"\n#EXT-X-MAP";
    for (asked, file, from, to, why) in [
        (mpd, "manifest.mpd", "</MPD>", "", "must be an MPD"),
        (mpd, "manifest.mpd", "</Period>", "</Perio>", "is broken"),
        (
            mpd,
            "manifest.mpd",
            "\"static\"",
            "\"dynamic\"",
            "on-demand",
        ),
        (
            mpd,
            "manifest.mpd",
            "SegmentBase",
            "SegmentList",
            "one file",
        ),
        (
            mpd,
            "manifest.mpd",
            "<MPD",
            "<!DOCTYPE x><MPD",
            "document type",
        ),
        (
            mpd,
            "manifest.mpd",
            "audio.mp4",
            "../audio.mp4",
            "not a file next to",
        ),
        (
            mpd,
            "manifest.mpd",
            "audio.mp4",
            "x.mp4",
            "clear/x.mp4: does not exist",
        ),
        (
            mpd,
            "manifest.mpd",
            "audio.mp4",
            "audio.m3u8",
            "clear/audio.m3u8: ",
        ),
        (hls, "master.m3u8", "#EXTM3U", "", "#EXTM3U"),
        (
            hls,
            "master.m3u8",
            "audio.m3u8",
            "x.m3u8",
            "clear/x.m3u8: does not exist",
        ),
        (
            hls,
            "audio.m3u8",
            "#EXT-X-MAP",
            "#EXT-MAP",
            "clear/audio.m3u8: a playlist",
        ),
        (hls, "audio.m3u8", "#EXT-X-MAP", key, "absolute URI"),
    ] {
        let reason = complaint(asked, |lab| lab.replace(&format!("clear/{file}"), from, to));
        assert!(reason.contains(why), "{why}: {reason}");
    }
}

#[test]
fn an_unusable_track_is_rejected_with_its_reason() {
    let mpd = "manifest.mpd/live.mpd";
    let file = "clear/video-180.mp4";
    let cut = |lab: &Lab, length: usize| lab.change(file, |bytes| bytes[..length].to_vec());
    for length in [0, 4, 500, 900] {
        let reason = complaint(mpd, |lab| cut(lab, length));
        assert!(reason.contains("video-180.mp4: has no index"), "{reason}");
    }
    // The index is complete, the file is not.
    let lab = Lab::new();
    cut(&lab, 5_000);
    assert!(lab.ask("clear/manifest.mpd/live.mpd", NOON).is_ok());
    let reason = lab.complaint(&format!("clear/manifest.mpd/1-{}.m4s", FIRST - 5));
    assert!(reason.contains("shorter than its index"), "{reason}");

    let index = |change: fn(&mut [u8])| {
        complaint(mpd, |lab| {
            lab.change(file, |mut bytes| {
                let at = bytes.windows(4).position(|four| four == b"sidx").unwrap();
                change(&mut bytes[at..]);
                bytes
            });
        })
    };
    let reason = index(|sidx| sidx[..4].copy_from_slice(b"free"));
    assert!(reason.contains("before its first fragment"), "{reason}");
    // One segment fewer; a first segment that is a second longer; an entry that is another index.
    let reason = index(|sidx| sidx[27] -= 1);
    assert!(reason.contains("another number of segments"), "{reason}");
    let reason = index(|sidx| sidx[34] += 50);
    assert!(reason.contains("segments of one length"), "{reason}");
    let reason = index(|sidx| sidx[28] |= 0x80);
    assert!(reason.contains("one level"), "{reason}");
}

#[test]
fn damaged_files_never_panic() {
    let lab = Lab::new();
    let whole = fs::read(lab.folder.path().join("encrypted/video-180.mp4")).unwrap();
    let head = TrackHead::read(&whole).unwrap().unwrap();
    let first = head.pieces[0];
    let begin = usize::try_from(first.offset).unwrap();
    let end = begin + usize::try_from(first.length).unwrap();
    // Every byte of the headers before the first samples.
    for at in 0..begin + 1_400 {
        for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
            let mut bytes = whole[..end].to_vec();
            bytes[at] = value;
            let _ = TrackHead::read(&bytes[..begin]);
            let _ = retime(&bytes[begin..], u64::MAX / 2, 1);
        }
    }
    // Cut anywhere but between two boxes.
    let cut = |length: &usize| retime(&whole[begin..begin + length], 1, 1).is_ok();
    assert_eq!((0..end - begin).filter(cut).count(), 2);
}

#[test]
fn a_clip_without_what_a_live_manifest_needs_gets_it() {
    let lab = Lab::new();
    // Every attribute occurs once, whatever the packager wrote.
    let (from, to) = (
        " minBufferTime=\"PT2S\"",
        " suggestedPresentationDelay=\"PT9S\" maxSegmentDuration=\"PT9S\" timeShiftBufferDepth=\"PT9S\"",
    );
    lab.replace("clear/manifest.mpd", from, to);
    lab.replace("clear/manifest.mpd", "<Period id=\"0\"", "<Period");
    let alignment = "segmentAlignment=\"false\" subsegmentAlignment=\"true\"";
    lab.replace(
        "clear/manifest.mpd",
        "subsegmentAlignment=\"true\"",
        alignment,
    );
    lab.replace(
        "clear/manifest.mpd",
        "</MPD>",
        "<PatchLocation>x</PatchLocation></MPD>",
    );
    let live = lab.text("clear/manifest.mpd/live.mpd", NOON);
    assert!(live.contains("<Period id=\"0\" start=\"PT0S\">"), "{live}");
    assert!(
        live.contains("segmentAlignment=\"true\"") && !live.contains("false"),
        "{live}"
    );
    assert!(
        !live.contains("PatchLocation") && !live.contains("PT9S"),
        "{live}"
    );
    for name in [
        "minBufferTime",
        "suggestedPresentationDelay",
        "maxSegmentDuration",
    ] {
        assert_eq!(live.matches(name).count(), 1, "{name} in {live}");
    }
}

#[test]
fn all_playlists_of_a_clip_have_one_target_duration() {
    // RFC 8216, 6.2.4. The second segment of the sound is half a second longer, and its neighbours are shorter.
    let lab = Lab::new();
    lab.change("clear/audio.mp4", |mut bytes| {
        let at = bytes.windows(4).position(|four| four == b"sidx").unwrap();
        for (entry, change) in [(0, -10_000_i32), (1, 28_000), (2, -18_000)] {
            let field = at + 32 + entry * 12;
            let old = u32::from_be_bytes(bytes[field..field + 4].try_into().unwrap());
            let new = old.checked_add_signed(change).unwrap();
            bytes[field..field + 4].copy_from_slice(&new.to_be_bytes());
        }
        bytes
    });
    for track in 0..3 {
        let live = lab.text(&format!("clear/master.m3u8/live-{track}.m3u8"), NOON);
        assert!(
            live.contains("\n#EXT-X-TARGETDURATION:3\n"),
            "{track}: {}",
            &live[..200]
        );
    }
}

#[test]
fn tags_of_a_playlist_that_do_not_hold_for_its_loop_are_left_out() {
    let lab = Lab::new();
    let tags = "#EXTM3U\n#EXT-X-START:TIME-OFFSET=5\n#EXT-X-SESSION-KEY:METHOD=SAMPLE-AES,URI=\"key\"\n\
                #EXT-X-SESSION-DATA:DATA-ID=\"a\",VALUE=\"kept\"\n#EXT-X-SESSION-DATA:DATA-ID=\"b\",URI=\"x.json\"\n\
                #EXT-X-SESSION-KEY:METHOD=SAMPLE-AES,URI=\"skd://1\"\n#EXT-X-CONTENT-STEERING:SERVER-URI=\"/s\"\n";
    lab.replace("clear/master.m3u8", "#EXTM3U\n", &format!("\u{feff}{tags}"));
    let master = lab.text("clear/master.m3u8/live.m3u8", NOON);
    assert!(master.starts_with("#EXTM3U\n"), "{master}");
    for kept in ["VALUE=\"kept\"", "URI=\"skd://1\""] {
        assert!(master.contains(kept), "{kept} in {master}");
    }
    for gone in ["EXT-X-START", "URI=\"key\"", "x.json", "STEERING"] {
        assert!(!master.contains(gone), "{gone} in {master}");
    }
    // Of a media playlist: what holds for each segment stays, and a clip may say that it is clear.
    let tags = "\u{feff}#EXTM3U\n#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-KEY:METHOD=NONE\n";
    lab.replace("clear/video-180.m3u8", "#EXTM3U\n", tags);
    let live = lab.text("clear/master.m3u8/live-1.m3u8", NOON);
    assert!(
        live.contains("\n#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-MAP:"),
        "{}",
        &live[..200]
    );
    assert!(!live.contains("EXT-X-KEY"));
}
