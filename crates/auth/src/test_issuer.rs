//! An issuer for unit tests: its keys, its replies, and a clock that they drive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PSS_SHA256, RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use windlass_server::Clock;
use windlass_server::outbound::{Outbound, OutboundError, OutboundLimits};
use windlass_store::Timestamp;

/// A key for tests alone. Everybody has it.
const RSA: &[u8] = include_bytes!("../tests/keys/test_only_rsa_2048.pk8.der");

/// A clock that tests drive. It begins at second 1,000,000.
pub(crate) struct DrivenClock(AtomicU64);

impl DrivenClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(1_000_000_000)))
    }

    pub(crate) fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).expect("it is short");
        self.0.fetch_add(millis, Ordering::Relaxed);
    }

    pub(crate) fn seconds(&self) -> u64 {
        self.0.load(Ordering::Relaxed) / 1000
    }
}

impl Clock for DrivenClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

type Answer = dyn Fn(&Request<Bytes>) -> Option<Response<Bytes>> + Send + Sync;

/// Answers requests by a function, which tests replace, and keeps the requests. The function
/// returns `None` for no answer.
pub(crate) struct FakeOutbound {
    answer: Mutex<Arc<Answer>>,
    asked: Mutex<Vec<Request<Bytes>>>,
    /// Number of requests that are under way, and the largest one.
    running: Mutex<(usize, usize)>,
}

impl FakeOutbound {
    pub(crate) fn new(
        answer: impl Fn(&Request<Bytes>) -> Option<Response<Bytes>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            answer: Mutex::new(Arc::new(answer)),
            asked: Mutex::default(),
            running: Mutex::default(),
        })
    }

    /// Answers every request with this document.
    pub(crate) fn with_document(document: &Value) -> Arc<Self> {
        let text = document.to_string();
        Self::new(move |_| Some(Response::new(Bytes::from(text.clone()))))
    }

    pub(crate) fn answer_with_document(&self, document: &Value) {
        let text = document.to_string();
        self.answer_by(move |_| Some(Response::new(Bytes::from(text.clone()))));
    }

    pub(crate) fn answer_by(
        &self,
        answer: impl Fn(&Request<Bytes>) -> Option<Response<Bytes>> + Send + Sync + 'static,
    ) {
        *self.answer.lock().unwrap() = Arc::new(answer);
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    pub(crate) fn most_at_once(&self) -> usize {
        self.running.lock().unwrap().1
    }

    pub(crate) fn last(&self) -> Request<Bytes> {
        self.asked
            .lock()
            .unwrap()
            .last()
            .expect("it was asked")
            .clone()
    }
}

#[async_trait]
impl Outbound for FakeOutbound {
    async fn send(
        &self,
        request: Request<Bytes>,
        limits: OutboundLimits,
    ) -> Result<Response<Bytes>, OutboundError> {
        self.asked.lock().unwrap().push(request.clone());
        {
            let (now, most) = &mut *self.running.lock().unwrap();
            *now += 1;
            *most = (*most).max(*now);
        }
        // Time is paused in these tests: all others that can run do so meanwhile.
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.running.lock().unwrap().0 -= 1;
        let answer = Arc::clone(&self.answer.lock().unwrap());
        let host = request.uri().host().unwrap_or_default().to_owned();
        let reply = answer(&request).ok_or(OutboundError::Timeout {
            host: host.clone(),
            timeout: limits.timeout,
        })?;
        if reply.body().len() > limits.reply {
            let limit = limits.reply;
            return Err(OutboundError::TooLong { host, limit });
        }
        Ok(reply)
    }
}

/// A key that signs.
pub(crate) enum SigningKey {
    Rsa(&'static dyn RsaEncoding, RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl SigningKey {
    pub(crate) fn rs256() -> Self {
        Self::Rsa(&RSA_PKCS1_SHA256, rsa())
    }

    pub(crate) fn ps256() -> Self {
        Self::Rsa(&RSA_PSS_SHA256, rsa())
    }

    pub(crate) fn es256() -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::Ec(EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap())
    }

    pub(crate) fn eddsa() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
    }

    /// The public key as a JWK.
    pub(crate) fn jwk(&self, id: &str) -> Value {
        match self {
            Self::Rsa(_, key) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({"kid": id, "kty": "RSA", "n": base64(&public.n), "e": base64(&public.e)})
            }
            Self::Ec(key) => {
                let point = key.public_key().as_ref();
                let (x, y) = point[1..].split_at(32);
                json!({"kid": id, "kty": "EC", "crv": "P-256", "x": base64(x), "y": base64(y)})
            }
            Self::Ed(key) => {
                let x = base64(key.public_key().as_ref());
                json!({"kid": id, "kty": "OKP", "crv": "Ed25519", "x": x})
            }
        }
    }

    /// The public key as DER: PKCS#1 of RSA.
    pub(crate) fn der(&self) -> Vec<u8> {
        match self {
            Self::Rsa(_, key) => key.public_key().as_ref().to_vec(),
            Self::Ec(key) => key.public_key().as_ref().to_vec(),
            Self::Ed(key) => key.public_key().as_ref().to_vec(),
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(padding, key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(*padding, &random, message, &mut signature)
                    .unwrap();
                signature
            }
            Self::Ec(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// A token with this header and these claims.
    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        token(header, claims, |message| self.sign(message))
    }
}

fn rsa() -> RsaKeyPair {
    RsaKeyPair::from_pkcs8(RSA).unwrap()
}

/// Returns a token that is signed by the function `sign`.
pub(crate) fn token(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let header = base64(header.to_string().as_bytes());
    let message = format!("{header}.{}", base64(claims.to_string().as_bytes()));
    let signature = base64(&sign(message.as_bytes()));
    format!("{message}.{signature}")
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
