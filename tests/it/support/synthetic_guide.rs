//! Generates guides of any size for tests and benchmarks. 500 channels with 456 programmes each are two weeks, or 143
//! MB of XMLTV.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// Formats a time as in XMLTV, in UTC and without a zone.
pub fn xmltv_time(at: i64) -> String {
    let at = chrono::DateTime::from_timestamp(at, 0).expect("in range");
    at.format("%Y%m%d%H%M%S").to_string()
}

#[derive(Clone, Copy)]
pub struct SyntheticGuide {
    /// Their ids are `channel-0`, `channel-1`, …
    pub channels: usize,
    /// Programmes of each channel, 40 to 50 minutes long.
    pub programmes: usize,
    /// The delay of every tenth programme in seconds, as in an updated guide.
    pub shift: i64,
    /// The first word of every title. Another word makes another guide.
    pub word: &'static str,
    /// The start of the first programme, in Unix seconds.
    pub first: i64,
}

impl SyntheticGuide {
    /// Writes the guide in order of time over all channels, as many grabbers do.
    pub fn write(&self, path: &Path) {
        let mut out = BufWriter::new(File::create(path).expect("the folder can be written"));
        let stamp = |at: i64| format!("{} +0000", xmltv_time(at));
        let text = "A sentence about what happens in this programme, and another one. ".repeat(3);
        let mut write = |piece: String| out.write_all(piece.as_bytes()).expect("space");
        write("<?xml version=\"1.0\"?>\n<!DOCTYPE tv SYSTEM \"xmltv.dtd\">\n<tv>\n".to_owned());
        for channel in 0..self.channels {
            write(format!(
                "<channel id=\"channel-{channel}\"><display-name>Channel {channel}</display-name></channel>\n"
            ));
        }
        let mut at = self.first;
        for row in 0..self.programmes {
            let length = 2_400 + i64::try_from(row % 7).unwrap_or(0) * 100;
            let moved = if row % 10 == 3 { self.shift } else { 0 };
            let (start, stop) = (stamp(at + moved), stamp(at + length));
            for channel in 0..self.channels {
                write(format!(
                    "  <programme start=\"{start}\" stop=\"{stop}\" channel=\"channel-{channel}\">\n    \
                     <title lang=\"en\">{} {row} of {channel}</title>\n    \
                     <desc lang=\"en\">{text}{row}</desc>\n    <category>Series</category>\n    \
                     <icon src=\"https://images.example.test/programme/{channel}/{row}/wide.jpg\" \
                     width=\"1920\" height=\"1080\"/>\n    \
                     <episode-num system=\"xmltv_ns\">{row}.{channel}.</episode-num>\n    \
                     <rating system=\"FSK\"><value>12</value></rating>\n  </programme>\n",
                    self.word,
                ));
            }
            at += length;
        }
        write("</tv>\n".to_owned());
    }
}
