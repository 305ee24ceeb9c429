//! The HTML part of a mail, made from its text: paragraphs in the one layout of all mails.
//!
//! `data/mail/layout.html` keeps to what mail programs show: tables, styles at the elements, no script, nothing that is loaded
//! but a logo. Its style sheet only adds colours for dark screens.

use playgate_types::Colour;
use playgate_types::html_escape::escaped;

use super::brand::Brand;

const LAYOUT: &str = include_str!("../../../data/mail/layout.html");
const BUTTON: &str = include_str!("../../../data/mail/button.html");

const PARAGRAPH: &str = "<p class=\"text\" style=\"margin:0 0 16px;color:#1c222b\">";
const LINK: &str =
    "<a class=\"link\" href=\"{link}\" style=\"color:#1667a8;word-break:break-all\">{link}</a>";
const PIN: &str = "<p class=\"text\" style=\"margin:8px 0 24px;color:#1c222b;font-size:32px;line-height:40px;font-weight:bold;letter-spacing:8px\">{pin}</p>\n";

/// The rim of buttons and logos. It is seen on the light and on the dark ground, whatever the colour of the brand.
pub(super) const RIM: Colour = Colour::rgb(0x80, 0x8a, 0x99);

/// Makes the HTML template of a mail. The result has the placeholders of the text.
pub(super) fn html(brand: &Brand, language: &str, subject: &str, text: &str) -> String {
    let subject = literal(subject);
    let content: String = paragraphs(text)
        .map(|paragraph| match paragraph {
            "{link}" => BUTTON.replace("{subject}", &subject),
            "{pin}" => PIN.to_owned(),
            other => {
                let shown = escaped(other)
                    .replace("{link}", LINK)
                    .replace('\n', "<br>\n");
                format!("{PARAGRAPH}{shown}</p>\n")
            }
        })
        .collect();
    let logo = brand.logo.as_ref().map(|logo| logo.reference());
    let head = match logo {
        Some(source) => format!(
            "<img src=\"{}\" alt=\"{{brand}}\" height=\"40\" style=\"display:block;height:40px;max-width:240px;border:0;padding:4px 8px;background-color:#ffffff;border-radius:6px;color:#1c222b\">",
            literal(source)
        ),
        None => "{brand}".to_owned(),
    };
    [
        ("{head}", head.as_str()),
        ("{language}", &literal(language)),
        ("{preheader}", &escaped(&preheader(text))),
        // The button is in the content.
        ("{content}", &content),
        ("{subject}", &subject),
        ("{brand}", &literal(&brand.name)),
        ("{colour}", &brand.colour.to_string()),
        ("{ink}", &brand.colour.ink().to_string()),
        ("{rim}", &RIM.to_string()),
    ]
    .iter()
    .fold(LAYOUT.to_owned(), |html, (name, value)| {
        html.replace(name, value)
    })
}

fn paragraphs(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split("\n\n").map(str::trim);
    parts.filter(|paragraph| !paragraph.is_empty())
}

/// What lists of mails show behind the subject: the first paragraph after the greeting. A locked screen shows it too, so it
/// has neither the link nor the PIN.
fn preheader(text: &str) -> String {
    let secret = |paragraph: &&str| paragraph.contains("{link}") || paragraph.contains("{pin}");
    let shown = paragraphs(text)
        .skip(1)
        .find(|paragraph| !secret(paragraph));
    shown.unwrap_or_default().replace('\n', " ")
}

/// A text that has no placeholders, though it may look so.
fn literal(text: &str) -> String {
    escaped(text).replace('{', "&#123;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::brand::Logo;

    const TEXT: &str =
        "Hello {name},\n\nsomebody asked\nfor {email}:\n\n{link}\n\n{pin}\n\nBye <b>\n";

    fn made(brand: &Brand) -> String {
        html(brand, "en", "A {link} for \"you\"", TEXT)
    }

    #[test]
    fn a_text_becomes_paragraphs_a_button_and_a_code() {
        let html = made(&Brand::default());
        assert!(html.contains(">Hello {name},</p>") && html.contains("Bye &lt;b&gt;</p>"));
        assert!(html.contains("somebody asked<br>\nfor {email}:</p>"));
        assert_eq!(
            html.matches("href=\"{link}\"").count(),
            2,
            "button and address"
        );
        assert_eq!(html.matches("{pin}").count(), 1);
        assert!(html.contains("<title>A &#123;link} for &quot;you&quot;</title>"));
        let (before, _) = html.split_once("somebody asked for {email}:").unwrap();
        assert!(
            before.ends_with("mso-hide:all\">"),
            "the preheader comes first"
        );
    }

    #[test]
    fn the_layout_keeps_to_what_mail_programs_show() {
        let html = made(&Brand::default());
        for refused in [
            "<script",
            "<link",
            "@import",
            "url(",
            "<div",
            "position:",
            "display:flex",
            "display:grid",
            "var(",
            "<svg",
            "<form",
            "class=\"\"",
        ] {
            assert!(!html.contains(refused), "{refused}");
        }
        for needed in [
            "role=\"presentation\"",
            "name=\"color-scheme\" content=\"light dark\"",
            "name=\"supported-color-schemes\"",
            "prefers-color-scheme: dark",
            "[data-ogsc]",
            "max-width:600px",
            "<!--[if mso]>",
            "mso-padding-alt",
            "x-apple-disable-message-reformatting",
            "bgcolor=",
        ] {
            assert!(html.contains(needed), "{needed}");
        }
        // Gmail drops a style sheet of more than 8,192 characters, and cuts a mail of more than 102 KB.
        let (_, rest) = html.split_once("<style>").unwrap();
        let (style, _) = rest.split_once("</style>").unwrap();
        assert!(style.len() < 8_192 && html.len() < 20_000);
        // Every element that has text names its colour: a program that turns the ground alone would hide it.
        for tag in ["<p ", "<a ", "<td class=\"head"] {
            for element in html.split(tag).skip(1) {
                let (attributes, _) = element.split_once('>').unwrap();
                assert!(attributes.contains("color:#"), "{tag}{attributes}");
            }
        }
    }

    #[test]
    fn the_brand_is_shown_and_cannot_break_the_mail() {
        let brand = Brand {
            name: "T&V {pin} <b>".to_owned(),
            logo: Some(Logo::Address(
                "https://tv.example/a.png?a=1&b=\"2\"".to_owned(),
            )),
            colour: Colour::parse("#ffd400").unwrap(),
        };
        let html = made(&brand);
        assert!(html.contains("alt=\"T&amp;V &#123;pin} &lt;b&gt;\""));
        assert!(html.contains("src=\"https://tv.example/a.png?a=1&amp;b=&quot;2&quot;\""));
        assert!(html.contains("background-color:#ffd400") && html.contains("color:#000000"));
        assert_eq!(html.matches("{pin}").count(), 1, "only that of the text");
    }

    #[test]
    fn a_button_of_any_colour_is_seen_on_either_ground() {
        let (light, dark) = (Colour::WHITE, Colour::parse("#1d2229").unwrap());
        assert!(LAYOUT.contains(&dark.to_string()), "the ground of the card");
        assert!(RIM.contrast(light) >= 3.0 && RIM.contrast(dark) >= 3.0);
        for colour in ["#000000", "#ffffff", "#1d2229"] {
            let colour = Colour::parse(colour).unwrap();
            let html = made(&Brand {
                colour,
                ..Brand::default()
            });
            assert!(html.contains(&format!("border:1px solid {RIM}")));
        }
    }
}
