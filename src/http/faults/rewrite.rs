//! Rewrites licenses and playlist addresses in the answers of handlers.

use data_encoding::BASE64URL_NOPAD;
use serde_json::Value;

use crate::request::head_validation::decode;
use crate::response::reply::{Answer, Content, Reply, media};
use crate::state::HttpState;
use playgate_domain::lab::{LicenseFault, PlaylistFault};
use playgate_types::MediaPath;

const GARBAGE_BYTES: usize = 512;

/// Returns the reply with a broken license, or `None` if it has no license that the fault can break.
pub(super) fn license(fault: LicenseFault, random: u64, reply: &Reply) -> Option<Answer> {
    if !reply.status.is_success() {
        return None;
    }
    Some(match fault {
        LicenseFault::Garbage => {
            // A linear congruential generator: the same fault and call give the same bytes.
            let step = |last: &u64| Some(last.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
            let bytes = std::iter::successors(Some(random), step).skip(1);
            let bytes: Vec<u8> = bytes
                .map(|word| word.to_be_bytes()[0])
                .take(GARBAGE_BYTES)
                .collect();
            Ok(Reply::bytes(media::BYTES, bytes))
        }
        LicenseFault::Empty => Ok(Reply::bytes(media::BYTES, Vec::new())),
        LicenseFault::ForeignKid => Reply::json(&foreign_kids(reply)?),
    })
}

/// Returns the Clear Key license with other key ids.
fn foreign_kids(reply: &Reply) -> Option<Value> {
    let mut body = json(reply)?;
    for key in body.get_mut("keys")?.as_array_mut()? {
        let kid = key.get_mut("kid")?;
        let bytes = BASE64URL_NOPAD.decode(kid.as_str()?.as_bytes()).ok()?;
        // Inverted: certainly another id, and the same one at each repetition.
        let foreign: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
        *kid = BASE64URL_NOPAD.encode(&foreign).into();
    }
    Some(body)
}

/// Returns the answer of a preflight with a broken playlist address. Returns `None` for addresses of other servers,
/// which check signatures themselves.
pub(super) fn playlist(http: &HttpState, fault: PlaylistFault, reply: &Reply) -> Option<Answer> {
    let mut body = json(reply)?;
    let playlist = body.get_mut("playlist")?;
    let base = &http.settings.public_url;
    let (token, path) = playlist
        .as_str()?
        .strip_prefix(base.as_str())?
        .strip_prefix(playgate_domain::playback::ORIGIN_PATH)?
        .split_once('/')?;
    let path = MediaPath::parse(&decode(path)?)?;
    // The origin checks addresses by the clock of the service, not by that of the partner.
    let now = http.services.clock.now();
    let address = http
        .services
        .playback
        .faulty_address(token, &path, fault, now)?;
    *playlist = format!("{base}{address}").into();
    Some(Reply::json(&body))
}

fn json(reply: &Reply) -> Option<Value> {
    match &reply.content {
        Content::Bytes(kind, bytes) if *kind == media::JSON => serde_json::from_slice(bytes).ok(),
        Content::Bytes(..)
        | Content::Empty
        | Content::Prepared(_)
        | Content::File(_)
        | Content::Export(..)
        | Content::Stream(..) => None,
    }
}
