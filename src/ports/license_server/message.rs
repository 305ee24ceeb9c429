//! Identifies the subject of a license to the license server, in the vendor's format: by a header, or in the query.

use std::collections::HashSet;

use chrono::{DateTime, SecondsFormat};
use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};
use http::{HeaderName, HeaderValue};
use ring::hmac;
use serde_json::{Value, json};

use super::BadLicenseServer;
use super::doverunner::DoverunnerSite;
use super::forms::SpcForm;
use super::subject::{LicenseSubject, MessageSettings};
use crate::http_client::RequestTarget;
use playgate_types::Drm;

/// Validity of a signed message in seconds. A message is made for one challenge, which is sent immediately.
const VALID_SECONDS: i64 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Base64 of `{"userId","sessionId","assetId"}` in the custom data header, if one is configured.
    Plain,
    /// DRMtoday: base64 of `{"userId","sessionId","merchant"}` in `x-dt-custom-data`.
    Drmtoday,
    /// Axinom DRM: a License Service Message with the asset's key ids, as a JWT signed with HMAC-SHA256, in
    /// `X-AxDRM-Message`.
    Axinom,
    /// A Playgate JWT signed with HMAC-SHA256, in the custom data header: `sub` (user), `sid` (session),
    /// `asset`, `kids` (hexadecimal), `iat` and `exp`.
    Jwt,
    /// DoveRunner (formerly PallyCon): a license token in `pallycon-customdata-v2`.
    Doverunner,
    /// EZDRM: base64url of `{"userId","sessionId","assetId"}` as `CustomData` in the query of a URL that has `pX`.
    Ezdrm,
    /// NAGRA SSP: a content authorization token for the asset, as a JWT signed with HMAC-SHA256, in `nv-authorizations`.
    Nagra,
}

impl Style {
    /// How the FairPlay license servers of the vendor take a challenge.
    pub(super) const fn spc_form(self) -> SpcForm {
        match self {
            Self::Drmtoday | Self::Doverunner => SpcForm::Form,
            Self::Axinom | Self::Ezdrm | Self::Nagra => SpcForm::Raw,
            Self::Plain | Self::Jwt => SpcForm::AsSent,
        }
    }
}

pub struct MessageSigner {
    header: Option<HeaderName>,
    form: MessageForm,
}

enum MessageForm {
    Plain,
    Drmtoday { merchant: String },
    Axinom(Signer),
    Jwt(Signer),
    Doverunner(DoverunnerSite),
    Ezdrm,
    Nagra(Signer),
}

struct Signer {
    id: Option<String>,
    key: hmac::Key,
}

impl MessageSigner {
    pub(crate) fn new(
        style: Style,
        drm: Drm,
        settings: &MessageSettings,
    ) -> Result<Self, BadLicenseServer> {
        let bad = BadLicenseServer;
        let named = settings.header.as_deref().map(|name| {
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("is not a valid header name"))
        });
        let named = named.transpose()?;
        // A configured name wins over the vendor's.
        let usual = |name| Some(named.clone().unwrap_or(HeaderName::from_static(name)));
        let (header, form) = match style {
            Style::Plain => (named, MessageForm::Plain),
            Style::Drmtoday => {
                let merchant = settings.merchant.clone();
                let merchant = merchant.ok_or(bad("style `drmtoday` needs `merchant`"))?;
                (
                    usual("x-dt-custom-data"),
                    MessageForm::Drmtoday { merchant },
                )
            }
            Style::Axinom => {
                let signer = Signer::new(settings)?;
                // Axinom finds the key by this id.
                if signer.id.is_none() {
                    return Err(bad("style `axinom` needs `message_key_id`"));
                }
                (usual("x-axdrm-message"), MessageForm::Axinom(signer))
            }
            Style::Nagra => {
                let signer = Signer::new(settings)?;
                if signer.id.is_none() {
                    return Err(bad(
                        "style `nagra` needs `message_key_id`, the `credentialId` of the credentials",
                    ));
                }
                (usual("nv-authorizations"), MessageForm::Nagra(signer))
            }
            Style::Jwt => {
                // No vendor defines a header for this format.
                let header = named.ok_or(bad("style `jwt` needs `custom_data_header`"))?;
                (Some(header), MessageForm::Jwt(Signer::new(settings)?))
            }
            Style::Doverunner => {
                let site = DoverunnerSite::new(drm, settings)?;
                (
                    usual("pallycon-customdata-v2"),
                    MessageForm::Doverunner(site),
                )
            }
            Style::Ezdrm => (None, MessageForm::Ezdrm),
        };
        Ok(Self { header, form })
    }

    pub(super) fn header(&self, about: &LicenseSubject) -> Option<(HeaderName, HeaderValue)> {
        let name = self.header.clone()?;
        let text = match &self.form {
            MessageForm::Plain => in_base64(&subject(about)),
            MessageForm::Drmtoday { merchant } => in_base64(&json!({
                "userId": about.user.to_string(),
                "sessionId": about.session.to_string(),
                "merchant": merchant,
            })),
            MessageForm::Axinom(signer) => signer.token(&axinom(about, signer.id.as_deref())),
            MessageForm::Jwt(signer) => signer.token(&json!({
                "sub": about.user.to_string(),
                "sid": about.session.to_string(),
                "asset": about.asset.as_str(),
                "kids": about.kids.iter().map(|kid| HEXLOWER.encode(kid)).collect::<Vec<_>>(),
                "iat": about.now.0,
                "exp": about.now.0 + VALID_SECONDS,
            })),
            MessageForm::Nagra(signer) => signer.token(&json!({
                "ver": "1.0",
                "typ": "ContentAuthZ",
                "exp": about.now.0 + VALID_SECONDS,
                "device": {"accountId": about.user.to_string()},
                "contentRights": [{"contentId": about.asset.as_str()}],
            })),
            MessageForm::Doverunner(site) => in_base64(&site.token(about)),
            MessageForm::Ezdrm => return None,
        };
        // Base64 and dots: always a valid header value.
        let mut value = HeaderValue::try_from(text).ok()?;
        // Keeps the message, which is a credential, out of `Debug` output.
        value.set_sensitive(true);
        Some((name, value))
    }

    /// The target of the request, if it depends on the subject. The placeholders of an address are the asset and its
    /// first key id.
    pub(super) fn target(&self, site: &RequestTarget, about: &LicenseSubject) -> Option<String> {
        let fixed = site.target();
        let mut target = fixed.replace("{asset}", &escaped(about.asset.as_str()));
        if target.contains("{kid}") {
            let kid = about.kids.first().map(uuid).unwrap_or_default();
            target = target.replace("{kid}", &kid);
        }
        if let MessageForm::Ezdrm = self.form {
            let sign = if target.contains('?') { '&' } else { '?' };
            // This alphabet needs no escapes in a query.
            let data = BASE64URL_NOPAD.encode(subject(about).to_string().as_bytes());
            target = format!("{target}{sign}CustomData={data}");
        }
        (target != fixed).then_some(target)
    }
}

/// Escapes what has a meaning in a path or a query.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn subject(about: &LicenseSubject) -> Value {
    json!({
        "userId": about.user.to_string(),
        "sessionId": about.session.to_string(),
        "assetId": about.asset.as_str(),
    })
}

fn in_base64(value: &Value) -> String {
    BASE64.encode(value.to_string().as_bytes())
}

fn axinom(about: &LicenseSubject, key_id: Option<&str>) -> Value {
    let until = DateTime::from_timestamp(about.now.0 + VALID_SECONDS, 0);
    let until = until.map(|until| until.to_rfc3339_opts(SecondsFormat::Secs, true));
    // Tracks can share a key; each is listed once.
    let mut seen = HashSet::new();
    let kids = about.kids.iter().filter(|kid| seen.insert(**kid));
    let inline: Vec<Value> = kids.map(|kid| json!({"id": uuid(kid)})).collect();
    json!({
        "version": 1,
        "com_key_id": key_id,
        // A captured message is useless after five minutes, and for the keys of any other asset.
        "expiration_date": until,
        "message": {
            "type": "entitlement_message",
            "version": 2,
            "content_keys_source": {"inline": inline},
        },
    })
}

pub(super) fn uuid(bytes: &[u8; 16]) -> String {
    // Axinom names keys by UUIDs.
    let hex = HEXLOWER.encode(bytes);
    let part = |from, to| hex.get(from..to).unwrap_or_default();
    [
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32),
    ]
    .join("-")
}

impl Signer {
    fn new(settings: &MessageSettings) -> Result<Self, BadLicenseServer> {
        let bad = BadLicenseServer;
        let key = settings.key.as_deref();
        let key = key.ok_or(bad("this style needs `message_key`"))?;
        let key = BASE64.decode(key.as_bytes());
        let key = key.map_err(|_| bad("`message_key` must be base64"))?;
        // A shorter HMAC key could be guessed from one captured message.
        if key.len() < 16 {
            return Err(bad("`message_key` must have 16 bytes or more"));
        }
        Ok(Self {
            id: settings.key_id.clone(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
        })
    }

    fn token(&self, claims: &Value) -> String {
        let mut head = json!({"alg": "HS256", "typ": "JWT"});
        // The id lets the license server change its key (RFC 7515, 4.1.4).
        if let (Some(id), Value::Object(members)) = (&self.id, &mut head) {
            members.insert("kid".to_owned(), json!(id));
        }
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let signed = format!("{}.{}", part(&head), part(claims));
        let tag = hmac::sign(&self.key, signed.as_bytes());
        format!("{signed}.{}", BASE64URL_NOPAD.encode(tag.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use playgate_types::{AssetId, SessionId, UnixSeconds, UserId};

    fn about() -> LicenseSubject {
        LicenseSubject {
            user: UserId::from_bytes([1; 16]),
            session: SessionId::from_bytes([2; 16]),
            asset: AssetId::parse("film").unwrap(),
            kids: vec![[0x11; 16], [0xab; 16], [0x11; 16]],
            now: UnixSeconds(1_800_000_000),
        }
    }

    fn settings() -> MessageSettings {
        MessageSettings {
            header: None,
            merchant: Some("acme".to_owned()),
            key_id: Some("cc36e85d-2fdf-462c-b395-030907447afc".to_owned()),
            key: Some(BASE64.encode(&[7; 32])),
            access_key: None,
        }
    }

    fn header(style: Style, settings: &MessageSettings) -> Option<(String, String)> {
        let messenger = MessageSigner::new(style, Drm::Widevine, settings).unwrap();
        let (name, value) = messenger.header(&about())?;
        assert!(value.is_sensitive());
        Some((name.to_string(), value.to_str().unwrap().to_owned()))
    }

    fn read(base64: &str) -> Value {
        serde_json::from_slice(&BASE64.decode(base64.as_bytes()).unwrap()).unwrap()
    }

    /// Header and claims of a JWT with a valid signature.
    fn verified(token: &str) -> (Value, Value) {
        let (signed, tag) = token.rsplit_once('.').unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]);
        let tag = BASE64URL_NOPAD.decode(tag.as_bytes()).unwrap();
        hmac::verify(&key, signed.as_bytes(), &tag).unwrap();
        let (head, claims) = signed.split_once('.').unwrap();
        let part = |text: &str| {
            serde_json::from_slice(&BASE64URL_NOPAD.decode(text.as_bytes()).unwrap()).unwrap()
        };
        (part(head), part(claims))
    }

    #[test]
    fn each_vendor_gets_its_format() {
        let (user, session) = (about().user.to_string(), about().session.to_string());
        let other = MessageSettings {
            header: Some("X-Custom".to_owned()),
            ..settings()
        };
        assert_eq!(header(Style::Plain, &settings()), None);
        let (name, value) = header(Style::Plain, &other).unwrap();
        assert_eq!(name, "x-custom");
        let plain = json!({"userId": user, "sessionId": session, "assetId": "film"});
        assert_eq!(read(&value), plain);

        let (name, value) = header(Style::Drmtoday, &settings()).unwrap();
        assert_eq!(name, "x-dt-custom-data");
        let drmtoday = json!({"userId": user, "sessionId": session, "merchant": "acme"});
        assert_eq!(read(&value), drmtoday);
        assert_eq!(header(Style::Drmtoday, &other).unwrap().0, "x-custom");

        let (name, value) = header(Style::Axinom, &settings()).unwrap();
        assert_eq!(name, "x-axdrm-message");
        let (head, message) = verified(&value);
        assert_eq!(
            (&head["alg"], &head["typ"]),
            (&json!("HS256"), &json!("JWT"))
        );
        let expected = json!({
            "version": 1,
            "com_key_id": "cc36e85d-2fdf-462c-b395-030907447afc",
            "expiration_date": "2027-01-15T08:05:00Z",
            "message": {
                "type": "entitlement_message",
                "version": 2,
                "content_keys_source": {"inline": [
                    {"id": "11111111-1111-1111-1111-111111111111"},
                    {"id": "abababab-abab-abab-abab-abababababab"},
                ]},
            },
        });
        assert_eq!(message, expected);

        let (name, value) = header(Style::Nagra, &settings()).unwrap();
        assert_eq!(name, "nv-authorizations");
        let (head, token) = verified(&value);
        let id = "cc36e85d-2fdf-462c-b395-030907447afc";
        assert_eq!(head, json!({"alg": "HS256", "typ": "JWT", "kid": id}));
        let expected = json!({
            "ver": "1.0",
            "typ": "ContentAuthZ",
            "exp": 1_800_000_300,
            "device": {"accountId": user},
            "contentRights": [{"contentId": "film"}],
        });
        assert_eq!(token, expected);

        let (name, value) = header(Style::Jwt, &other).unwrap();
        assert_eq!(name, "x-custom");
        let (head, claims) = verified(&value);
        assert_eq!(head["kid"], "cc36e85d-2fdf-462c-b395-030907447afc");
        assert_eq!(claims["sub"], user);
        assert_eq!(claims["kids"][1], "ab".repeat(16));
        assert_eq!(claims["exp"], 1_800_000_300);
    }

    #[test]
    fn missing_settings_are_reported_at_startup() {
        let none = MessageSettings::default();
        let short = MessageSettings {
            key: Some(BASE64.encode(&[7; 15])),
            ..settings()
        };
        let unnamed = MessageSettings {
            key_id: None,
            ..settings()
        };
        for (style, settings, why) in [
            (Style::Drmtoday, &none, "merchant"),
            (Style::Axinom, &none, "message_key"),
            (Style::Axinom, &unnamed, "message_key_id"),
            (Style::Nagra, &unnamed, "message_key_id"),
            (Style::Jwt, &settings(), "custom_data_header"),
            (Style::Axinom, &short, "16 bytes"),
            (Style::Doverunner, &none, "merchant"),
            (Style::Doverunner, &settings(), "access_key"),
        ] {
            let error = MessageSigner::new(style, Drm::Widevine, settings)
                .err()
                .unwrap()
                .to_string();
            assert!(error.contains(why), "{style:?}: {error}");
        }
    }
}
