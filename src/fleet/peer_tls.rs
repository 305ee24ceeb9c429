//! TLS between the members of a fleet. Both sides prove that they hold the key that all members share, as a raw public
//! key (RFC 7250). There are no certificates, so nothing expires and no name has to match.

use std::fmt;
use std::sync::Arc;

use rustls_pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use tokio_rustls::rustls::client::ResolvesClientCert;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::ring::{default_provider, sign::any_eddsa_type};
use tokio_rustls::rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    self, ClientConfig, DigitallySignedStruct, DistinguishedName, PeerIncompatible, ServerConfig,
    SignatureScheme,
};

use super::peer_keys::{PeerKeys, public_key};

/// DER of an Ed25519 key before its 32 bytes.
const PUBLIC_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
const PRIVATE_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

pub(super) fn any_name() -> ServerName<'static> {
    // The TLS client requires a name, which is not verified.
    ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into())
}

fn subject(public_key: &[u8; 32]) -> Vec<u8> {
    [&PUBLIC_PREFIX[..], public_key].concat()
}

pub(super) fn server_config(keys: &Arc<PeerKeys>) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])?
        // Any client key is accepted, since a joining member does not have the key of the fleet yet. `is_member` decides
        // which requests are allowed.
        .with_client_cert_verifier(Arc::new(KeyCheck::new(Expected::Any)))
        .with_cert_resolver(Arc::new(Presented(Arc::clone(keys))));
    // A session that is resumed has the client key of its first connection. After a rotation it would be a stranger's, or a
    // lost machine would still be a member.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The other side must have a key that this member accepts.
pub(super) fn client_config(keys: &Arc<PeerKeys>) -> Result<Arc<ClientConfig>, rustls::Error> {
    client_config_for(keys, Expected::Accepted(Arc::clone(keys)))
}

/// The configuration of a joining member: `server` is the public key that the inviting member must have.
pub(super) fn joining_config(
    seed: &[u8; 32],
    server: &[u8; 32],
) -> Result<Arc<ClientConfig>, rustls::Error> {
    let keys = Arc::new(PeerKeys::new(*seed, None));
    client_config_for(&keys, Expected::Key(subject(server)))
}

fn client_config_for(
    keys: &Arc<PeerKeys>,
    expected: Expected,
) -> Result<Arc<ClientConfig>, rustls::Error> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(KeyCheck::new(expected)))
        .with_client_cert_resolver(Arc::new(Presented(Arc::clone(keys))));
    Ok(Arc::new(config))
}

pub(super) fn is_member(presented: Option<&[CertificateDer<'_>]>, keys: &PeerKeys) -> bool {
    let first = presented.and_then(|keys| keys.first());
    first.is_some_and(|key| is_accepted(key, keys))
}

fn is_accepted(presented: &CertificateDer<'_>, keys: &PeerKeys) -> bool {
    keys.accepted()
        .any(|accepted| presented.as_ref() == subject(&accepted))
}

/// The key that this side presents, which changes while connections are made.
struct Presented(Arc<PeerKeys>);

impl fmt::Debug for Presented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the key.
        f.write_str("Presented")
    }
}

impl Presented {
    fn certified(&self) -> Option<Arc<CertifiedKey>> {
        certified(&self.0.presented()).ok()
    }
}

impl ResolvesServerCert for Presented {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.certified()
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }
}

impl ResolvesClientCert for Presented {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.certified()
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn certified(seed: &[u8; 32]) -> Result<Arc<CertifiedKey>, rustls::Error> {
    let private = PrivatePkcs8KeyDer::from([&PRIVATE_PREFIX[..], seed].concat());
    let public =
        public_key(seed).ok_or_else(|| rustls::Error::General("invalid key".to_owned()))?;
    let key = any_eddsa_type(&private)?;
    let public = CertificateDer::from(subject(&public));
    Ok(Arc::new(CertifiedKey::new(vec![public], key)))
}

enum Expected {
    Any,
    Key(Vec<u8>),
    Accepted(Arc<PeerKeys>),
}

/// Compares a raw public key with the expected one. The signature of the handshake proves that the other side has the private
/// key.
struct KeyCheck {
    expected: Expected,
    algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for KeyCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyCheck")
    }
}

impl KeyCheck {
    fn new(expected: Expected) -> Self {
        Self {
            expected,
            algorithms: default_provider().signature_verification_algorithms,
        }
    }

    fn check(&self, presented: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let is_expected = match &self.expected {
            Expected::Any => true,
            Expected::Key(expected) => presented.as_ref() == expected,
            Expected::Accepted(keys) => is_accepted(presented, keys),
        };
        match is_expected {
            true => Ok(()),
            false => Err(rustls::Error::InvalidCertificate(
                rustls::CertificateError::UnknownIssuer,
            )),
        }
    }

    fn signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }
}

fn no_tls12() -> Result<HandshakeSignatureValid, rustls::Error> {
    Err(PeerIncompatible::Tls13RequiredForQuic.into())
}

impl ServerCertVerifier for KeyCheck {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(presented)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(message, key, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for KeyCheck {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        presented: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(presented)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(message, key, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;
    use crate::peer_keys::KeyStep;

    /// Returns the client's result, and whether the server accepts it as a member of the fleet with the key `[1; 32]`.
    fn shake(client: [u8; 32], expected: [u8; 32]) -> (std::io::Result<()>, Option<bool>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let key = public_key(&expected).unwrap();
        let connector = TlsConnector::from(joining_config(&client, &key).unwrap());
        let keys = Arc::new(PeerKeys::new([1; 32], None));
        let acceptor = TlsAcceptor::from(server_config(&keys).unwrap());
        let (near, far) = tokio::io::duplex(64 * 1024);
        runtime.block_on(async {
            let connecting = async {
                let mut stream = connector.connect(any_name(), near).await?;
                stream.write_all(b"x").await?;
                stream.read_u8().await.map(drop)
            };
            let accepting = async {
                let mut stream = acceptor.accept(far).await.ok()?;
                stream.read_u8().await.ok()?;
                stream.write_all(b"y").await.ok()?;
                Some(is_member(stream.get_ref().1.peer_certificates(), &keys))
            };
            tokio::join!(connecting, accepting)
        })
    }

    #[test]
    fn who_connected_before_a_rotation_is_a_member_after_it_and_who_has_the_old_key_is_not() {
        let new = [5; 32];
        let public = data_encoding::HEXLOWER.encode(&public_key(&new).unwrap());
        let [server_keys, other, lost] = [(); 3].map(|()| Arc::new(PeerKeys::new([1; 32], None)));
        let acceptor = TlsAcceptor::from(server_config(&server_keys).unwrap());
        let [other_side, lost_side] =
            [&other, &lost].map(|keys| TlsConnector::from(client_config(keys).unwrap()));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let is_accepted = |connector: &TlsConnector| {
            let (near, far) = tokio::io::duplex(64 * 1024);
            runtime.block_on(async {
                let connecting = async {
                    let mut stream = connector.connect(any_name(), near).await?;
                    stream.write_all(b"x").await?;
                    stream.read_u8().await
                };
                let accepting = async {
                    let mut stream = acceptor.accept(far).await.ok()?;
                    stream.read_u8().await.ok()?;
                    stream.write_all(b"y").await.ok()?;
                    Some(is_member(
                        stream.get_ref().1.peer_certificates(),
                        &server_keys,
                    ))
                };
                tokio::join!(connecting, accepting).1 == Some(true)
            })
        };
        assert!(is_accepted(&other_side) && is_accepted(&lost_side));
        for step in [
            KeyStep::Offer(data_encoding::HEXLOWER.encode(&new)),
            KeyStep::Present(public.clone()),
            KeyStep::Retire(public),
        ] {
            server_keys.take(&step).unwrap();
            other.take(&step).unwrap();
            assert!(is_accepted(&other_side), "{step:?}");
        }
        assert!(!is_accepted(&lost_side));
    }

    #[test]
    fn members_know_each_other_by_the_key_of_the_fleet() {
        let (connected, member) = shake([1; 32], [1; 32]);
        connected.unwrap();
        assert_eq!(member, Some(true));
        // A joining member has another key, and is not a member yet.
        let (connected, member) = shake([2; 32], [1; 32]);
        connected.unwrap();
        assert_eq!(member, Some(false));
        // An invitation of another fleet.
        let (connected, _) = shake([2; 32], [3; 32]);
        assert_eq!(
            connected.unwrap_err().kind(),
            std::io::ErrorKind::InvalidData
        );
    }
}
