//! Sets of public keys (RFC 7517), and which key a signature needs.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde::Deserialize;
use serde_json::Value;

/// Maximum size of a set in bytes.
pub(crate) const MAX_SIZE: usize = 256 << 10;

/// Maximum number of keys in a set.
const MAX_KEYS: usize = 64;

/// The keys of an issuer that can verify signatures.
#[derive(Debug)]
pub(crate) struct KeySet(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    /// The algorithms of the key: the algorithm that it names, or all algorithms of its type and
    /// curve.
    algorithms: Vec<Algorithm>,
    verifying: DecodingKey,
}

/// The result of a search in a set.
#[derive(Debug)]
pub(crate) enum Lookup<'a> {
    /// The key.
    Found(&'a DecodingKey),
    /// The key of this id is for other algorithms. Or the token names no key, and not exactly one
    /// key fits its algorithm.
    Unfit,
    /// The set has no key of this id.
    Unknown,
}

/// A text that is no set of keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeySetError {
    /// It is not a JSON object with an array of keys.
    #[error("it is not a JSON object with an array `keys` (RFC 7517)")]
    NotASet,
    /// It is too long.
    #[error("it has {size} bytes; at most {MAX_SIZE} are read")]
    TooLong {
        /// Its size in bytes.
        size: usize,
    },
    /// It has too many keys.
    #[error("it has {keys} keys; at most {MAX_KEYS} are read")]
    TooMany {
        /// Number of keys.
        keys: usize,
    },
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a set. Keys that cannot verify a signature of a known algorithm are left out, as the
    /// RFC asks for in section 5.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        if json.len() > MAX_SIZE {
            return Err(KeySetError::TooLong { size: json.len() });
        }
        let document: Document = serde_json::from_slice(json).map_err(|_| KeySetError::NotASet)?;
        if document.keys.len() > MAX_KEYS {
            let keys = document.keys.len();
            return Err(KeySetError::TooMany { keys });
        }
        let keys = document.keys.into_iter();
        Ok(Self(keys.filter_map(Key::parse).collect()))
    }

    /// Number of keys that can be used.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Finds the key of an id that fits an algorithm. Without an id, finds the only key that fits
    /// it.
    pub(crate) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Lookup<'_> {
        let fits = |key: &&Key| key.algorithms.contains(&algorithm);
        let Some(id) = id else {
            // OpenID Connect Core, section 10.1: with several keys, the token must name one.
            let mut fitting = self.0.iter().filter(fits);
            return match (fitting.next(), fitting.next()) {
                (Some(key), None) => Lookup::Found(&key.verifying),
                _ => Lookup::Unfit,
            };
        };
        let mut of_id = self.0.iter().filter(|key| key.id.as_deref() == Some(id));
        let is_known = of_id.clone().next().is_some();
        match of_id.find(fits) {
            Some(key) => Lookup::Found(&key.verifying),
            None if is_known => Lookup::Unfit,
            None => Lookup::Unknown,
        }
    }
}

impl Key {
    /// Returns the key if it can verify signatures.
    fn parse(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let common = &jwk.common;
        let is_for_signatures = common
            .public_key_use
            .as_ref()
            .is_none_or(|it| *it == PublicKeyUse::Signature);
        let may_verify = common
            .key_operations
            .as_ref()
            .is_none_or(|it| it.contains(&KeyOperations::Verify));
        if !is_for_signatures || !may_verify {
            return None;
        }
        let mut algorithms = algorithms_of_type(&jwk.algorithm);
        if let Some(named) = common.key_algorithm {
            let named = Algorithm::try_from(named).ok();
            algorithms.retain(|algorithm| Some(*algorithm) == named);
        }
        if algorithms.is_empty() {
            return None;
        }
        Some(Self {
            verifying: decoding_key(&jwk)?,
            id: jwk.common.key_id,
            algorithms,
        })
    }
}

/// The algorithms that a key of this type can be for. A secret is for none: its verifiers could
/// sign by it.
fn algorithms_of_type(parameters: &AlgorithmParameters) -> Vec<Algorithm> {
    match parameters {
        AlgorithmParameters::RSA(_) => vec![
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
            Algorithm::PS256,
            Algorithm::PS384,
            Algorithm::PS512,
        ],
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => vec![Algorithm::ES256],
            EllipticCurve::P384 => vec![Algorithm::ES384],
            _ => Vec::new(),
        },
        AlgorithmParameters::OctetKeyPair(key) => match key.curve {
            EllipticCurve::Ed25519 => vec![Algorithm::EdDSA],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn decoding_key(jwk: &Jwk) -> Option<DecodingKey> {
    let key = DecodingKey::from_jwk(jwk).ok()?;
    let DecodingKeyKind::RsaModulusExponent { n, e } = key.kind() else {
        return Some(key);
    };
    // RFC 7518, section 6.3.1.1, mentions libraries that write a zero before the modulus. ring
    // refuses such a number.
    let n = n.strip_prefix(&[0]).unwrap_or(n);
    Some(DecodingKey::from_rsa_raw_components(n, e))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rsa(extra: &Value) -> Value {
        let mut key = json!({"kty": "RSA", "n": "AMF5", "e": "AQAB"});
        let extra = extra.as_object().expect("it is an object").clone();
        key.as_object_mut().expect("it is an object").extend(extra);
        key
    }

    fn set(keys: &[Value]) -> KeySet {
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn key_fits_the_algorithms_of_its_type_or_the_one_that_it_names() {
        let ec = json!({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "ec"});
        let ed = json!({"kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": "ed"});
        let set = set(&[
            rsa(&json!({"kid": "rsa"})),
            rsa(&json!({"kid": "pss", "alg": "PS256"})),
            ec,
            ed,
        ]);
        for (id, algorithm, expected) in [
            ("rsa", Algorithm::RS256, true),
            ("rsa", Algorithm::PS512, true),
            ("rsa", Algorithm::ES256, false),
            ("rsa", Algorithm::HS256, false),
            ("pss", Algorithm::PS256, true),
            ("pss", Algorithm::RS256, false),
            ("ec", Algorithm::ES256, true),
            ("ec", Algorithm::ES384, false),
            ("ec", Algorithm::EdDSA, false),
            ("ed", Algorithm::EdDSA, true),
            ("ed", Algorithm::RS256, false),
        ] {
            let found = set.find(Some(id), algorithm);
            assert_eq!(
                matches!(found, Lookup::Found(_)),
                expected,
                "{id} {algorithm:?}"
            );
            assert_eq!(
                matches!(found, Lookup::Unfit),
                !expected,
                "{id} {algorithm:?}"
            );
        }
        assert!(matches!(
            set.find(Some("x"), Algorithm::RS256),
            Lookup::Unknown
        ));
    }

    #[test]
    fn token_without_a_key_id_needs_a_set_with_one_fitting_key() {
        let one = set(&[rsa(&json!({"kid": "a"})), json!({"kty": "oct", "k": "AA"})]);
        assert!(matches!(one.find(None, Algorithm::RS256), Lookup::Found(_)));
        assert!(matches!(one.find(None, Algorithm::ES256), Lookup::Unfit));
        let two = set(&[rsa(&json!({"kid": "a"})), rsa(&json!({"kid": "b"}))]);
        assert!(matches!(two.find(None, Algorithm::RS256), Lookup::Unfit));
    }

    #[test]
    fn keys_for_other_purposes_are_left_out() {
        let keys = [
            rsa(&json!({"use": "enc"})),
            rsa(&json!({"key_ops": ["sign"]})),
            rsa(&json!({"alg": "RSA-OAEP"})),
            rsa(&json!({"alg": "ES256"})),
            json!({"kty": "oct", "k": "AA"}),
            json!({"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}),
            json!({"kty": "unheard of"}),
            json!({"kty": "RSA", "n": "?", "e": "?"}),
            json!("a text"),
        ];
        assert_eq!(set(&keys).len(), 0);
        let usable = rsa(&json!({"use": "sig", "key_ops": ["verify"], "alg": "RS256", "x5c": []}));
        assert_eq!(set(&[usable]).len(), 1);
    }

    #[test]
    fn sets_are_bounded() {
        let keys = |count| json!({"keys": vec![rsa(&json!({})); count]}).to_string();
        assert_eq!(KeySet::parse(keys(64).as_bytes()).unwrap().len(), 64);
        let error = KeySet::parse(keys(65).as_bytes()).unwrap_err();
        assert_eq!(error, KeySetError::TooMany { keys: 65 });
        let long = vec![b' '; MAX_SIZE + 1];
        let error = KeySet::parse(&long).unwrap_err();
        assert_eq!(error, KeySetError::TooLong { size: MAX_SIZE + 1 });
        for other in ["", "[]", "{}", "{\"keys\": {}}"] {
            assert_eq!(
                KeySet::parse(other.as_bytes()).unwrap_err(),
                KeySetError::NotASet
            );
        }
    }
}
