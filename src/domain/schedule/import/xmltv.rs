//! XMLTV decoder: a [`GuideEvents`] that streams elements and keeps none.
//!
//! Entities that a document type declares are never expanded, fetched or looked up. This prevents both exponential
//! expansion ("billion laughs") and access to external resources.

use std::io::Read;
use std::sync::Arc;

use quick_xml::events::{BytesStart, Event};

use super::episode::EpisodeNumber;
use super::repairs::Repairs;
use super::xml_cursor::XmlCursor;
use super::{
    GuideChannel, GuideError, GuideEvent, GuideEvents, GuideProblem, GuideProgramme, RepeatedHour,
    Skip, xmltv_details,
};
use crate::schedule::details::Details;
use crate::schedule::import::xmltv_time;
use crate::schedule::model::{Image, Metadata};
use crate::schedule::ratings::Ratings;
use crate::schedule::text_limits::{CATEGORIES_MAX, IMAGES_MAX};
use playgate_types::Zone;

#[derive(Debug, Clone)]
pub struct XmltvOptions {
    pub zone: Zone,
    /// Treats all times as local in `zone`: some guides write local times with a wrong offset.
    pub ignore_offsets: bool,
    /// In order of preference. Without a match, the first text in the file is used.
    pub languages: Vec<String>,
    pub ratings: Arc<Ratings>,
    /// The system of ratings that name none.
    pub rating_system: Option<String>,
}

pub struct Xmltv<R> {
    cursor: XmlCursor<R>,
    options: XmltvOptions,
    begun: bool,
}

impl<R: Read> Xmltv<R> {
    pub fn new(source: R, options: XmltvOptions) -> Self {
        Self {
            cursor: XmlCursor::new(source),
            options,
            begun: false,
        }
    }

    fn begin(&mut self) -> Result<(), GuideError> {
        loop {
            match self.cursor.next()? {
                Event::Start(root) if root.name().as_ref() == "tv" => break,
                Event::Start(root) => {
                    // Cut, since it goes into a message.
                    let name: String = root.name().as_ref().chars().take(40).collect();
                    return Err(GuideError::NotAGuide(format!(
                        "its root element is `{name}`, not `tv`"
                    )));
                }
                Event::Eof => return Err(GuideError::NotAGuide("it has no element".to_owned())),
                Event::Text(text) if !text.trim().is_empty() => {
                    return Err(GuideError::NotAGuide("it is not XML".to_owned()));
                }
                _ => {}
            }
        }
        self.begun = true;
        Ok(())
    }

    fn channel(&mut self, line: u64, id: Option<String>) -> Result<GuideEvent, GuideError> {
        let mut names = Best::new(&self.options.languages);
        let mut icon = None;
        while let Some(child) = self.cursor.child()? {
            match child.name().as_ref() {
                "display-name" => {
                    let lang = self.cursor.attribute(&child, "lang");
                    let text = self.cursor.text()?;
                    names.offer(lang.as_deref(), text);
                }
                "icon" => {
                    icon = icon.or_else(|| self.cursor.attribute(&child, "src"));
                    self.cursor.skip()?;
                }
                _ => self.cursor.skip()?,
            }
        }
        let name = names.finish();
        Ok(match id.filter(|id| !id.is_empty()) {
            Some(id) => GuideEvent::Channel(GuideChannel {
                line,
                id,
                name,
                icon,
            }),
            None => GuideEvent::Problem(GuideProblem::new(line, Skip::BadChannel)),
        })
    }

    fn programme(&mut self, line: u64, head: ProgrammeHead) -> Result<GuideEvent, GuideError> {
        // Read to its end even if the row is unusable, so that the next one is found.
        let metadata = self.metadata()?;
        let problem = |problem| Ok(GuideEvent::Problem(problem));
        let Some(channel) = head.channel.filter(|id| !id.is_empty()) else {
            return problem(GuideProblem::new(line, Skip::BadChannel));
        };
        let options = &self.options;
        let parse = |text: &str| match options.ignore_offsets {
            true => xmltv_time::parse_local(text, options.zone),
            false => xmltv_time::parse(text, options.zone),
        };
        let bad_time = |text: &str| {
            GuideProblem::new(line, Skip::BadTime)
                .of_channel(&channel)
                .quoting(text)
        };
        let start = head.start.unwrap_or_default();
        let Some(start) = parse(&start) else {
            return problem(bad_time(&start));
        };
        // An empty stop counts as missing.
        let stop = match head.stop.filter(|text| !text.trim().is_empty()) {
            None => None,
            Some(text) => match parse(&text) {
                Some(stop) => Some(stop),
                None => return problem(bad_time(&text)),
            },
        };
        Ok(GuideEvent::Programme(Box::new(GuideProgramme {
            line,
            channel,
            id: None,
            start: start.at,
            stop: stop.map(|stop| stop.at),
            repeated: RepeatedHour {
                start: start.later,
                stop: stop.and_then(|stop| stop.later),
            },
            metadata,
        })))
    }

    fn metadata(&mut self) -> Result<Metadata, GuideError> {
        let mut titles = Best::new(&self.options.languages);
        let mut descriptions = Best::new(&self.options.languages);
        let mut subtitles = Best::new(&self.options.languages);
        let mut number = EpisodeNumber::default();
        let mut metadata = Metadata::default();
        let mut details = Details::default();
        while let Some(child) = self.cursor.child()? {
            match child.name().as_ref() {
                kind @ ("title" | "sub-title" | "desc") => {
                    let best = match kind {
                        "title" => &mut titles,
                        "sub-title" => &mut subtitles,
                        _ => &mut descriptions,
                    };
                    let lang = self.cursor.attribute(&child, "lang");
                    best.offer(lang.as_deref(), self.cursor.text()?);
                }
                "episode-num" => {
                    let system = self.cursor.attribute(&child, "system").unwrap_or_default();
                    number.offer(&system, &self.cursor.text()?);
                }
                "category" => {
                    let text = self.cursor.text()?;
                    add_category(&mut metadata, &text);
                }
                "icon" => {
                    add_image(&mut metadata, &mut self.cursor, &child);
                    self.cursor.skip()?;
                }
                "rating" => {
                    let system = self.cursor.attribute(&child, "system");
                    let system = system.filter(|system| !system.is_empty());
                    let system = system.or_else(|| self.options.rating_system.clone());
                    if let Some(value) = rating_value(&mut self.cursor)? {
                        let system = system.unwrap_or_default();
                        add_rating(&mut metadata, &self.options.ratings, &system, &value);
                    }
                }
                _ => {
                    let zone = self.options.zone;
                    xmltv_details::read(&mut details, (&mut self.cursor, &child), zone)?;
                }
            }
        }
        metadata.details = details.boxed();
        metadata.title = titles.finish().unwrap_or_default().into();
        metadata.description = descriptions.finish().map(Into::into);
        metadata.subtitle = subtitles.finish().map(Into::into);
        (metadata.season, metadata.episode) = (number.season, number.episode);
        Ok(metadata)
    }
}

struct ProgrammeHead {
    channel: Option<String>,
    start: Option<String>,
    stop: Option<String>,
}

impl ProgrammeHead {
    fn read<R: Read>(cursor: &mut XmlCursor<R>, element: &BytesStart<'_>) -> Self {
        Self {
            channel: cursor.attribute(element, "channel"),
            start: cursor.attribute(element, "start"),
            stop: cursor.attribute(element, "stop"),
        }
    }
}

impl<R: Read> GuideEvents for Xmltv<R> {
    fn next_event(&mut self) -> Result<Option<GuideEvent>, GuideError> {
        if !self.begun {
            self.begin()?;
        }
        while let Some(child) = self.cursor.child()? {
            match child.name().as_ref() {
                "channel" => {
                    let id = self.cursor.attribute(&child, "id");
                    let line = self.cursor.line();
                    return self.channel(line, id).map(Some);
                }
                "programme" => {
                    let head = ProgrammeHead::read(&mut self.cursor, &child);
                    let line = self.cursor.line();
                    return self.programme(line, head).map(Some);
                }
                _ => self.cursor.skip()?,
            }
        }
        // A guide that is followed by something else is not complete.
        self.cursor.finish()?;
        Ok(None)
    }

    fn repairs(&self) -> Repairs {
        self.cursor.repairs.clone()
    }
}

fn rating_value<R: Read>(cursor: &mut XmlCursor<R>) -> Result<Option<String>, GuideError> {
    let mut value = None;
    while let Some(child) = cursor.child()? {
        if child.name().as_ref() == "value" {
            value = Some(cursor.text()?);
        } else {
            cursor.skip()?;
        }
    }
    Ok(value.filter(|text| !text.is_empty()))
}

struct Best<'a> {
    languages: &'a [String],
    rank: usize,
    text: Option<String>,
}

impl<'a> Best<'a> {
    fn new(languages: &'a [String]) -> Self {
        Self {
            languages,
            rank: usize::MAX,
            text: None,
        }
    }

    fn offer(&mut self, lang: Option<&str>, text: String) {
        if text.is_empty() {
            return;
        }
        let rank = lang
            .and_then(|lang| {
                self.languages
                    .iter()
                    .position(|wanted| matches_language(lang, wanted))
            })
            .unwrap_or(self.languages.len());
        // The first text of a language wins, as in the file.
        if self.text.is_none() || rank < self.rank {
            self.rank = rank;
            self.text = Some(text);
        }
    }

    fn finish(self) -> Option<String> {
        self.text
    }
}

/// `lang` has a form such as `en`, `en_NZ` or `en-GB`.
fn matches_language(lang: &str, wanted: &str) -> bool {
    let primary = |tag: &str| {
        tag.split(['-', '_'])
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase()
    };
    // A preference without a region matches every region.
    let exact = wanted.contains(['-', '_']);
    if exact {
        lang.replace('_', "-")
            .eq_ignore_ascii_case(&wanted.replace('_', "-"))
    } else {
        primary(lang) == primary(wanted)
    }
}

fn add_category(metadata: &mut Metadata, text: &str) {
    let known = metadata.categories.iter().any(|known| &**known == text);
    // One more than the limit shows that something is cut.
    if !text.is_empty() && !known && metadata.categories.len() <= CATEGORIES_MAX {
        metadata.categories.push(text.into());
    }
}

fn add_image<R: Read>(metadata: &mut Metadata, cursor: &mut XmlCursor<R>, icon: &BytesStart<'_>) {
    let Some(filename) = cursor.attribute(icon, "src").filter(|src| !src.is_empty()) else {
        return;
    };
    if metadata.images.len() > IMAGES_MAX {
        return;
    }
    let mut side = |name| {
        cursor
            .attribute(icon, name)
            .and_then(|text| text.trim().parse().ok())
    };
    let size = side("width").zip(side("height"));
    metadata.images.push(Image {
        kind: Image::kind_of(size).into(),
        // The first image is the default, as guides list it first.
        default: metadata.images.is_empty(),
        filename: filename.into(),
        embedded_text: false,
    });
}

fn add_rating(metadata: &mut Metadata, ratings: &Ratings, system: &str, value: &str) {
    let source = || {
        Some(match system {
            "" => value.into(),
            _ => format!("{system}:{value}").into(),
        })
    };
    // A number without a system is the age itself.
    let is_age = system.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    match ratings.age(system, value) {
        // The highest age of several ratings counts: asking a child for a PIN is better than letting it in.
        Some(age) if metadata.pg_age.is_none_or(|known| age > known) => {
            metadata.pg_age = Some(age);
            metadata.rating = if is_age { None } else { source() };
        }
        None if metadata.rating.is_none() => metadata.rating = source(),
        _ => {}
    }
}

#[cfg(test)]
#[path = "xmltv_tests.rs"]
mod tests;
