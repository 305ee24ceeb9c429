//! Tests of templates, built in and from a directory.

use std::fs;

use super::super::brand::Brand;
use super::super::template_text::TemplateValues;
use super::super::templates::Templates;
use super::*;

fn built_in() -> Templates {
    Templates::built_in(&Brand::default()).unwrap()
}

fn values() -> TemplateValues {
    TemplateValues {
        email: "o'hara&co@example.com".to_owned(),
        link: "https://x.example/?a=1&token=\"<t>\"".to_owned(),
        pin: "1234".to_owned(),
        minutes: "30".to_owned(),
        name: "Ann".to_owned(),
    }
}

#[test]
fn every_built_in_language_has_complete_templates() {
    let templates = built_in();
    for language in ["en", "sv", "de"] {
        for kind in MailKind::ALL {
            templates.check_complete(language, kind).unwrap();
            let mail = templates.render(kind, &[language], &values());
            let secret = match kind {
                MailKind::Reset => values().link,
                MailKind::Pin => values().pin,
                MailKind::PasswordChanged | MailKind::EmailChanged | MailKind::Test => {
                    String::new()
                }
            };
            assert!(mail.text.contains(&secret), "{language} {kind:?}");
            assert!(!mail.subject.contains('{') && !mail.text.contains('{'));
            assert!(mail.html.contains(&format!("<html lang=\"{language}\"")));
            for greeted in [&mail.text, &mail.html] {
                assert!(greeted.contains(" Ann,"), "{language} {kind:?}");
            }
            let nobody = TemplateValues {
                name: String::new(),
                ..values()
            };
            let mail = templates.render(kind, &[language], &nobody);
            let greeting = mail.text.lines().next().unwrap();
            assert!(
                greeting.ends_with(',') && !greeting.contains(" ,"),
                "{greeting}"
            );
        }
    }
}

#[test]
fn values_are_escaped_only_in_html() {
    let templates = built_in();
    let mail = templates.render(MailKind::Reset, &["en"], &values());
    assert!(mail.text.contains("?a=1&token=\"<t>\""));
    assert!(mail.html.contains("?a=1&amp;token=&quot;&lt;t&gt;&quot;"));
    assert!(mail.html.contains("o&#39;hara&amp;co@example.com"));
}

#[test]
fn nearest_language_is_used() {
    let templates = built_in();
    let subject = |languages: &[&str]| {
        templates
            .render(MailKind::Pin, languages, &values())
            .subject
    };
    assert_eq!(subject(&["sv-FI"]), "Din PIN-kod");
    assert_eq!(subject(&["fi", "de"]), "Ihr PIN-Code");
    assert_eq!(subject(&["fi"]), "Your PIN code");
    assert_eq!(subject(&[]), "Your PIN code");
}

#[test]
fn a_directory_overrides_and_adds() {
    let directory = tempfile::tempdir().unwrap();
    let fi = directory.path().join("fi");
    fs::create_dir(&fi).unwrap();
    fs::write(
        fi.join("pin.txt"),
        "Subject: PIN-koodi\r\n\r\n{pin} { x }\r\n",
    )
    .unwrap();
    let mut templates = built_in();
    templates.read_directory(directory.path()).unwrap();
    let mail = templates.render(MailKind::Pin, &["fi"], &values());
    assert!(mail.html.contains("<html lang=\"fi\"") && mail.html.contains(">1234 { x }</p>"));
    fs::write(fi.join("pin.html"), "<style>p{color:red}</style>").unwrap();
    let error = templates.read_directory(directory.path()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "fi/pin.html: has no `{pin}`; the mail would be useless without it"
    );
    fs::write(fi.join("rest.txt"), "Subject: a\n\nb").unwrap();
    let error = templates.read_directory(directory.path()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("fi/rest.txt: unknown kind of mail")
    );
    fs::remove_file(fi.join("rest.txt")).unwrap();
    fs::write(fi.join("pin.html"), "<style>p{color:red}</style>{pin}").unwrap();
    templates.read_directory(directory.path()).unwrap();
    let mail = templates.render(MailKind::Pin, &["fi"], &values());
    assert_eq!(mail.subject, "PIN-koodi");
    assert_eq!(mail.text, "1234 { x }\n");
    assert_eq!(mail.html, "<style>p{color:red}</style>1234");
    fs::remove_file(fi.join("pin.txt")).unwrap();
    let error = built_in().read_directory(directory.path()).unwrap_err();
    assert_eq!(error.to_string(), "fi/pin.txt: is missing");
    // A text without HTML replaces the built-in HTML too: both parts say the same.
    let sv = directory.path().join("sv");
    fs::create_dir(&sv).unwrap();
    fs::remove_dir_all(&fi).unwrap();
    fs::write(sv.join("pin.txt"), "Subject: Kod\n\nKoden:\n\n{pin}").unwrap();
    let mut templates = built_in();
    templates.read_directory(directory.path()).unwrap();
    let mail = templates.render(MailKind::Pin, &["sv"], &values());
    assert!(mail.html.contains("Koden:") && !mail.html.contains("barnlåset"));
}

#[test]
fn placeholder_in_a_subject_is_sent_as_it_stands() {
    let directory = tempfile::tempdir().unwrap();
    let en = directory.path().join("en");
    fs::create_dir(&en).unwrap();
    let mut templates = built_in();
    for subject in ["A PIN for {email}: {pin}", "{Acme} PIN", "PIN }"] {
        fs::write(en.join("pin.txt"), format!("Subject: {subject}\n\n{{pin}}")).unwrap();
        templates.read_directory(directory.path()).unwrap();
        let mail = templates.render(MailKind::Pin, &["en"], &values());
        assert_eq!(mail.subject, subject);
    }
}

#[test]
fn invalid_template_is_reported_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let en = directory.path().join("en");
    fs::create_dir(&en).unwrap();
    let mut templates = built_in();
    for (text, what) in [
        (
            "Subject: a\n\n{nmae}",
            "en/pin.txt: unknown placeholder `{nmae}`",
        ),
        (
            "Hello",
            "en/pin.txt: must begin with `Subject: …` and an empty line",
        ),
        (
            "Subject: a\nBcc: b\n\nc",
            "en/pin.txt: must begin with `Subject: …` and an empty line",
        ),
    ] {
        fs::write(en.join("pin.txt"), text).unwrap();
        let error = templates.read_directory(directory.path()).unwrap_err();
        assert_eq!(error.to_string(), what);
    }
}
