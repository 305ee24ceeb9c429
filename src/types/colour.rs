//! A colour, and how well text of one colour is read on another.

use std::fmt;

use super::Malformed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    red: u8,
    green: u8,
    blue: u8,
}

impl Colour {
    pub const BLACK: Self = Self::rgb(0, 0, 0);
    pub const WHITE: Self = Self::rgb(255, 255, 255);

    pub const fn rgb(red: u8, green: u8, blue: u8) -> Self {
        Self { red, green, blue }
    }

    /// Parses `#1667a8` or `#16a`. Names of colours and other notations are not known to every mail program.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let malformed = Malformed("must be a colour such as \"#1667a8\"");
        let digits = text.trim().strip_prefix('#').ok_or(malformed)?;
        let nibbles: Option<Vec<u8>> = digits
            .chars()
            .map(|digit| u8::try_from(digit.to_digit(16)?).ok())
            .collect();
        match nibbles.as_deref() {
            Some([r, g, b]) => Ok(Self::rgb(r * 17, g * 17, b * 17)),
            Some([r, s, g, h, b, c]) => Ok(Self::rgb(r * 16 + s, g * 16 + h, b * 16 + c)),
            _ => Err(malformed),
        }
    }

    /// The colour of text on this one: black or white, whichever is read better. The contrast is at least 4.58, and
    /// WCAG 2 asks for 4.5.
    pub fn ink(self) -> Self {
        match self.contrast(Self::WHITE) >= self.contrast(Self::BLACK) {
            true => Self::WHITE,
            false => Self::BLACK,
        }
    }

    /// The contrast ratio of WCAG 2, from 1 to 21.
    pub fn contrast(self, other: Self) -> f64 {
        let (one, two) = (self.luminance(), other.luminance());
        (one.max(two) + 0.05) / (one.min(two) + 0.05)
    }

    fn luminance(self) -> f64 {
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            match part <= 0.04045 {
                true => part / 12.92,
                false => ((part + 0.055) / 1.055).powf(2.4),
            }
        };
        0.2126 * linear(self.red) + 0.7152 * linear(self.green) + 0.0722 * linear(self.blue)
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.red, self.green, self.blue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_is_three_or_six_digits() {
        for (text, shown) in [
            ("#1667a8", "#1667a8"),
            (" #1667A8 ", "#1667a8"),
            ("#16a", "#1166aa"),
        ] {
            assert_eq!(Colour::parse(text).unwrap().to_string(), shown);
        }
        for bad in [
            "",
            "#",
            "1667a8",
            "#1667a",
            "#1667a8ff",
            "red",
            "#16667é",
            "rgb(1,2,3)",
        ] {
            assert!(Colour::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn text_on_any_colour_can_be_read() {
        assert_eq!(Colour::parse("#e50914").unwrap().ink(), Colour::WHITE);
        // White on these is what many brands print, and cannot be read.
        for light in ["#ffd400", "#1db954", "#00a8e1", "#ffffff"] {
            assert_eq!(Colour::parse(light).unwrap().ink(), Colour::BLACK);
        }
        let steps = || (0..=255).step_by(15);
        for (red, green, blue) in
            steps().flat_map(|r| steps().flat_map(move |g| steps().map(move |b| (r, g, b))))
        {
            let colour = Colour::rgb(red, green, blue);
            assert!(colour.contrast(colour.ink()) >= 4.5, "{colour}");
        }
    }
}
