//! What recorders and players use of a guide beside title and texts: who took part, the date of production, whether a
//! programme is new, live or a repeat, and images with their purpose.

use serde::{Deserialize, Serialize};

use super::text_limits::{FILENAME_MAX, IMAGES_MAX, LABEL_MAX, shorten};

pub(crate) const CREDITS_MAX: usize = 40;
/// Bytes of credits and images of a broadcast: a usual cast has 500. With the other texts, a broadcast stays below the
/// 16 KiB that the store accepts as one value.
pub(crate) const DETAILS_MAX: usize = 3 * 1024;
/// Bytes that an entry takes beside its texts: their lengths and its kind.
const ENTRY_BYTES: usize = 8;

/// In the order of XMLTV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CreditKind {
    Director,
    Actor,
    Writer,
    Adapter,
    Producer,
    Composer,
    Editor,
    Presenter,
    Commentator,
    Guest,
}

impl CreditKind {
    const ALL: [Self; 10] = [
        Self::Director,
        Self::Actor,
        Self::Writer,
        Self::Adapter,
        Self::Producer,
        Self::Composer,
        Self::Editor,
        Self::Presenter,
        Self::Commentator,
        Self::Guest,
    ];

    /// The name of the element in XMLTV and of the kind in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Director => "director",
            Self::Actor => "actor",
            Self::Writer => "writer",
            Self::Adapter => "adapter",
            Self::Producer => "producer",
            Self::Composer => "composer",
            Self::Editor => "editor",
            Self::Presenter => "presenter",
            Self::Commentator => "commentator",
            Self::Guest => "guest",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    pub kind: CreditKind,
    /// Never empty.
    pub name: Box<str>,
    /// The part that an actor plays.
    pub role: Option<Box<str>>,
    /// An actor who takes part in this episode only.
    pub guest: bool,
}

/// What an image shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImagePurpose {
    Poster,
    Backdrop,
    Still,
    Person,
    Character,
}

impl ImagePurpose {
    const ALL: [Self; 5] = [
        Self::Poster,
        Self::Backdrop,
        Self::Still,
        Self::Person,
        Self::Character,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Poster => "poster",
            Self::Backdrop => "backdrop",
            Self::Still => "still",
            Self::Person => "person",
            Self::Character => "character",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        let name = name.trim();
        Self::ALL
            .into_iter()
            .find(|purpose| purpose.as_str().eq_ignore_ascii_case(name))
    }
}

/// An `image` of XMLTV, which says more than an `icon`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypedImage {
    pub filename: Box<str>,
    pub purpose: Option<ImagePurpose>,
    /// 1 to 3: up to 200 pixels, up to 400, larger.
    pub size: Option<u8>,
    pub is_upright: Option<bool>,
}

impl TypedImage {
    /// The wire's `type`.
    pub const fn kind(&self) -> &'static str {
        let is_upright = match (self.is_upright, self.purpose) {
            (Some(is_upright), _) => is_upright,
            (None, Some(ImagePurpose::Poster | ImagePurpose::Person | ImagePurpose::Character)) => {
                true
            }
            (None, _) => false,
        };
        if is_upright {
            "three-four"
        } else {
            "sixteen-nine"
        }
    }
}

/// An earlier broadcast of the same programme, as far as the guide tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousShowing {
    /// A date such as `2020`, `2020-01` or `2020-01-31`, or a time such as `2020-01-31T20:00:00Z`.
    pub start: Option<Box<str>>,
    pub channel: Option<Box<str>>,
}

/// Boxed in the metadata: most broadcasts of most guides have none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// When it was made: `2020`, `2020-01` or `2020-01-31`.
    pub date: Option<Box<str>>,
    /// Shown for the first time, also of a series that was shown before.
    pub is_new: bool,
    pub is_live: bool,
    pub is_premiere: bool,
    pub previously_shown: Option<PreviousShowing>,
    /// In the order of the guide.
    pub credits: Vec<Credit>,
    pub images: Vec<TypedImage>,
}

impl Details {
    /// Leaves out a credit that is there already, since some guides repeat a cast in several languages.
    pub fn add_credit(&mut self, credit: Credit) {
        // The list is cut later. One more than its limit shows that something was cut.
        if self.credits.len() <= CREDITS_MAX && !self.credits.contains(&credit) {
            self.credits.push(credit);
        }
    }

    pub fn add_image(&mut self, image: TypedImage) {
        let known = |known: &TypedImage| known.filename == image.filename;
        if self.images.len() <= IMAGES_MAX && !self.images.iter().any(known) {
            self.images.push(image);
        }
    }

    /// `None` if there is nothing in it.
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// Shortens texts and lists to their limits. Returns whether anything was shortened.
    pub(super) fn bound(&mut self) -> bool {
        let mut cut = false;
        let previous = self.previously_shown.as_mut();
        if let Some(channel) = previous.and_then(|previous| previous.channel.as_mut()) {
            cut |= shorten(channel, LABEL_MAX);
        }
        for credit in &mut self.credits {
            cut |= shorten(&mut credit.name, LABEL_MAX);
            if let Some(role) = &mut credit.role {
                cut |= shorten(role, LABEL_MAX);
            }
        }
        let before = (self.images.len(), self.credits.len());
        // A truncated address would be another one.
        self.images
            .retain(|image| image.filename.len() <= FILENAME_MAX);
        self.images.truncate(IMAGES_MAX);
        self.credits.truncate(CREDITS_MAX);
        let mut left = DETAILS_MAX;
        // The first ones stay: guides begin with the most important.
        let mut fits = |bytes: usize| match left.checked_sub(bytes + ENTRY_BYTES) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        self.images.retain(|image| fits(image.filename.len()));
        let role = |credit: &Credit| credit.role.as_ref().map_or(0, |role| role.len());
        self.credits
            .retain(|credit| fits(credit.name.len() + role(credit)));
        cut | (before != (self.images.len(), self.credits.len()))
    }

    /// How much they say, to choose between two copies of a row.
    pub(super) fn fullness(&self) -> usize {
        let flags = [
            self.date.is_some(),
            self.is_new,
            self.is_live,
            self.is_premiere,
            self.previously_shown.is_some(),
        ];
        let flags = flags.into_iter().filter(|flag| *flag).count();
        flags + self.credits.len() + self.images.len()
    }
}

/// Reads a date as guides write it (`1999`, `19990103`, `1999-01-03`, with or without a time behind it) as `1999`,
/// `1999-01` or `1999-01-03`. What is impossible of it is left out: of `1999-2004` the first year stays.
pub fn calendar_date(text: &str) -> Option<Box<str>> {
    let text = text.trim();
    let end = text.find(['T', 't', ' ']).unwrap_or(text.len());
    let date = text.get(..end)?;
    let mut parts = date.split(['-', '/', '.']);
    let first = parts.next()?;
    let (year, month, day) = match (first.get(..4), first.get(4..)) {
        (Some(year), Some("")) => (year, parts.next(), parts.next()),
        (Some(year), Some(rest)) => (year, rest.get(..2), rest.get(2..4)),
        _ => return None,
    };
    let number = |digits: &str| {
        let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
        are_digits.then(|| digits.parse::<u32>().ok()).flatten()
    };
    let year = number(year).filter(|year| *year >= 1_000)?;
    let month = month.and_then(number).filter(|m| (1..=12).contains(m));
    let Some(month) = month else {
        return Some(format!("{year:04}").into());
    };
    let exists = |day: &u32| {
        let year = i32::try_from(year).unwrap_or(0);
        chrono::NaiveDate::from_ymd_opt(year, month, *day).is_some()
    };
    Some(match day.and_then(number).filter(exists) {
        Some(day) => format!("{year:04}-{month:02}-{day:02}").into(),
        None => format!("{year:04}-{month:02}").into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_read_as_far_as_it_is_one() {
        for (text, date) in [
            ("2026", Some("2026")),
            (" 1999 ", Some("1999")),
            ("199901", Some("1999-01")),
            ("19990103", Some("1999-01-03")),
            ("1999-1-3", Some("1999-01-03")),
            ("1999/01/03", Some("1999-01-03")),
            ("1999-01-03T20:00:00Z", Some("1999-01-03")),
            ("19990103200000 +0100", Some("1999-01-03")),
            ("1999-2004", Some("1999")),
            ("20260230", Some("2026-02")),
            ("20261301", Some("2026")),
            ("0000", None),
            ("", None),
            ("03/01/1999", None),
            ("c. 1999", None),
            ("199é", None),
            ("+999", None),
        ] {
            assert_eq!(calendar_date(text).as_deref(), date, "{text}");
        }
    }

    fn credit(kind: CreditKind, name: &str, role: Option<&str>) -> Credit {
        Credit {
            kind,
            name: name.into(),
            role: role.map(Into::into),
            guest: false,
        }
    }

    #[test]
    fn long_details_are_cut_and_a_usual_cast_is_kept() {
        let mut usual = Details::default();
        for number in 0..30 {
            let name = format!("First and Last Name {number}");
            usual.add_credit(credit(CreditKind::Actor, &name, Some("The part of a role")));
        }
        assert!(!usual.bound());
        assert_eq!(usual.credits.len(), 30);
        // The same credit again is no other one.
        usual.add_credit(usual.credits[0].clone());
        assert_eq!(usual.credits.len(), 30);

        let mut long = Details::default();
        for number in 0..200 {
            let name = format!("{number}{}", "ä".repeat(500));
            long.add_credit(credit(CreditKind::Actor, &name, Some(&name)));
            long.add_image(TypedImage {
                filename: format!("{number}{}", "f".repeat(number * 20)).into(),
                purpose: None,
                size: Some(3),
                is_upright: None,
            });
        }
        assert!(long.bound());
        assert_eq!(long.images.len(), IMAGES_MAX);
        let bytes = bincode::serde::encode_to_vec(&long, bincode::config::standard()).unwrap();
        assert!(bytes.len() <= DETAILS_MAX + 16, "{}", bytes.len());
        assert!(bytes.len() > DETAILS_MAX - 400, "{}", bytes.len());
        assert!(!long.bound());
        assert_eq!(Details::default().boxed(), None);
    }
}
