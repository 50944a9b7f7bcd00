//! Credentials that tests make: JWTs, and signed links.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use windlass_server::{Clock as _, SystemClock};

/// A key that signs tokens, and the set of keys by which they are verified.
pub(crate) struct Signer(Ed25519KeyPair);

impl Signer {
    pub(crate) fn new() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("it is random");
        Self(Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("it was made now"))
    }

    /// The set of keys, as issuers publish it.
    pub(crate) fn keys(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.0.public_key().as_ref());
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": x}]})
    }

    /// A token with this header and these claims.
    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = self.0.sign(message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

/// The time in seconds since the Unix epoch.
pub(crate) fn now() -> u64 {
    SystemClock.now().as_millis() / 1000
}

/// The secret of the keys of links that tests sign with, as the file of credentials has it.
pub(crate) const LINK_SECRET: &str =
    "6f6c64206f6c64206f6c64206f6c64206f6c64206f6c64206f6c64206f6c6420";

/// The value of `X-Windlass-Link` for this path, in the form of docs/protocol.md, signed by the key
/// `k`. Tests of the links themselves use `windlass sign`.
pub(crate) fn link(verb: &str, path: &str, expires: u64) -> String {
    let claims = json!({
        "id": "an-id", "method": verb, "host": "farm.localhost", "path": path, "expires": expires,
    });
    let signed = format!("1.k.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, &b"old ".repeat(8));
    let signature = hmac::sign(&key, signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
}
