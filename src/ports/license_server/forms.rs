//! The forms in which license servers take challenges and send licenses. Players get the license itself.

use bytes::Bytes;
use data_encoding::BASE64;
use http::HeaderValue;
use serde_json::Value;

use super::License;
use playgate_types::{Drm, base64_text};

const BYTES: &str = "application/octet-stream";
const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

/// How a FairPlay license server takes the challenge, which Apple calls SPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpcForm {
    /// As the client sent it, and the answer unchanged unless the client sent the SPC itself.
    AsSent,
    Raw,
    /// `spc=…` in base64, with the other fields of a client's form.
    Form,
    /// `{"spc": "…"}` in base64.
    Json,
}

/// The operations of PlayReady at the address of a license server, as their messages name them.
const OPERATIONS: [&str; 6] = [
    "AcknowledgeLicense",
    "ProcessMeteringData",
    "ProcessSecureStop",
    "JoinDomain",
    "LeaveDomain",
    "AcquireLicense",
];

/// The `SOAPAction` of a PlayReady message.
pub(super) fn soap_action(message: &[u8]) -> String {
    let text = String::from_utf8_lossy(message);
    let named =
        |name: &&&str| text.contains(&format!("<{name}")) || text.contains(&format!(":{name} "));
    let operation = OPERATIONS.iter().find(named).unwrap_or(&"AcquireLicense");
    format!("\"http://schemas.microsoft.com/DRM/2007/03/protocols/{operation}\"")
}

/// A challenge as it is sent to the license server.
pub(super) struct Outgoing {
    pub media: &'static str,
    pub body: Bytes,
    pub answer: AnswerForm,
}

/// What the license server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerForm {
    /// What the client wants as it is.
    AsSent,
    /// A license, or one in a form that no license could be mistaken for.
    Recognizable,
    /// A license in base64, or in any other form.
    Base64,
}

impl Outgoing {
    pub(super) fn bytes(body: Bytes) -> Self {
        Self {
            media: BYTES,
            body,
            answer: AnswerForm::Recognizable,
        }
    }

    pub(super) fn soap(body: Bytes) -> Self {
        Self {
            media: "text/xml; charset=utf-8",
            body,
            answer: AnswerForm::AsSent,
        }
    }

    pub(super) fn spc(body: Bytes, form: SpcForm) -> Self {
        let sent = SentSpc::read(&body);
        match form {
            SpcForm::AsSent => Self {
                media: match sent.form {
                    SpcForm::Form => FORM,
                    SpcForm::Json => JSON,
                    SpcForm::AsSent | SpcForm::Raw => BYTES,
                },
                body,
                answer: match sent.form {
                    SpcForm::AsSent | SpcForm::Raw => AnswerForm::Recognizable,
                    // The client speaks the form of the server itself.
                    SpcForm::Form | SpcForm::Json => AnswerForm::AsSent,
                },
            },
            SpcForm::Raw => Self::bytes(sent.spc.map_or(body, Bytes::from)),
            SpcForm::Form => Self {
                media: FORM,
                body: match sent.form {
                    SpcForm::Form => body,
                    _ => in_form(sent.spc.as_deref().unwrap_or(&body)),
                },
                answer: AnswerForm::Base64,
            },
            SpcForm::Json => Self {
                media: JSON,
                body: match sent.form {
                    SpcForm::Json => body,
                    _ => {
                        let spc = BASE64.encode(sent.spc.as_deref().unwrap_or(&body));
                        serde_json::json!({"spc": spc}).to_string().into()
                    }
                },
                answer: AnswerForm::Base64,
            },
        }
    }
}

/// A challenge as the client sent it.
struct SentSpc {
    form: SpcForm,
    /// `None` if it could not be taken out of its form.
    spc: Option<Vec<u8>>,
}

impl SentSpc {
    fn read(body: &[u8]) -> Self {
        let raw = || Self {
            form: SpcForm::Raw,
            spc: Some(body.to_vec()),
        };
        // An SPC begins with zero bytes.
        let Some(text) = ascii(body) else {
            return raw();
        };
        if text.starts_with('{') {
            let spc = member(text, &["spc"]).and_then(|spc| base64_text::decode(spc.as_bytes()));
            return Self {
                form: SpcForm::Json,
                spc,
            };
        }
        if let Some(value) = text.split('&').find_map(|field| field.strip_prefix("spc=")) {
            // Some clients leave `+` of base64 as it is, which means a space in a form.
            let spc = base64_text::decode(percent_decoded(value).as_bytes());
            return Self {
                form: SpcForm::Form,
                spc,
            };
        }
        match base64_text::decode(text.as_bytes()) {
            Some(spc) if spc.starts_with(&VERSION) => Self {
                form: SpcForm::Raw,
                spc: Some(spc),
            },
            _ => raw(),
        }
    }
}

/// SPC and CKC begin with their version.
const VERSION: [u8; 3] = [0, 0, 0];
/// A Widevine license begins with the field of its type.
const WIDEVINE_TYPE: u8 = 0x08;

/// Takes the license out of the form in which the server sent it. `Err` has the refusal of a server that refuses with
/// 200.
pub(super) fn license(drm: Drm, form: AnswerForm, license: License) -> Result<License, String> {
    if form == AnswerForm::AsSent {
        return Ok(license);
    }
    let Some(text) = ascii(&license.body) else {
        return Ok(license);
    };
    let decoded = match drm {
        Drm::Widevine if text.starts_with('{') => in_json(text, &["license"])?,
        Drm::Widevine => {
            let decoded = base64_text::decode(text.as_bytes());
            decoded.filter(|bytes| bytes.first() == Some(&WIDEVINE_TYPE))
        }
        Drm::Fairplay if text.starts_with('{') => in_json(
            text,
            &["ckc", "CkcMessage", "ckcMessage", "license", "License"],
        )?,
        Drm::Fairplay if text.starts_with("<ckc>") => base64_text::decode(in_element(text)),
        Drm::Fairplay => match BASE64.decode(text.as_bytes()) {
            Ok(decoded) if form == AnswerForm::Base64 => Some(decoded),
            _ => {
                let decoded = base64_text::decode(text.as_bytes());
                decoded.filter(|bytes| bytes.starts_with(&VERSION))
            }
        },
        Drm::Playready | Drm::Clearkey | Drm::None => None,
    };
    // What is in no known form is passed on unchanged.
    Ok(match decoded {
        Some(bytes) if !bytes.is_empty() => License {
            media: Some(HeaderValue::from_static(BYTES)),
            body: bytes.into(),
        },
        _ => license,
    })
}

fn ascii(body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?.trim();
    let is_text = |byte: u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    text.bytes().all(is_text).then_some(text)
}

fn member(text: &str, names: &[&str]) -> Option<String> {
    let object: Value = serde_json::from_str(text).ok()?;
    let value = names.iter().find_map(|name| object.get(name))?;
    value.as_str().map(str::to_owned)
}

fn in_json(text: &str, names: &[&str]) -> Result<Option<Vec<u8>>, String> {
    let Some(encoded) = member(text, names) else {
        // A JSON object without a license is a refusal: DRMtoday names the reason in `status`.
        return Err(text.to_owned());
    };
    Ok(base64_text::decode(encoded.as_bytes()))
}

fn in_element(text: &str) -> &[u8] {
    let inner = text.strip_prefix("<ckc>").unwrap_or(text);
    inner.strip_suffix("</ckc>").unwrap_or(inner).as_bytes()
}

fn in_form(challenge: &[u8]) -> Bytes {
    // A form gives a meaning to these three characters of base64.
    let text = BASE64.encode(challenge);
    let text = text
        .replace('+', "%2B")
        .replace('/', "%2F")
        .replace('=', "%3D");
    format!("spc={text}").into()
}

fn percent_decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let decoded = part
            .get(..2)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
            .filter(u8::is_ascii);
        match (decoded, part.get(2..)) {
            (Some(byte), Some(rest)) => {
                out.push(char::from(byte));
                out.push_str(rest);
            }
            _ => {
                out.push('%');
                out.push_str(part);
            }
        }
    }
    out.replace(' ', "+")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPC: &[u8] = &[0, 0, 0, 1, 0xfb, 0xff, 7];
    /// As base64: `AAAAAfv/Bw==`.
    const FORMS: [&[u8]; 5] = [
        b"spc=AAAAAfv%2FBw%3D%3D",
        b"spc=AAAAAfv/Bw==&assetId=film",
        b"assetId=film&spc=AAAAAfv%2fBw",
        br#"{"spc": "AAAAAfv/Bw=="}"#,
        b"AAAAAfv_Bw",
    ];

    #[test]
    fn a_challenge_is_read_in_every_form_and_sent_in_the_configured_one() {
        let sent = |body: &[u8], form| {
            let out = Outgoing::spc(Bytes::copy_from_slice(body), form);
            (out.media, out.body.to_vec())
        };
        for body in FORMS.into_iter().chain([SPC]) {
            assert_eq!(sent(body, SpcForm::Raw), (BYTES, SPC.to_vec()));
            let (media, form) = sent(body, SpcForm::Form);
            assert_eq!(media, FORM);
            assert_eq!(SentSpc::read(&form).spc.unwrap(), SPC, "{form:?}");
            let (media, json) = sent(body, SpcForm::Json);
            assert_eq!(media, JSON);
            assert_eq!(SentSpc::read(&json).spc.unwrap(), SPC, "{json:?}");
            let (media, same) = sent(body, SpcForm::AsSent);
            assert_eq!(same, body);
            let expected = match body {
                [b's' | b'a', ..] => FORM,
                [b'{', ..] => JSON,
                _ => BYTES,
            };
            assert_eq!(media, expected);
        }
        assert_eq!(sent(SPC, SpcForm::Form).1, b"spc=AAAAAfv%2FBw%3D%3D");
        // The other fields of a client's form are kept.
        let (_, form) = sent(FORMS[1], SpcForm::Form);
        assert!(form.ends_with(b"&assetId=film"));
    }

    #[test]
    fn a_license_is_taken_out_of_every_form() {
        let wrapped = |drm, body: &str| {
            let body = Bytes::copy_from_slice(body.as_bytes());
            license(drm, AnswerForm::Recognizable, License { media: None, body })
        };
        for body in [
            "AAAAAfv/Bw==",
            "AAAAAfv/Bw==\r\n",
            "<ckc>AAAAAfv/Bw==</ckc>",
            "\n<ckc>AAAAAfv/Bw==</ckc>\n",
            r#"{"ckc": "AAAAAfv_Bw"}"#,
            r#"{"CkcMessage": "AAAAAfv/Bw==", "more": 1}"#,
        ] {
            let found = wrapped(Drm::Fairplay, body).unwrap();
            assert_eq!(found.body, SPC, "{body}");
            assert_eq!(found.media.unwrap(), BYTES);
        }
        let json = r#"{"status":"OK","license":"CAISAQ==","supported_tracks":[]}"#;
        for body in [json, "CAISAQ==", "CAISAQ"] {
            let found = wrapped(Drm::Widevine, body).unwrap();
            assert_eq!(found.body.as_ref(), [8, 2, 0x12, 1], "{body}");
        }
        for (drm, body) in [
            (Drm::Widevine, r#"{"status":"NOT_ENTITLED"}"#),
            (Drm::Fairplay, r#"{"errorCode": 7}"#),
        ] {
            assert_eq!(wrapped(drm, body).unwrap_err(), body);
        }
        // Of no known form.
        for (drm, body) in [
            (Drm::Widevine, "a2V5"),
            (Drm::Playready, "a2V5"),
            (Drm::Fairplay, "ckc="),
        ] {
            assert_eq!(wrapped(drm, body).unwrap().body, body);
        }
    }
}
