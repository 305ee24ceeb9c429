//! Decodes lowercase hexadecimal text, the form of ids and keys in files.

use data_encoding::HEXLOWER;

/// `None` if the text is not lowercase hexadecimal or not of this length.
pub fn from_hex<const N: usize>(text: impl AsRef<[u8]>) -> Option<[u8; N]> {
    HEXLOWER.decode(text.as_ref()).ok()?.try_into().ok()
}
