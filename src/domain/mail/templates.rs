//! Mail templates by language, built in and from a directory.
//!
//! A text template begins with `Subject: …` and an empty line. `{email}`, `{link}`, `{pin}` and `{minutes}` are
//! placeholders; the HTML part escapes their values. No profile text of a user goes into a mail: an attacker
//! could sign up with another person's address and write to them.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use super::model::MailKind;
use playgate_types::html_escape::escape;

/// In bytes.
const FILE_MAX: u64 = 256 * 1024;
/// The language of last resort. It has a template of every kind.
const FALLBACK: &str = "en";

#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("{file}: {source}")]
    Unreadable { file: String, source: io::Error },
    #[error("{file}: {what}")]
    Wrong { file: String, what: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Email,
    Link,
    Pin,
    Minutes,
}

#[derive(Default)]
pub(super) struct TemplateValues {
    pub(super) email: String,
    pub(super) link: String,
    pub(super) pin: String,
    pub(super) minutes: String,
}

impl TemplateValues {
    fn get(&self, name: Name) -> &str {
        match name {
            Name::Email => &self.email,
            Name::Link => &self.link,
            Name::Pin => &self.pin,
            Name::Minutes => &self.minutes,
        }
    }
}

#[derive(Debug)]
enum TemplatePiece {
    Text(String),
    Value(Name),
}

#[derive(Debug, Default)]
struct TemplateText(Vec<TemplatePiece>);

#[derive(Default)]
struct Template {
    subject: String,
    text: TemplateText,
    html: TemplateText,
}

pub(super) struct Rendered {
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) html: String,
}

pub(super) struct Templates(HashMap<(String, &'static str), Template>);

macro_rules! built_in {
    ($($language:literal)+) => {
        [$(
            ($language, MailKind::Reset,
             include_str!(concat!("../../../data/mail/", $language, "/reset.txt")),
             include_str!(concat!("../../../data/mail/", $language, "/reset.html"))),
            ($language, MailKind::PasswordChanged,
             include_str!(concat!("../../../data/mail/", $language, "/password-changed.txt")),
             include_str!(concat!("../../../data/mail/", $language, "/password-changed.html"))),
            ($language, MailKind::EmailChanged,
             include_str!(concat!("../../../data/mail/", $language, "/email-changed.txt")),
             include_str!(concat!("../../../data/mail/", $language, "/email-changed.html"))),
            ($language, MailKind::Pin,
             include_str!(concat!("../../../data/mail/", $language, "/pin.txt")),
             include_str!(concat!("../../../data/mail/", $language, "/pin.html"))),
            ($language, MailKind::Test,
             include_str!(concat!("../../../data/mail/", $language, "/test.txt")),
             include_str!(concat!("../../../data/mail/", $language, "/test.html"))),
        )+]
    };
}

impl Templates {
    pub(super) fn built_in() -> Result<Self, TemplateError> {
        let mut templates = Self(HashMap::new());
        for (language, kind, text, html) in built_in!("en" "sv" "de") {
            templates.set_text(language, kind, text)?;
            templates.set_html(language, kind, html)?;
        }
        Ok(templates)
    }

    /// `{language}/{kind}.txt` and `{language}/{kind}.html` override built-in templates.
    pub(super) fn read_directory(&mut self, directory: &Path) -> Result<(), TemplateError> {
        let unreadable = |path: &Path, source| TemplateError::Unreadable {
            file: path.display().to_string(),
            source,
        };
        let entries = fs::read_dir(directory).map_err(|e| unreadable(directory, e))?;
        for entry in entries {
            let path = entry.map_err(|e| unreadable(directory, e))?.path();
            let Some(language) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            if !path.is_dir() {
                continue;
            }
            check_names(&path, language)?;
            for kind in MailKind::ALL {
                let text = read(&path.join(kind.as_str()).with_extension("txt"))?;
                let html = read(&path.join(kind.as_str()).with_extension("html"))?;
                // This kind keeps its built-in template, or that of another language.
                if text.is_none() && html.is_none() {
                    continue;
                }
                text.map_or(Ok(()), |text| self.set_text(language, kind, &text))?;
                html.map_or(Ok(()), |html| self.set_html(language, kind, &html))?;
                // Checked at the start of the service, or only viewers would notice a mail without its link.
                self.check_complete(language, kind)?;
            }
        }
        Ok(())
    }

    /// Renders in the first available language; `pt-BR` falls back to `pt`.
    pub(super) fn render(
        &self,
        kind: MailKind,
        languages: &[&str],
        values: &TemplateValues,
    ) -> Rendered {
        let template = languages
            .iter()
            // `pt-BR`, then `pt`.
            .flat_map(|tag| [*tag, tag.split('-').next().unwrap_or_default()])
            .chain([FALLBACK])
            .find_map(|tag| self.0.get(&(tag.to_owned(), kind.as_str())));
        match template {
            Some(template) => Rendered {
                subject: template.subject.clone(),
                text: template.text.render(values, false),
                html: template.html.render(values, true),
            },
            // Unreachable: a test proves that the fallback language has every kind.
            None => Rendered {
                subject: kind.as_str().to_owned(),
                text: String::new(),
                html: String::new(),
            },
        }
    }

    fn set_text(
        &mut self,
        language: &str,
        kind: MailKind,
        source: &str,
    ) -> Result<(), TemplateError> {
        let wrong = |what: String| wrong(language, kind, "txt", what);
        // Editors on Windows write CRLF line ends.
        let source = source.replace("\r\n", "\n");
        let (subject, body) = source
            .strip_prefix("Subject: ")
            .and_then(|rest| rest.split_once("\n\n"))
            // A line break in the subject could add mail headers.
            .filter(|(subject, _)| !subject.contains('\n') && !subject.trim().is_empty())
            .ok_or_else(|| wrong("must begin with `Subject: …` and an empty line".to_owned()))?;
        let has_placeholder = TemplateText::parse(subject).map_or(true, |subject| {
            let is_value = |piece: &TemplatePiece| matches!(piece, TemplatePiece::Value(_));
            subject.0.iter().any(is_value)
        });
        // Placeholders in the subject are not replaced: lists of mails show it, and it must contain no secret. This
        // is no error, since earlier versions accepted such a subject: a service must still start after an upgrade.
        if has_placeholder {
            tracing::warn!(
                template = %format!("{language}/{}.txt", kind.as_str()),
                "the subject of a mail template has braces, which are sent as they stand: placeholders such as `{{email}}` work in the body only"
            );
        }
        let text = TemplateText::parse(body).map_err(wrong)?;
        let template = self.entry(language, kind);
        subject.trim().clone_into(&mut template.subject);
        template.text = text;
        Ok(())
    }

    fn set_html(
        &mut self,
        language: &str,
        kind: MailKind,
        source: &str,
    ) -> Result<(), TemplateError> {
        let html =
            TemplateText::parse(source).map_err(|what| wrong(language, kind, "html", what))?;
        self.entry(language, kind).html = html;
        Ok(())
    }

    fn entry(&mut self, language: &str, kind: MailKind) -> &mut Template {
        self.0
            .entry((language.to_owned(), kind.as_str()))
            .or_default()
    }

    fn check_complete(&self, language: &str, kind: MailKind) -> Result<(), TemplateError> {
        let template = self.0.get(&(language.to_owned(), kind.as_str()));
        // The directory may override one part of a built-in language, but another language needs both.
        let missing = match template {
            Some(template) if template.text.0.is_empty() => "txt",
            Some(template) if template.html.0.is_empty() => "html",
            _ => "",
        };
        if !missing.is_empty() {
            return Err(wrong(language, kind, missing, "is missing".to_owned()));
        }
        let (needed, value) = match kind {
            MailKind::Reset => (Name::Link, "{link}"),
            MailKind::Pin => (Name::Pin, "{pin}"),
            MailKind::PasswordChanged | MailKind::EmailChanged | MailKind::Test => return Ok(()),
        };
        let parts = template.map(|template| [("txt", &template.text), ("html", &template.html)]);
        let useless = |(_, part): &(&str, &TemplateText)| !part.names(needed);
        match parts.into_iter().flatten().find(useless) {
            Some((extension, _)) => {
                let what = format!("has no `{value}`; the mail would be useless without it");
                Err(wrong(language, kind, extension, what))
            }
            None => Ok(()),
        }
    }
}

fn check_names(directory: &Path, language: &str) -> Result<(), TemplateError> {
    let unreadable = |source| TemplateError::Unreadable {
        file: directory.display().to_string(),
        source,
    };
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let part =
            |of: Option<&std::ffi::OsStr>| of.and_then(|text| text.to_str().map(str::to_owned));
        let (Some(stem), Some(extension)) = (part(path.file_stem()), part(path.extension())) else {
            continue;
        };
        // A misspelled template would silently never be used.
        if matches!(extension.as_str(), "txt" | "html") && MailKind::parse(&stem).is_none() {
            let kinds: Vec<&str> = MailKind::ALL.iter().map(|kind| kind.as_str()).collect();
            return Err(TemplateError::Wrong {
                file: format!("{language}/{stem}.{extension}"),
                what: format!("unknown kind of mail; use one of {}", kinds.join(", ")),
            });
        }
    }
    Ok(())
}

fn wrong(language: &str, kind: MailKind, extension: &str, what: String) -> TemplateError {
    TemplateError::Wrong {
        file: format!("{language}/{}.{extension}", kind.as_str()),
        what,
    }
}

fn read(path: &Path) -> Result<Option<String>, TemplateError> {
    let unreadable = |source| TemplateError::Unreadable {
        file: path.display().to_string(),
        source,
    };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
        // Checked before reading, so that a wrong file is not loaded into memory.
        Ok(metadata) if metadata.len() > FILE_MAX => {
            return Err(unreadable(io::ErrorKind::FileTooLarge.into()));
        }
        Ok(_) => {}
    }
    fs::read_to_string(path).map(Some).map_err(unreadable)
}

impl TemplateText {
    fn parse(mut source: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        while let Some((before, after)) = source.split_once('{') {
            // Braces around anything but a lower-case word are text, so style sheets need no escaping.
            let word = after.split_once('}').filter(|(word, _)| {
                !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase())
            });
            pieces.push(TemplatePiece::Text(before.to_owned()));
            match word {
                Some((word, rest)) => {
                    pieces.push(TemplatePiece::Value(match word {
                        "email" => Name::Email,
                        "link" => Name::Link,
                        "pin" => Name::Pin,
                        "minutes" => Name::Minutes,
                        other => return Err(format!("unknown placeholder `{{{other}}}`")),
                    }));
                    source = rest;
                }
                None => {
                    pieces.push(TemplatePiece::Text("{".to_owned()));
                    source = after;
                }
            }
        }
        pieces.push(TemplatePiece::Text(source.to_owned()));
        Ok(Self(pieces))
    }

    fn names(&self, wanted: Name) -> bool {
        let is_wanted =
            |piece: &TemplatePiece| matches!(piece, TemplatePiece::Value(name) if *name == wanted);
        self.0.iter().any(is_wanted)
    }

    fn render(&self, values: &TemplateValues, html: bool) -> String {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                TemplatePiece::Text(text) => out.push_str(text),
                // The HTML part escapes values: an address may contain markup.
                TemplatePiece::Value(name) if html => escape(values.get(*name), &mut out),
                TemplatePiece::Value(name) => out.push_str(values.get(*name)),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> TemplateValues {
        TemplateValues {
            email: "o'hara&co@example.com".to_owned(),
            link: "https://x.example/?a=1&token=\"<t>\"".to_owned(),
            pin: "1234".to_owned(),
            minutes: "30".to_owned(),
        }
    }

    #[test]
    fn every_built_in_language_has_complete_templates() {
        let templates = Templates::built_in().unwrap();
        assert_eq!(templates.0.len(), 3 * MailKind::ALL.len());
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
            }
        }
    }

    #[test]
    fn values_are_escaped_only_in_html() {
        let templates = Templates::built_in().unwrap();
        let mail = templates.render(MailKind::Reset, &["en"], &values());
        assert!(mail.text.contains("?a=1&token=\"<t>\""));
        assert!(mail.html.contains("?a=1&amp;token=&quot;&lt;t&gt;&quot;"));
        assert!(mail.html.contains("o&#39;hara&amp;co@example.com"));
    }

    #[test]
    fn nearest_language_is_used() {
        let templates = Templates::built_in().unwrap();
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
        let mut templates = Templates::built_in().unwrap();
        let error = templates.read_directory(directory.path()).unwrap_err();
        assert_eq!(error.to_string(), "fi/pin.html: is missing");
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
    }

    #[test]
    fn placeholder_in_a_subject_is_sent_as_it_stands() {
        let directory = tempfile::tempdir().unwrap();
        let en = directory.path().join("en");
        fs::create_dir(&en).unwrap();
        let mut templates = Templates::built_in().unwrap();
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
        let mut templates = Templates::built_in().unwrap();
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
}
