//! License tokens of DoveRunner (formerly PallyCon), as its License Token Guide describes them for token proxies.

use aes::Aes256;
use cbc::Encryptor;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeEncrypt as _, KeyIvInit as _};
use chrono::{DateTime, SecondsFormat};
use data_encoding::BASE64;
use ring::digest;
use serde_json::{Value, json};

use super::BadLicenseServer;
use super::subject::{LicenseSubject, MessageSettings};
use playgate_types::Drm;

/// The guide prescribes this value for all sites. A policy holds no secret; the hash protects the token.
const IV: [u8; 16] = *b"0123456789abcdef";
/// Forbids persistent licenses: a stored license would outlive the session.
const POLICY: &str = r#"{"policy_version":2,"playback_policy":{"persistent":false}}"#;

pub(super) struct DoverunnerSite {
    drm: &'static str,
    id: String,
    key: [u8; 32],
    access_key: String,
}

impl DoverunnerSite {
    pub(super) fn new(drm: Drm, settings: &MessageSettings) -> Result<Self, BadLicenseServer> {
        let bad = BadLicenseServer;
        let id = settings.merchant.clone();
        let id = id.ok_or(bad("style `doverunner` needs `merchant`, the site id"))?;
        let access_key = settings.access_key.clone();
        let access_key = access_key.ok_or(bad("style `doverunner` needs `access_key`"))?;
        let key = settings.key.as_deref().map(|key| key.as_bytes().try_into());
        let key = key.ok_or(bad("style `doverunner` needs `message_key`, the site key"))?;
        Ok(Self {
            drm: match drm {
                Drm::Playready => "PlayReady",
                Drm::Fairplay => "FairPlay",
                Drm::Widevine | Drm::Clearkey | Drm::None => "Widevine",
            },
            id,
            key: key.map_err(|_| bad("`message_key` must be the site key of 32 characters"))?,
            access_key,
        })
    }

    pub(super) fn token(&self, about: &LicenseSubject) -> Value {
        // DoveRunner accepts the token for 600 seconds from this time.
        let time = DateTime::from_timestamp(about.now.0, 0).unwrap_or_default();
        let time = time.to_rfc3339_opts(SecondsFormat::Secs, true);
        let (user, content) = (about.user.to_string(), about.asset.as_str());
        let policy = self.encrypt(POLICY);
        let parts = [
            &self.access_key,
            self.drm,
            &self.id,
            &user,
            content,
            &policy,
            &time,
        ];
        json!({
            "drm_type": self.drm,
            "site_id": self.id,
            "user_id": user,
            "cid": content,
            "policy": policy,
            "timestamp": time,
            "hash": hash(&parts),
            "response_format": "original",
            "key_rotation": false,
        })
    }

    fn encrypt(&self, policy: &str) -> String {
        let cipher = Encryptor::<Aes256>::new(&self.key.into(), &IV.into());
        BASE64.encode(&cipher.encrypt_padded_vec::<Pkcs7>(policy.as_bytes()))
    }
}

fn hash(parts: &[&str]) -> String {
    let hash = digest::digest(&digest::SHA256, parts.concat().as_bytes());
    BASE64.encode(hash.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use playgate_types::{AssetId, SessionId, UnixSeconds, UserId};

    /// The example of DoveRunner's tutorial, as other implementations encrypt and hash it.
    #[test]
    fn the_vendors_example_gives_its_policy_and_hash() {
        let site = site(Drm::Widevine);
        let policy = site
            .encrypt(r#"{"playback_policy":{"limit":true,"persistent":false,"duration":3600}}"#);
        assert_eq!(
            policy,
            "bO9DzyQgtgfbSDWmqGgZXWZdWm7M4oZ4X0hC1hS6QNraiwLI0LwmNY+OfOh1L0KmtuH7NF1blUxep9YLWrNfSy4H/6swQW7pbjZnRqRguDQ="
        );
        let parts = [
            site.access_key.as_str(),
            "Widevine",
            "TUTO",
            "test-user",
            "bigbuckbunny",
            &policy,
            "2019-07-17T08:57:04Z",
        ];
        assert_eq!(hash(&parts), "0Zef3WHBbzQAR0oGf5KXn25G1TmvB2Bkvzv+7OqIWvQ=");
    }

    #[test]
    fn a_token_names_user_content_and_drm() {
        let about = LicenseSubject {
            user: UserId::from_bytes([1; 16]),
            session: SessionId::from_bytes([2; 16]),
            asset: AssetId::parse("film").unwrap(),
            kids: Vec::new(),
            now: UnixSeconds(1_800_000_000),
        };
        for (drm, name) in [
            (Drm::Widevine, "Widevine"),
            (Drm::Playready, "PlayReady"),
            (Drm::Fairplay, "FairPlay"),
        ] {
            let token = site(drm).token(&about);
            let text = |name| token[name].as_str().unwrap();
            assert_eq!((text("drm_type"), text("cid")), (name, "film"));
            assert_eq!(text("user_id"), about.user.to_string());
            assert_eq!(text("timestamp"), "2027-01-15T08:00:00Z");
            let names = [
                "drm_type",
                "site_id",
                "user_id",
                "cid",
                "policy",
                "timestamp",
            ];
            let mut parts = vec!["LT2FVJDp2Xr018zf4Di6lzvNOv3DKP20"];
            parts.extend(names.map(text));
            assert_eq!(text("hash"), hash(&parts));
        }
    }

    fn site(drm: Drm) -> DoverunnerSite {
        let settings = MessageSettings {
            merchant: Some("TUTO".to_owned()),
            key: Some("lU5D8s3PWoLls3PWFWkClULlFWk5D8oC".to_owned()),
            access_key: Some("LT2FVJDp2Xr018zf4Di6lzvNOv3DKP20".to_owned()),
            ..MessageSettings::default()
        };
        let short = MessageSettings {
            key: Some("short".to_owned()),
            ..settings.clone()
        };
        assert!(DoverunnerSite::new(drm, &short).is_err());
        DoverunnerSite::new(drm, &settings).ok().unwrap()
    }
}
