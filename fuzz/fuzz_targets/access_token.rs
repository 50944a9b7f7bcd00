//! A JWT that is accepted is signed by its issuer, for this service, and valid now.
//!
//! The input is three lines: a word, a header and claims. The word `signed` makes a token with the
//! signature of the issuer, and `forged` makes one with the signature of another key. Any other
//! word sends the second line as the token.

#![no_main]

use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method, Uri};
use libfuzzer_sys::fuzz_target;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Map, Value, json};
use tokio::runtime::{Builder, Runtime};
use windlass_auth::{AuthFile, Authenticator, Services};
use windlass_fuzz::first_text_line;
use windlass_server::{Access, AccessRequest, Authorize, Clock, Principal};
use windlass_store::Timestamp;

const ISSUER: &str = "https://issuer.example";

const AUDIENCE: &str = "windlass";

/// Now, in seconds since the epoch.
const NOW: u64 = 1_000_000;

/// How much the clocks may differ, in seconds.
const SKEW: u64 = 60;

static ISSUERS_KEY: LazyLock<Ed25519KeyPair> = LazyLock::new(|| key(1));

static OTHER_KEY: LazyLock<Ed25519KeyPair> = LazyLock::new(|| key(2));

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_current_thread();
    builder.build().expect("a thread has a runtime")
});

static AUTHENTICATOR: LazyLock<Authenticator> = LazyLock::new(|| {
    let text = format!(
        "[[jwt]]\nissuer = '{ISSUER}'\naudience = ['{AUDIENCE}']\njwks_file = 'keys.json'\n"
    );
    let x = URL_SAFE_NO_PAD.encode(ISSUERS_KEY.public_key());
    let keys = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "ed"}]}).to_string();
    let services = Services {
        clock: Arc::new(FixedClock),
        read: &|_| Ok(keys.clone()),
        ..Services::none()
    };
    let rules = AuthFile::parse(&text).expect("it is a file of credentials");
    Authenticator::new(rules.into_rules(&services).expect("it has a key"))
});

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(NOW * 1000)
    }
}

fuzz_target!(
    init: {
        let claims = json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": NOW});
        let token = token(&ISSUERS_KEY, r#"{"alg":"EdDSA"}"#, &claims.to_string());
        assert!(ask(&token).is_some(), "a good token is accepted");
    },
    |input: &str| {
        let (word, rest) = first_text_line(input);
        let (header, claims) = first_text_line(rest);
        match word {
            "signed" => {
                if let Some(principal) = ask(&token(&ISSUERS_KEY, header, claims)) {
                    check(header, claims, &principal);
                }
            }
            "forged" => assert!(ask(&token(&OTHER_KEY, header, claims)).is_none()),
            _ => assert!(ask(header).is_none()),
        }
    }
);

fn key(byte: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[byte; 32]).expect("32 bytes are a seed")
}

fn token(key: &Ed25519KeyPair, header: &str, claims: &str) -> String {
    let (header, claims) = (
        URL_SAFE_NO_PAD.encode(header),
        URL_SAFE_NO_PAD.encode(claims),
    );
    let signature = key.sign(format!("{header}.{claims}").as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(signature);
    format!("{header}.{claims}.{signature}")
}

fn ask(token: &str) -> Option<Principal> {
    let bearer = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    let headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
    let uri = Uri::from_static("/farm/v1/animals");
    let request = AccessRequest::new(Access::Call, &Method::GET, &uri, &headers);
    RUNTIME
        .block_on(AUTHENTICATOR.authenticate(&request))
        .ok()?
}

fn check(header: &str, claims: &str, principal: &Principal) {
    let read = |text| serde_json::from_str::<Map<String, Value>>(text).expect("it is an object");
    let (header, claims) = (read(header), read(claims));
    assert_eq!(header["alg"], "EdDSA");
    assert!(
        header
            .get("kid")
            .is_none_or(|id| id.is_null() || id == "ed")
    );
    for foreign in ["jku", "jwk", "x5u", "x5c", "crit"] {
        assert!(header.get(foreign).is_none_or(Value::is_null), "{foreign}");
    }
    assert_eq!(claims["iss"], ISSUER);
    assert_eq!(claims["sub"], principal.id());
    assert!(!principal.id().is_empty());
    let is_for_us = match &claims["aud"] {
        Value::Array(audiences) => audiences.iter().any(|it| it == AUDIENCE),
        audience => audience == AUDIENCE,
    };
    assert!(is_for_us);
    assert!(!claims.contains_key("cnf") && !claims.contains_key("events"));
    let time = |name: &str| {
        claims
            .get(name)
            .map(|it| it.as_f64().expect("a time is a number"))
    };
    #[expect(clippy::cast_precision_loss, reason = "it is a small number")]
    let (now, skew) = (NOW as f64, SKEW as f64);
    assert!(time("exp").expect("a token expires") + skew > now);
    for begins in ["nbf", "iat"] {
        assert!(time(begins).is_none_or(|begins| begins <= now + skew));
    }
}
