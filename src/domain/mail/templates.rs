//! Mail templates by language, built in and from a directory.
//!
//! A text template begins with `Subject: …` and an empty line. The HTML part is made from it by [`layout`], unless the
//! directory has one of its own.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use super::brand::Brand;
use super::layout;
use super::model::MailKind;
use super::template_text::{Placeholder, TemplateText, TemplateValues};

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

pub(super) struct Templates {
    brand: Brand,
    by_language: HashMap<(String, &'static str), Template>,
}

macro_rules! built_in {
    ($($language:literal)+) => {
        [$(
            ($language, MailKind::Reset,
             include_str!(concat!("../../../data/mail/", $language, "/reset.txt"))),
            ($language, MailKind::PasswordChanged,
             include_str!(concat!("../../../data/mail/", $language, "/password-changed.txt"))),
            ($language, MailKind::EmailChanged,
             include_str!(concat!("../../../data/mail/", $language, "/email-changed.txt"))),
            ($language, MailKind::Pin,
             include_str!(concat!("../../../data/mail/", $language, "/pin.txt"))),
            ($language, MailKind::Test,
             include_str!(concat!("../../../data/mail/", $language, "/test.txt"))),
        )+]
    };
}

impl Templates {
    pub(super) fn built_in(brand: &Brand) -> Result<Self, TemplateError> {
        let mut templates = Self {
            brand: brand.clone(),
            by_language: HashMap::new(),
        };
        for (language, kind, text) in built_in!("en" "sv" "de") {
            templates.set_text(language, kind, text)?;
        }
        Ok(templates)
    }

    pub(super) const fn brand(&self) -> &Brand {
        &self.brand
    }

    /// `{language}/{kind}.txt` and `{language}/{kind}.html` override built-in templates. A text without HTML is shown in the
    /// layout.
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

    /// Finds the template of the first available language; `pt-BR` falls back to `pt`.
    fn find(&self, kind: MailKind, languages: &[&str]) -> Option<&Template> {
        languages
            .iter()
            // `pt-BR`, then `pt`.
            .flat_map(|tag| [*tag, tag.split('-').next().unwrap_or_default()])
            .chain([FALLBACK])
            .find_map(|tag| self.by_language.get(&(tag.to_owned(), kind.as_str())))
    }

    pub(super) fn subject(&self, kind: MailKind, languages: &[&str]) -> String {
        let template = self.find(kind, languages);
        // A test proves that the fallback language has every kind.
        template.map_or_else(|| kind.as_str().to_owned(), |found| found.subject.clone())
    }

    pub(super) fn render(
        &self,
        kind: MailKind,
        languages: &[&str],
        values: &TemplateValues,
    ) -> Rendered {
        let template = self.find(kind, languages);
        let render = |part: fn(&Template) -> &TemplateText, html| {
            template.map_or_else(String::new, |found| part(found).render(values, html))
        };
        Rendered {
            subject: self.subject(kind, languages),
            text: render(|template| &template.text, false),
            html: render(|template| &template.html, true),
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
        let has_placeholder =
            TemplateText::parse(subject).map_or(true, |subject| subject.has_placeholder());
        // Placeholders in the subject are not replaced: lists of mails show it, and it must contain no secret. This
        // is no error, since earlier versions accepted such a subject: a service must still start after an upgrade.
        if has_placeholder {
            tracing::warn!(
                template = %format!("{language}/{}.txt", kind.as_str()),
                "the subject of a mail template has braces, which are sent as they stand: placeholders such as `{{email}}` work in the body only"
            );
        }
        let text = TemplateText::parse(body).map_err(wrong)?;
        let html = layout::html(&self.brand, language, subject.trim(), body);
        let html = TemplateText::parse(&html).map_err(wrong)?;
        let template = self.entry(language, kind);
        subject.trim().clone_into(&mut template.subject);
        template.text = text;
        template.html = html;
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
        self.by_language
            .entry((language.to_owned(), kind.as_str()))
            .or_default()
    }

    pub(super) fn check_complete(
        &self,
        language: &str,
        kind: MailKind,
    ) -> Result<(), TemplateError> {
        let template = self.by_language.get(&(language.to_owned(), kind.as_str()));
        // The directory may override the HTML of a built-in language, but another language needs the text.
        if template.is_some_and(|template| template.text.is_empty()) {
            return Err(wrong(language, kind, "txt", "is missing".to_owned()));
        }
        let (needed, value) = match kind {
            MailKind::Reset => (Placeholder::Link, "{link}"),
            MailKind::Pin => (Placeholder::Pin, "{pin}"),
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
