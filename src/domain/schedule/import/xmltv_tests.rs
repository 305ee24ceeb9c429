use super::*;
use crate::schedule::details::{Credit, CreditKind};
use crate::schedule::import::repairs::Repair;
use crate::schedule::import::{PIECE_MAX, Skip};
use playgate_types::UnixSeconds;

fn options() -> XmltvOptions {
    XmltvOptions {
        zone: playgate_types::Zone::utc(),
        ignore_offsets: false,
        languages: Vec::new(),
        ratings: Arc::new(Ratings::built_in()),
        rating_system: None,
    }
}

fn read_with(text: &[u8], options: XmltvOptions) -> Result<Vec<GuideEvent>, GuideError> {
    let mut source = Xmltv::new(text, options);
    let mut events = Vec::new();
    while let Some(event) = source.next_event()? {
        events.push(event);
    }
    Ok(events)
}

fn read(text: &str) -> Result<Vec<GuideEvent>, GuideError> {
    read_with(text.as_bytes(), options())
}

/// Parses a guide with one programme that contains `inside`.
fn programme(inside: &str, options: XmltvOptions) -> GuideProgramme {
    let text =
        format!("<tv><programme channel=\"c\" start=\"20260822162500\">{inside}</programme></tv>");
    match read_with(text.as_bytes(), options).unwrap().remove(0) {
        GuideEvent::Programme(programme) => *programme,
        other => panic!("{other:?}"),
    }
}

const WHOLE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tv SYSTEM "xmltv.dtd">
<!-- made by hand -->
<tv generator-info-name="x">
  <channel id="one"><display-name>One &amp; Only</display-name>
    <icon src="https://example.test/a?b=1&amp;c=2"/></channel>
  <channel id="two"/>
  <programme start="20260822182500 +0200" stop="20260822190000 +0200" channel="one" showview="1">
    <title lang="sv">Nyheter</title>
    <title lang="en">News <![CDATA[& more <b>]]></title>
    <desc>First line
second &#233; &lt;tag&gt;</desc>
    <category>News</category><category>Weather</category><category>News</category>
    <icon src="https://example.test/wide.jpg" width="1920" height="1080"/>
    <icon src="https://example.test/poster.jpg" width="600" height="900"/>
    <rating system="FSK"><value>12</value><icon src="x"/></rating>
    <episode-num system="xmltv_ns">1.2.</episode-num>
    <credits><actor>Somebody</actor><title>no title</title></credits>
  </programme>
</tv>
"#;

#[test]
fn a_whole_programme_is_read() {
    let events = read(WHOLE).unwrap();
    assert_eq!(events.len(), 3);
    assert_eq!(
        events[0],
        GuideEvent::Channel(GuideChannel {
            line: 5,
            id: "one".to_owned(),
            name: Some("One & Only".to_owned()),
            icon: Some("https://example.test/a?b=1&c=2".to_owned()),
        })
    );
    let image = |kind: &str, default, filename: &str| Image {
        kind: kind.into(),
        default,
        filename: filename.into(),
        embedded_text: false,
    };
    let expected = GuideProgramme {
        line: 8,
        channel: "one".to_owned(),
        id: None,
        start: UnixSeconds(1_787_415_900),
        stop: Some(UnixSeconds(1_787_418_000)),
        repeated: RepeatedHour::default(),
        metadata: Metadata {
            title: "Nyheter".into(),
            description: Some("First line\nsecond é <tag>".into()),
            images: vec![
                image("sixteen-nine", true, "https://example.test/wide.jpg"),
                image("three-four", false, "https://example.test/poster.jpg"),
            ],
            categories: vec!["News".into(), "Weather".into()],
            pg_age: Some(12),
            rating: Some("FSK:12".into()),
            subtitle: None,
            season: Some(2),
            episode: Some(3),
            details: Details {
                credits: vec![Credit {
                    kind: CreditKind::Actor,
                    name: "Somebody".into(),
                    role: None,
                    guest: false,
                }],
                ..Details::default()
            }
            .boxed(),
        },
    };
    assert_eq!(events[2], GuideEvent::Programme(Box::new(expected)));
}

#[test]
fn the_preferred_language_wins() {
    let titles = "<title lang=\"sv\">S</title><title lang=\"en_GB\">E</title>\
                  <title lang=\"de\"/><title>X</title>";
    for (languages, title) in [
        (&[][..], "S"),
        (&["en"], "E"),
        (&["en-GB", "sv"], "E"),
        (&["en-US", "sv"], "S"),
        (&["de", "EN"], "E"),
        (&["fr"], "S"),
    ] {
        let mut options = options();
        options.languages = languages.iter().map(|&l| l.to_owned()).collect();
        assert_eq!(&*programme(titles, options).metadata.title, title);
    }
}

#[test]
fn the_highest_of_several_ratings_counts() {
    let rated = |ratings: &[(&str, &str)]| {
        let inside: String = ratings
            .iter()
            .map(|(system, value)| {
                format!("<rating system=\"{system}\"><value>{value}</value></rating>")
            })
            .collect();
        let metadata = programme(&inside, options()).metadata;
        (metadata.pg_age, metadata.rating.map(String::from))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(rated(&[]), (None, None));
    assert_eq!(
        rated(&[("FSK", "12"), ("BBFC", "15"), ("MPAA", "G")]),
        (Some(15), some("BBFC:15"))
    );
    assert_eq!(rated(&[("Mars", "M")]), (None, some("Mars:M")));
    assert_eq!(
        rated(&[("Mars", "M"), ("FSK", "0")]),
        (Some(0), some("FSK:0"))
    );
    assert_eq!(rated(&[("", "16+")]), (Some(16), some("16+")));
}

#[test]
fn unusable_rows_are_reported_with_their_line() {
    let text = "<tv>\n<programme channel=\"a\"><title>x</title></programme>\n\
                <programme channel=\"a\" start=\"tomorrow\"/>\n\
                <programme start=\"20260101\"/>\n\
                <programme channel=\"a\" start=\"20260101\" stop=\"?\"/>\n\
                <programme channel=\"a\" start=\"20260101\" stop=\"\"/>\n<channel/></tv>";
    let problem = |line, kind| GuideProblem::new(line, kind);
    let events = read(text).unwrap();
    for (event, expected) in events.iter().zip([
        problem(2, Skip::BadTime).of_channel("a").quoting(""),
        problem(3, Skip::BadTime)
            .of_channel("a")
            .quoting("tomorrow"),
        problem(4, Skip::BadChannel),
        problem(5, Skip::BadTime).of_channel("a").quoting("?"),
    ]) {
        assert_eq!(*event, GuideEvent::Problem(expected));
    }
    assert!(matches!(&events[4], GuideEvent::Programme(p) if p.stop.is_none() && p.line == 6));
    assert_eq!(events[5], GuideEvent::Problem(problem(7, Skip::BadChannel)));
}

#[test]
fn a_truncated_guide_is_rejected() {
    let end = WHOLE.trim_end().len();
    let at_title = WHOLE.find("<title").unwrap();
    let cut = read(&WHOLE[..at_title]);
    assert_eq!(cut, Err(GuideError::Truncated { line: 9 }));
    for cut in 0..end {
        if WHOLE.is_char_boundary(cut) {
            let read = read(&WHOLE[..cut]);
            assert!(read.is_err(), "{cut}: {read:?}");
        }
    }
}

#[test]
fn other_documents_are_rejected() {
    for (text, not_a_guide) in [
        ("", true),
        ("hello", true),
        ("{\"a\": []}", true),
        ("<html><body></body></html>", true),
        ("<?xml version=\"1.0\"?>", true),
        ("<tv><programme></tv>", false),
        ("<tv></tv><tv></tv>", false),
        ("<tv></tv>text", false),
        ("<tv><!what></tv>", false),
    ] {
        match read(text) {
            Err(GuideError::NotAGuide(_)) => assert!(not_a_guide, "{text}"),
            Err(GuideError::Broken { line: 1, .. }) => assert!(!not_a_guide, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    let latin1 = b"<tv>\n<channel id=\"a\"><display-name>T\xe9l\xe9</display-name></channel></tv>";
    let refused = read_with(latin1, options());
    assert!(matches!(refused, Err(GuideError::Broken { line: 2, .. })));
}

#[test]
fn an_ampersand_without_a_reference_is_kept_and_counted() {
    let text = "<tv><channel id=A&E><display-name>AT&T</display-name></channel>\n\
                <programme channel=\"A&E\" start=\"20260101\"><title>R&B & more; &amp; &eacute;</title>\
                <desc><p>One</p><b>two</b></desc><icon src=\"http://x/?a=1&copy=2\"/></programme></tv>";
    let mut source = Xmltv::new(text.as_bytes(), options());
    let Some(GuideEvent::Channel(channel)) = source.next_event().unwrap() else {
        panic!("no channel");
    };
    assert_eq!(
        (&*channel.id, channel.name.as_deref()),
        ("A&E", Some("AT&T"))
    );
    let Some(GuideEvent::Programme(programme)) = source.next_event().unwrap() else {
        panic!("no programme");
    };
    assert_eq!(programme.channel, "A&E");
    assert_eq!(&*programme.metadata.title, "R&B & more; & é");
    assert_eq!(programme.metadata.description.as_deref(), Some("One\ntwo"));
    assert_eq!(
        &*programme.metadata.images[0].filename,
        "http://x/?a=1&copy=2"
    );
    assert_eq!(source.next_event().unwrap(), None);
    assert_eq!(source.repairs().count(Repair::BareAmpersand), 6);
    assert_eq!(source.repairs().count(Repair::Markup), 1);
}

#[test]
fn a_fault_names_what_to_write() {
    for (text, what) in [
        (
            "<tv><channel><display-name>I <3 you</display-name></channel></tv>",
            "write `&lt;`",
        ),
        (
            "<tv><channel></display-name></channel></tv>",
            "expected the end of `channel`",
        ),
        ("<tv></tv></b>", "`</b>` ends an element that is not open"),
        ("<tv><!what></tv>", "`<!` begins neither"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(what), "{text}: {error}");
    }
}

#[test]
fn entities_of_the_document_are_never_expanded() {
    let mut text = String::from("<!DOCTYPE tv [\n<!ENTITY l0 \"laugh\">\n");
    for n in 1..10 {
        let last = n - 1;
        text += &format!("<!ENTITY l{n} \"{}\">\n", format!("&l{last};").repeat(10));
    }
    text += "<!ENTITY file SYSTEM \"file:///etc/passwd\">]>\n<tv>\
             <programme channel=\"c\" start=\"20260101\"><title>&l9; &file;</title>\
             <icon src=\"&l9;\"/></programme></tv>";
    let GuideEvent::Programme(programme) = read(&text).unwrap().remove(0) else {
        panic!("no programme");
    };
    assert_eq!(&*programme.metadata.title, "&l9; &file;");
    assert_eq!(&*programme.metadata.images[0].filename, "&l9;");
}

#[test]
fn endless_elements_and_depths_are_rejected() {
    let too_large = |text: String| matches!(read(&text), Err(GuideError::TooLarge(_)));
    let x = "x".repeat(PIECE_MAX + 1);
    assert!(too_large(format!("<tv><a b=\"{x}\"/></tv>")));
    assert!(too_large(format!("<tv><a>{x}</a></tv>")));
    assert!(too_large(format!("<tv><!-- {x} --></tv>")));
    assert!(too_large(format!("<!DOCTYPE tv [{x}]><tv/>")));
    assert!(too_large(format!("<tv>{}", "<a>".repeat(65))));
    // Each reference counts as a piece; the collected text has its own limit.
    let long = programme(
        &format!("<title>{}</title>", "&amp;".repeat(200_000)),
        options(),
    );
    assert!(long.metadata.title.len() < 100_000);
}

#[test]
fn control_characters_and_space_around_are_dropped() {
    let metadata = programme("<title> \n A&#1;B\tC </title><desc>  </desc>", options()).metadata;
    assert_eq!(&*metadata.title, "AB\tC");
    assert_eq!(metadata.description, None);
}

#[test]
fn characters_that_separate_words_keep_them_apart() {
    for (written, read) in [
        ("one\rtwo", "one\ntwo"),
        ("one\r\ntwo", "one\ntwo"),
        ("one&#13;two", "one\ntwo"),
        ("one&#13;&#10;two", "one\ntwo"),
        ("one\u{85}two", "one…two"),
        ("&#146;&#x93;\u{94}", "’“”"),
        ("<![CDATA[one\rtwo]]>", "one\ntwo"),
        ("one&#12;two&#13;", "one two"),
    ] {
        let metadata = programme(&format!("<title>{written}</title>"), options()).metadata;
        assert_eq!(&*metadata.title, read, "{written:?}");
    }
}
