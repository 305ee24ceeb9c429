//! A text with placeholders: `{email}`, `{link}`, `{pin}`, `{minutes}` and `{name}`.

use playgate_types::html_escape::escape;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placeholder {
    Email,
    Link,
    Pin,
    Minutes,
    Name,
}

impl Placeholder {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "email" => Some(Self::Email),
            "link" => Some(Self::Link),
            "pin" => Some(Self::Pin),
            "minutes" => Some(Self::Minutes),
            "name" => Some(Self::Name),
            _ => None,
        }
    }
}

#[derive(Default)]
pub(super) struct TemplateValues {
    pub(super) email: String,
    pub(super) link: String,
    pub(super) pin: String,
    pub(super) minutes: String,
    /// Empty if the mail greets nobody by name.
    pub(super) name: String,
}

impl TemplateValues {
    fn get(&self, name: Placeholder) -> &str {
        match name {
            Placeholder::Email => &self.email,
            Placeholder::Link => &self.link,
            Placeholder::Pin => &self.pin,
            Placeholder::Minutes => &self.minutes,
            Placeholder::Name => &self.name,
        }
    }
}

#[derive(Debug)]
enum TemplatePiece {
    Text(String),
    Value(Placeholder),
}

#[derive(Debug, Default)]
pub(super) struct TemplateText(Vec<TemplatePiece>);

impl TemplateText {
    pub(super) fn parse(mut source: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        while let Some((before, after)) = source.split_once('{') {
            // Braces around anything but a lower-case word are text, so style sheets need no escaping.
            let word = after.split_once('}').filter(|(word, _)| {
                !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase())
            });
            pieces.push(TemplatePiece::Text(before.to_owned()));
            match word {
                Some((word, rest)) => {
                    let known = Placeholder::parse(word);
                    let known = known.ok_or_else(|| format!("unknown placeholder `{{{word}}}`"))?;
                    pieces.push(TemplatePiece::Value(known));
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

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has_placeholder(&self) -> bool {
        let is_value = |piece: &TemplatePiece| matches!(piece, TemplatePiece::Value(_));
        self.0.iter().any(is_value)
    }

    pub(super) fn names(&self, wanted: Placeholder) -> bool {
        let is_wanted =
            |piece: &TemplatePiece| matches!(piece, TemplatePiece::Value(name) if *name == wanted);
        self.0.iter().any(is_wanted)
    }

    pub(super) fn render(&self, values: &TemplateValues, html: bool) -> String {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                TemplatePiece::Text(text) => out.push_str(text),
                // `Hello {name},` without a name is `Hello,`.
                TemplatePiece::Value(Placeholder::Name) if values.name.is_empty() => {
                    out.truncate(out.trim_end_matches(' ').len());
                }
                // The HTML part escapes values: an address may contain markup.
                TemplatePiece::Value(name) if html => escape(values.get(*name), &mut out),
                TemplatePiece::Value(name) => out.push_str(values.get(*name)),
            }
        }
        out
    }
}
