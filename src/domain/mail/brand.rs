//! What mails and pages for viewers look like: the name of the service, its logo and its colour.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use data_encoding::BASE64;

use super::Mail;
use playgate_ports::mailer::InlineImage;
use playgate_ports::picture::media_of;
use playgate_types::Colour;

/// In bytes. Each mail carries the file with it.
const LOGO_MAX: u64 = 64 * 1024;

/// The reference of a mail to the image that it carries.
const LOGO_REFERENCE: &str = "cid:logo";

#[derive(Clone, Debug)]
pub struct Brand {
    pub name: String,
    pub logo: Option<Logo>,
    pub colour: Colour,
}

#[derive(Clone, Debug)]
pub enum Logo {
    /// An https address, from which mail programs and browsers load it.
    Address(String),
    /// A file, which mails and pages carry with them: many mail programs load nothing before the reader agrees.
    File(InlineImage),
}

impl Default for Brand {
    fn default() -> Self {
        Self {
            name: "Playgate".to_owned(),
            logo: None,
            colour: Colour::rgb(0x16, 0x67, 0xa8),
        }
    }
}

impl Logo {
    /// Opens the logo that a setting names.
    ///
    /// # Errors
    /// A sentence without the name of the setting.
    pub fn open(setting: &str) -> Result<Self, String> {
        if setting.contains("://") {
            return Ok(Self::Address(setting.to_owned()));
        }
        let path = Path::new(setting);
        let failed = |error| format!("{setting}: {error}");
        let length = fs::metadata(path).map_err(failed)?.len();
        if length > LOGO_MAX {
            return Err(format!(
                "{setting}: has {length} bytes; a logo that mails carry has at most {LOGO_MAX}"
            ));
        }
        let bytes = fs::read(path).map_err(failed)?;
        let media = media_of(&bytes).filter(|media| *media != "image/webp");
        let media = media.ok_or_else(|| {
            format!(
                "{setting}: is not a PNG, JPEG or GIF file; mail programs do not show others, such as SVG and WebP"
            )
        })?;
        Ok(Self::File(InlineImage {
            media,
            bytes: Arc::from(bytes),
        }))
    }

    /// The source of the image for a browser.
    pub fn source(&self) -> String {
        match self {
            Self::Address(address) => address.clone(),
            Self::File(image) => {
                format!(
                    "data:{};base64,{}",
                    image.media,
                    BASE64.encode(&image.bytes)
                )
            }
        }
    }

    /// The source of the image in a mail.
    pub(super) fn reference(&self) -> &str {
        match self {
            Self::Address(address) => address,
            Self::File(_) => LOGO_REFERENCE,
        }
    }

    pub(super) fn carried(&self) -> Option<InlineImage> {
        match self {
            Self::Address(_) => None,
            Self::File(image) => Some(image.clone()),
        }
    }
}

impl Mail {
    pub fn brand(&self) -> &Brand {
        self.0.templates.brand()
    }

    /// Returns HTML as a browser shows it, which does not have what the mail carries.
    pub(super) fn for_screens(&self, html: &str) -> String {
        match self
            .brand()
            .logo
            .as_ref()
            .filter(|logo| logo.carried().is_some())
        {
            Some(logo) => html.replacen(LOGO_REFERENCE, &logo.source(), 1),
            None => html.to_owned(),
        }
    }

    pub(super) fn carried_logo(&self) -> Option<InlineImage> {
        self.brand().logo.as_ref().and_then(Logo::carried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logo_is_an_address_or_a_small_image_that_mail_programs_show() {
        let directory = tempfile::tempdir().unwrap();
        let with = |name: &str, bytes: &[u8]| {
            let path = directory.path().join(name);
            fs::write(&path, bytes).unwrap();
            Logo::open(path.to_str().unwrap())
        };
        let address = Logo::open("https://tv.example/logo.svg").unwrap();
        assert_eq!(address.source(), "https://tv.example/logo.svg");
        assert!(address.carried().is_none());
        // The name is no proof of the format.
        let file = with("logo.jpg", b"\x89PNG\r\n\x1a\nrest").unwrap();
        assert_eq!(file.reference(), "cid:logo");
        assert_eq!(file.source(), "data:image/png;base64,iVBORw0KGgpyZXN0");
        for (name, bytes, why) in [
            ("logo.svg", &b"<svg/>"[..], "such as SVG"),
            ("logo.png", b"RIFF\0\0\0\0WEBP", "is not a PNG"),
            ("empty.png", b"", "is not a PNG"),
            ("large.gif", &[0; 65_537], "65537 bytes"),
        ] {
            let said = with(name, bytes).unwrap_err();
            assert!(said.contains(why) && said.contains(name), "{said}");
        }
        assert!(
            Logo::open("/nowhere/logo.png")
                .unwrap_err()
                .contains("/nowhere")
        );
    }
}
