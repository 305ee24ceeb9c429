//! Signed URLs of Amazon CloudFront with a custom policy that covers the manifest's directory by a wildcard
//! (CloudFront Developer Guide, "Create a signed URL using a custom policy").
//!
//! Only SHA-256 is supported, which CloudFront accepts with `Hash-Algorithm=SHA256` since April 2026. Its
//! older default is SHA-1, which ring does not sign; the `rsa` crate could, but has an open timing advisory
//! (RUSTSEC-2023-0071). Keys are ECDSA P-256 or RSA with 2048 bits.

use data_encoding::BASE64;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;

use playgate_ports::entropy;
use playgate_types::{Malformed, UnixSeconds};

use super::target::SignedTarget;

pub(super) struct CloudFrontKey {
    id: String,
    pair: QueryPair,
    random: SystemRandom,
}

enum QueryPair {
    Ecdsa(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl CloudFrontKey {
    /// PEM: PKCS#8, or PKCS#1 for RSA.
    pub(super) fn parse(id: &str, pem: &str) -> Result<Self, Malformed> {
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| Malformed("must be a private key as PEM, without a password"))?;
        let random = entropy::signature_random();
        let pair = match &key {
            PrivateKeyDer::Pkcs8(der) => {
                let der = der.secret_pkcs8_der();
                let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
                EcdsaKeyPair::from_pkcs8(algorithm, der, &random)
                    .map(QueryPair::Ecdsa)
                    .or_else(|_| RsaKeyPair::from_pkcs8(der).map(QueryPair::Rsa))
            }
            PrivateKeyDer::Pkcs1(der) => {
                RsaKeyPair::from_der(der.secret_pkcs1_der()).map(QueryPair::Rsa)
            }
            _ => {
                return Err(Malformed(
                    "must be of the form PKCS#8: `openssl pkcs8 -topk8 -nocrypt` makes it so",
                ));
            }
        };
        // ring accepts longer RSA keys, CloudFront does not.
        let fits = |pair: &QueryPair| match pair {
            QueryPair::Ecdsa(_) => true,
            QueryPair::Rsa(pair) => pair.public().modulus_len() == 256,
        };
        let pair = pair.ok().filter(fits).ok_or(Malformed(
            "must be of ECDSA P-256, or of RSA with 2048 bits",
        ))?;
        Ok(Self {
            id: id.to_owned(),
            pair,
            random,
        })
    }

    pub(super) fn is_slow(&self) -> bool {
        // An RSA signature takes 0.6 ms, an ECDSA signature 0.03 ms.
        matches!(self.pair, QueryPair::Rsa(_))
    }

    pub(super) fn sign(&self, target: &SignedTarget<'_>, expires: UnixSeconds) -> Option<String> {
        // Needs no JSON escaping: the target is percent-encoded and has no wildcard.
        let policy = format!(
            r#"{{"Statement":[{{"Resource":"{}{}*","Condition":{{"DateLessThan":{{"AWS:EpochTime":{expires}}}}}}}]}}"#,
            target.origin, target.directory,
        );
        let signature = match &self.pair {
            QueryPair::Ecdsa(pair) => {
                let signature = pair.sign(&self.random, policy.as_bytes()).ok()?;
                signature.as_ref().to_vec()
            }
            QueryPair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let message = policy.as_bytes();
                pair.sign(&RSA_PKCS1_SHA256, &self.random, message, &mut signature)
                    .ok()?;
                signature
            }
        };
        target.with_parameters(&format!(
            "Policy={}&Signature={}&Key-Pair-Id={}&Hash-Algorithm=SHA256",
            encode(policy.as_bytes()),
            encode(&signature),
            self.id,
        ))
    }
}

fn encode(bytes: &[u8]) -> String {
    let encoded = BASE64.encode(bytes);
    encoded
        // CloudFront's replacements for characters that have a meaning in a query.
        .replace('+', "-")
        .replace('=', "_")
        .replace('/', "~")
}
