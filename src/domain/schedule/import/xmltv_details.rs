//! Reads the elements of a programme that recorders and players use: credits, date, flags, earlier showings and images.

use std::io::Read;

use quick_xml::events::BytesStart;

use super::GuideError;
use super::repairs::Repair;
use super::xml_cursor::XmlCursor;
use super::xmltv_time;
use crate::schedule::details::{
    Credit, CreditKind, Details, ImagePurpose, PreviousShowing, TypedImage, calendar_date,
};
use playgate_types::Zone;

/// Elements within a person, which are not part of the name.
const WITHIN_PERSON: [&str; 2] = ["image", "url"];

/// Reads one element; another one is skipped.
pub(super) fn read<R: Read>(
    details: &mut Details,
    (cursor, element): (&mut XmlCursor<R>, &BytesStart<'_>),
    zone: Zone,
) -> Result<(), GuideError> {
    match element.name().as_ref() {
        "credits" => credits(details, cursor)?,
        "date" => {
            let text = cursor.text()?;
            let date = calendar_date(&text);
            // Some guides write an empty one for each programme.
            if date.is_none() && !text.is_empty() {
                left_out(cursor);
            }
            details.date = details.date.take().or(date);
        }
        "new" => details.is_new |= flag(cursor)?,
        "live" => details.is_live |= flag(cursor)?,
        "premiere" => details.is_premiere |= flag(cursor)?,
        "previously-shown" => {
            let start = cursor.attribute(element, "start");
            let start = start.filter(|start| !start.is_empty());
            let known = start.as_deref().and_then(|text| showing_time(text, zone));
            if start.is_some() && known.is_none() {
                left_out(cursor);
            }
            let channel = cursor.attribute(element, "channel");
            details.previously_shown.get_or_insert(PreviousShowing {
                start: known,
                channel: channel.filter(|id| !id.is_empty()).map(Into::into),
            });
            cursor.skip()?;
        }
        "image" => image(details, cursor, element)?,
        _ => cursor.skip()?,
    }
    Ok(())
}

fn left_out<R: Read>(cursor: &mut XmlCursor<R>) {
    let line = cursor.line();
    cursor.repairs.add(Repair::Detail, line);
}

/// The element alone is the flag. Some programs write `<new>false</new>`.
fn flag<R: Read>(cursor: &mut XmlCursor<R>) -> Result<bool, GuideError> {
    let text = cursor.text()?.to_ascii_lowercase();
    Ok(!["false", "no", "0"].contains(&text.as_str()))
}

fn credits<R: Read>(details: &mut Details, cursor: &mut XmlCursor<R>) -> Result<(), GuideError> {
    while let Some(person) = cursor.child()? {
        let Some(kind) = CreditKind::parse(person.name().as_ref()) else {
            cursor.skip()?;
            continue;
        };
        let role = cursor.attribute(&person, "role");
        let guest = cursor.attribute(&person, "guest");
        let guest = guest.is_some_and(|guest| ["yes", "true", "1"].contains(&guest.as_str()));
        let name = cursor.text_without(&WITHIN_PERSON)?;
        if !name.is_empty() {
            details.add_credit(Credit {
                kind,
                name: name.into(),
                role: role.filter(|role| !role.is_empty()).map(Into::into),
                guest,
            });
        }
    }
    Ok(())
}

fn image<R: Read>(
    details: &mut Details,
    cursor: &mut XmlCursor<R>,
    element: &BytesStart<'_>,
) -> Result<(), GuideError> {
    let [purpose, size, orient, src] =
        ["type", "size", "orient", "src"].map(|name| cursor.attribute(element, name));
    let text = cursor.text()?;
    let filename = Some(text).filter(|text| !text.is_empty()).or(src);
    if let Some(filename) = filename.filter(|filename| !filename.is_empty()) {
        let size = size.and_then(|size| size.trim().parse().ok());
        let orient = orient.and_then(|orient| orient.trim().chars().next());
        details.add_image(TypedImage {
            filename: filename.into(),
            purpose: purpose.as_deref().and_then(ImagePurpose::parse),
            size: size.filter(|size| (1..=3).contains(size)),
            is_upright: match orient {
                Some('P' | 'p') => Some(true),
                Some('L' | 'l') => Some(false),
                _ => None,
            },
        });
    }
    Ok(())
}

/// A date, or a time in UTC where the text has one.
fn showing_time(text: &str, zone: Zone) -> Option<Box<str>> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let has_time = digits >= 10 || text.contains(':');
    let time = has_time
        .then(|| xmltv_time::parse(text, zone))
        .flatten()
        .and_then(|time| chrono::DateTime::from_timestamp(time.at.0, 0))
        .map(|time| time.format("%Y-%m-%dT%H:%M:%SZ").to_string().into());
    time.or_else(|| calendar_date(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(inside: &str) -> (Details, u64) {
        let document = format!("<programme>{inside}</programme>");
        let mut cursor = XmlCursor::new(document.as_bytes());
        cursor.next().unwrap();
        let mut details = Details::default();
        while let Some(child) = cursor.child().unwrap() {
            read(&mut details, (&mut cursor, &child), Zone::utc()).unwrap();
        }
        (details, cursor.repairs.count(Repair::Detail))
    }

    #[test]
    fn credits_have_their_kinds_roles_and_guests() {
        let (details, _) = read_all(
            "<credits><director>A. Bee</director><actor role=\"Cook\" guest=\"yes\">C. Dee\
             <image type=\"person\">https://i/1</image><url>https://u</url></actor><actor role=\"\">R&amp;D <b>E</b></actor>\
             <stuntman>Nobody</stuntman><guest/><presenter>P</presenter><actor role=\"Cook\" guest=\"yes\">C. Dee</actor>\
             </credits><credits><guest>G</guest></credits>",
        );
        let credits = details.credits.iter().map(|credit| {
            let role = credit.role.as_deref().unwrap_or("-");
            format!(
                "{} {} {role} {}",
                credit.kind.as_str(),
                credit.name,
                credit.guest
            )
        });
        assert_eq!(
            credits.collect::<Vec<_>>(),
            [
                "director A. Bee - false",
                "actor C. Dee Cook true",
                "actor R&D E - false",
                "presenter P - false",
                "guest G - false",
            ]
        );
    }

    #[test]
    fn flags_dates_and_earlier_showings_are_read_and_what_is_none_is_counted() {
        let (details, left_out) = read_all(
            "<new/><premiere lang=\"en\">First on air</premiere><live>false</live><date>19990103</date><date>2001</date>\
             <previously-shown start=\"20200101203000 +0100\" channel=\"x\"/>",
        );
        assert!(details.is_new && details.is_premiere && !details.is_live);
        assert_eq!(details.date.as_deref(), Some("1999-01-03"));
        let shown = details.previously_shown.unwrap();
        assert_eq!(shown.start.as_deref(), Some("2020-01-01T19:30:00Z"));
        assert_eq!(shown.channel.as_deref(), Some("x"));
        assert_eq!(left_out, 0);
        for (start, read) in [
            ("20200101", Some("2020-01-01")),
            ("2020", Some("2020")),
            ("19580101203000", Some("1958-01-01")),
            ("2020-01-01T20:30:00+01:00", Some("2020-01-01T19:30:00Z")),
            ("yesterday", None),
            ("", None),
        ] {
            let (details, left_out) = read_all(&format!(
                "<previously-shown start=\"{start}\"/><date>{start}</date>"
            ));
            let shown = details.previously_shown.unwrap();
            assert_eq!(shown.start.as_deref(), read, "{start}");
            let is_wrong = read.is_none() && !start.is_empty();
            assert_eq!(left_out, if is_wrong { 2 } else { 0 }, "{start}");
        }
        let (details, _) = read_all("<previously-shown/>");
        assert_eq!(details.previously_shown, Some(PreviousShowing::default()));
    }

    #[test]
    fn images_have_their_purpose_and_direction() {
        let (details, _) = read_all(
            "<image type=\"poster\" size=\"3\" orient=\"P\">https://i/p</image><image type=\"Backdrop\">https://i/b</image>\
             <image type=\"logo\" size=\"9\" orient=\"l\">https://i/l</image><image/><image src=\"https://i/s\"/>\
             <image>https://i/p</image>",
        );
        let images = details.images.iter().map(|image| {
            let purpose = image.purpose.map(ImagePurpose::as_str);
            (&*image.filename, purpose, image.size, image.kind())
        });
        assert_eq!(
            images.collect::<Vec<_>>(),
            [
                ("https://i/p", Some("poster"), Some(3), "three-four"),
                ("https://i/b", Some("backdrop"), None, "sixteen-nine"),
                ("https://i/l", None, None, "sixteen-nine"),
                ("https://i/s", None, None, "sixteen-nine"),
            ]
        );
    }
}
