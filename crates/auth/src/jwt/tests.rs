use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::{Value, json};

use super::*;
use crate::file::{AuthFile, Services};
use crate::test_issuer::{DrivenClock, FakeOutbound, SigningKey, base64, token};

const ISSUER: &str = "https://issuer.example";

/// The server's side of an issuer with three keys: `rsa`, `ec` and `ed`.
struct World {
    scheme: Arc<dyn TokenScheme>,
    outbound: Arc<FakeOutbound>,
    clock: Arc<DrivenClock>,
    rsa: SigningKey,
    ec: SigningKey,
    ed: SigningKey,
}

fn scheme(
    entry: &str,
    outbound: &Arc<FakeOutbound>,
    clock: &Arc<DrivenClock>,
) -> Arc<dyn TokenScheme> {
    let text = format!("[[jwt]]\nissuer = '{ISSUER}'\naudience = ['windlass', 'other']\n{entry}");
    let outbound = Arc::<FakeOutbound>::clone(outbound);
    let clock = Arc::<DrivenClock>::clone(clock);
    let services = Services {
        outbound,
        clock,
        ..Services::none()
    };
    let rules = AuthFile::parse(&text).unwrap().into_rules(&services);
    rules.unwrap().schemes.remove(1)
}

impl World {
    fn new() -> Self {
        Self::with("jwks_uri = 'https://issuer.example/keys'")
    }

    fn with(entry: &str) -> Self {
        let (rsa, ec, ed) = (
            SigningKey::rs256(),
            SigningKey::es256(),
            SigningKey::eddsa(),
        );
        let keys = json!({"keys": [rsa.jwk("rsa"), ec.jwk("ec"), ed.jwk("ed")]});
        let (outbound, clock) = (FakeOutbound::with_document(&keys), DrivenClock::new());
        Self {
            scheme: scheme(entry, &outbound, &clock),
            outbound,
            clock,
            rsa,
            ec,
            ed,
        }
    }

    /// Claims of a good token, with changes.
    fn claims(&self, changes: &Value) -> Value {
        let now = self.clock.seconds();
        let mut claims = json!({
            "iss": ISSUER, "aud": "windlass", "sub": "alice", "iat": now, "exp": now + 300,
        });
        let changes = changes.as_object().expect("it is an object").clone();
        claims
            .as_object_mut()
            .expect("it is an object")
            .extend(changes);
        claims
    }

    /// A token that is good but for the changes of its claims.
    fn with_claims(&self, changes: &Value) -> String {
        let header = json!({"alg": "ES256", "kid": "ec", "typ": "at+jwt"});
        self.ec.token(&header, &self.claims(changes))
    }

    /// A token that is good but for the changes of its header.
    fn with_header(&self, changes: &Value) -> String {
        let mut header = json!({"alg": "ES256", "kid": "ec"});
        let changes = changes.as_object().expect("it is an object").clone();
        header
            .as_object_mut()
            .expect("it is an object")
            .extend(changes);
        self.ec.token(&header, &self.claims(&json!({})))
    }

    async fn ask(&self, token: &str) -> Result<Option<String>, AccessError> {
        let found = self.scheme.principal(token, None).await?;
        Ok(found.map(|principal| principal.id().to_owned()))
    }
}

#[derive(Debug)]
enum Expected {
    Alice,
    Invalid,
    Expired,
    Foreign,
}
use Expected::{Alice, Expired, Foreign, Invalid};

#[track_caller]
fn check(what: &str, found: &Result<Option<String>, AccessError>, expected: &Expected) {
    let is_expected = match expected {
        Expected::Alice => *found == Ok(Some("alice".to_owned())),
        Expected::Invalid => *found == Err(AccessError::CredentialsInvalid),
        Expected::Expired => *found == Err(AccessError::CredentialsExpired),
        Expected::Foreign => *found == Ok(None),
    };
    assert!(is_expected, "{what}: {found:?} is not {expected:?}");
}

#[tokio::test(start_paused = true)]
async fn claims_decide_about_a_token() {
    let world = World::new();
    let now = world.clock.seconds();
    for (changes, expected) in [
        (json!({}), Alice),
        (json!({"aud": ["else", "other"]}), Alice),
        (json!({"exp": now - 59}), Alice),
        (json!({"exp": now - 60}), Expired),
        (json!({"exp": 1}), Expired),
        (json!({"exp": null}), Invalid),
        (json!({"exp": "never"}), Invalid),
        (json!({"nbf": now + 60, "iat": now + 60}), Alice),
        (json!({"nbf": now + 61}), Invalid),
        (json!({"iat": now + 61}), Invalid),
        (json!({"iss": "https://other.example"}), Foreign),
        (json!({"iss": "https://issuer.example/"}), Foreign),
        (json!({"iss": [ISSUER]}), Foreign),
        (json!({"iss": null}), Foreign),
        (json!({"aud": "else"}), Invalid),
        (json!({"aud": ["else"]}), Invalid),
        (json!({"aud": []}), Invalid),
        (json!({"aud": null}), Invalid),
        (json!({"sub": ""}), Invalid),
        (json!({"sub": null}), Invalid),
        (json!({"scope": 7}), Invalid),
        (json!({"cnf": {"jkt": "x"}}), Invalid),
        (json!({"events": {}}), Invalid),
    ] {
        let found = world.ask(&world.with_claims(&changes)).await;
        check(&changes.to_string(), &found, &expected);
    }
}

#[tokio::test(start_paused = true)]
async fn header_decides_about_a_token() {
    let world = World::new();
    for (changes, expected) in [
        (json!({}), Alice),
        (json!({"typ": "at+jwt"}), Alice),
        (json!({"typ": "application/AT+JWT"}), Alice),
        (json!({"typ": "JWT"}), Alice),
        (json!({"typ": "logout+jwt"}), Invalid),
        (json!({"typ": "dpop+jwt"}), Invalid),
        (json!({"typ": "application/octet-stream"}), Invalid),
        (json!({"kid": "x"}), Invalid),
        (json!({"kid": "k".repeat(300)}), Invalid),
        (json!({"kid": 7}), Invalid),
        (json!({"kid": "rsa"}), Invalid),
        (json!({"kid": "ed"}), Invalid),
        (json!({"jku": "https://issuer.example/keys"}), Invalid),
        (json!({"x5u": "https://issuer.example/keys"}), Invalid),
        (json!({"x5c": ["AA"]}), Invalid),
        (json!({"jwk": world.ec.jwk("ec")}), Invalid),
        (json!({"crit": ["exp"]}), Invalid),
        (json!({"crit": []}), Invalid),
        (json!({"crit": null}), Invalid),
        (json!({"crit": "exp"}), Invalid),
        (json!({"crit": 0}), Invalid),
        (json!({"crit": {}}), Invalid),
        (json!({"jku": null}), Invalid),
        (json!({"b64": false}), Invalid),
        (json!({"b64": "true"}), Invalid),
        (json!({"b64": true}), Alice),
        (json!({"alg": "none"}), Invalid),
        (json!({"alg": "None"}), Invalid),
        (json!({"alg": "NONE"}), Invalid),
        (json!({"alg": "nOnE"}), Invalid),
        (json!({"alg": ""}), Invalid),
        (json!({"alg": null}), Invalid),
        (json!({"alg": "es256"}), Invalid),
        (json!({"alg": "ES384"}), Invalid),
        (json!({"alg": "HS256"}), Invalid),
    ] {
        let found = world.ask(&world.with_header(&changes)).await;
        check(&changes.to_string(), &found, &expected);
    }
    // The URLs in headers were not asked.
    assert!(world.outbound.count() <= 2, "{}", world.outbound.count());
}

#[tokio::test(start_paused = true)]
async fn each_algorithm_of_the_defaults_is_verified() {
    let world = World::new();
    let claims = world.claims(&json!({}));
    let pss = SigningKey::ps256();
    for (algorithm, kid, key) in [
        ("RS256", "rsa", &world.rsa),
        ("PS256", "rsa", &pss),
        ("ES256", "ec", &world.ec),
        ("EdDSA", "ed", &world.ed),
    ] {
        let good = key.token(&json!({"alg": algorithm, "kid": kid}), &claims);
        check(algorithm, &world.ask(&good).await, &Alice);
        let unsigned = token(&json!({"alg": algorithm, "kid": kid}), &claims, |_| {
            Vec::new()
        });
        check(algorithm, &world.ask(&unsigned).await, &Invalid);
        let zeros = |_: &[u8]| vec![0; 64];
        let zeros = token(&json!({"alg": algorithm, "kid": kid}), &claims, zeros);
        check(algorithm, &world.ask(&zeros).await, &Invalid);
    }
}

#[tokio::test(start_paused = true)]
async fn confused_keys_and_algorithms_are_refused() {
    let world = World::new();
    let claims = world.claims(&json!({}));
    // A public key as the secret of an HMAC.
    let der = world.rsa.der();
    let pem = |label: &str| {
        let text = STANDARD.encode(&der);
        let lines: Vec<_> = text
            .as_bytes()
            .chunks(64)
            .map(|line| str::from_utf8(line).unwrap())
            .collect();
        format!(
            "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
            lines.join("\n")
        )
        .into_bytes()
    };
    let jwk = world.rsa.jwk("rsa");
    let modulus = jwk["n"].as_str().unwrap().as_bytes().to_vec();
    for secret in [
        der.clone(),
        pem("RSA PUBLIC KEY"),
        pem("PUBLIC KEY"),
        modulus,
    ] {
        for (name, algorithm) in [
            ("HS256", hmac::HMAC_SHA256),
            ("HS384", hmac::HMAC_SHA384),
            ("HS512", hmac::HMAC_SHA512),
        ] {
            let key = hmac::Key::new(algorithm, &secret);
            let sign = |message: &[u8]| hmac::sign(&key, message).as_ref().to_vec();
            let forged = token(&json!({"alg": name, "kid": "rsa"}), &claims, sign);
            check(name, &world.ask(&forged).await, &Invalid);
        }
    }
    // A good signature under the id of a key of another type, or by another algorithm.
    for (key, header) in [
        (&world.rsa, json!({"alg": "RS256", "kid": "ec"})),
        (&world.ec, json!({"alg": "ES256", "kid": "rsa"})),
        (&world.ed, json!({"alg": "EdDSA", "kid": "ec"})),
        (&world.rsa, json!({"alg": "PS256", "kid": "rsa"})),
        (&SigningKey::ps256(), json!({"alg": "RS256", "kid": "rsa"})),
        (&world.rsa, json!({"alg": "RS512", "kid": "rsa"})),
        (&SigningKey::es256(), json!({"alg": "ES256", "kid": "ec"})),
    ] {
        check(
            &header.to_string(),
            &world.ask(&key.token(&header, &claims)).await,
            &Invalid,
        );
    }
}

#[tokio::test(start_paused = true)]
async fn algorithm_outside_of_the_list_is_refused() {
    let world = World::with("jwks_uri = 'https://issuer.example/keys'\nalgorithms = ['ES256']");
    let claims = world.claims(&json!({}));
    check(
        "ES256",
        &world.ask(&world.with_claims(&json!({}))).await,
        &Alice,
    );
    let rsa = world
        .rsa
        .token(&json!({"alg": "RS256", "kid": "rsa"}), &claims);
    check("RS256", &world.ask(&rsa).await, &Invalid);
}

#[tokio::test(start_paused = true)]
async fn altered_tokens_are_refused() {
    let world = World::new();
    let good = world.with_claims(&json!({}));
    check("good", &world.ask(&good).await, &Alice);
    let parts: Vec<_> = good.split('.').collect();
    let bob = base64(world.claims(&json!({"sub": "bob"})).to_string().as_bytes());
    let mut signature = parts[2].to_owned();
    let first = if signature.starts_with('A') { "B" } else { "A" };
    signature.replace_range(..1, first);
    for (what, altered, expected) in [
        (
            "payload",
            format!("{}.{bob}.{}", parts[0], parts[2]),
            Invalid,
        ),
        (
            "signature",
            format!("{}.{}.{signature}", parts[0], parts[1]),
            Invalid,
        ),
        (
            "no signature",
            format!("{}.{}.", parts[0], parts[1]),
            Invalid,
        ),
        ("truncated", good[..good.len() - 4].to_owned(), Invalid),
        ("padded", format!("{good}="), Invalid),
        ("header", format!(".{}.{}", parts[1], parts[2]), Invalid),
        ("two parts", format!("{}.{}", parts[0], parts[1]), Foreign),
        ("five parts", format!("{good}.a.b"), Foreign),
        ("no parts", "opaque".to_owned(), Foreign),
        ("dots", "..".to_owned(), Foreign),
        (
            "other payload",
            format!("{}.e30.{}", parts[0], parts[2]),
            Foreign,
        ),
    ] {
        check(what, &world.ask(&altered).await, &expected);
    }
}

#[tokio::test(start_paused = true)]
async fn long_token_is_refused_before_it_is_parsed() {
    let world = World::new();
    let filler = |length: usize| world.with_claims(&json!({"filler": "x".repeat(length)}));
    check("long", &world.ask(&filler(11_000)).await, &Alice);
    let fetched = world.outbound.count();
    for length in [12_500, 75_000] {
        let long = filler(length);
        assert!(long.len() > MAX_TOKEN);
        check("too long", &world.ask(&long).await, &Invalid);
    }
    assert_eq!(world.outbound.count(), fetched);
}

#[tokio::test(start_paused = true)]
async fn principal_has_groups_scopes_and_the_claims_of_the_policy() {
    let world = World::with(
        "jwks_uri = 'https://issuer.example/keys'\nprincipal_claim = 'email'\n\
         principal_prefix = 'idp:'\ngroups_claim = 'roles'\n\
         [[allow]]\nclaims = { email_verified = true }\n",
    );
    let claims = json!({
        "email": "a@b.c", "email_verified": true, "roles": ["staff"], "scope": "read write",
    });
    let found = world
        .scheme
        .principal(&world.with_claims(&claims), None)
        .await;
    let alice = found.unwrap().expect("it is of the issuer");
    assert_eq!(
        (alice.id(), alice.groups()),
        ("idp:a@b.c", &["staff".to_owned()][..])
    );
    assert_eq!(
        alice.scopes().expect("it is limited").join(" "),
        "read write"
    );
    let kept: Vec<_> = alice.claims().keys().collect();
    assert_eq!(kept, ["email_verified"]);
}

#[tokio::test(start_paused = true)]
async fn seen_token_is_not_verified_again_for_a_minute_or_until_it_expires() {
    let world = World::new();
    let long = world.with_claims(&json!({}));
    let short = world.with_claims(&json!({"exp": world.clock.seconds() - 50}));
    for token in [&long, &short] {
        check("new", &world.ask(token).await, &Alice);
    }
    // The issuer withdraws the key and the server learns of the withdrawal. Tokens that pass now
    // come from the cache.
    world.outbound.answer_with_document(&json!({"keys": []}));
    world.clock.advance(Duration::from_secs(1));
    check(
        "unknown",
        &world.ask(&world.with_header(&json!({"kid": "x"}))).await,
        &Invalid,
    );
    assert_eq!(world.outbound.count(), 2);
    check(
        "withdrawn",
        &world.ask(&world.with_header(&json!({}))).await,
        &Invalid,
    );
    for (seconds, token, expected) in [
        (8, &short, Alice),
        (1, &short, Invalid),
        (49, &long, Alice),
        (1, &long, Invalid),
    ] {
        world.clock.advance(Duration::from_secs(seconds));
        check(
            &format!("after {seconds} s"),
            &world.ask(token).await,
            &expected,
        );
    }
}

#[tokio::test(start_paused = true)]
async fn new_rules_remember_no_tokens() {
    let entry = "jwks_uri = 'https://issuer.example/keys'";
    let world = World::with(entry);
    let token = world.with_claims(&json!({}));
    check("new", &world.ask(&token).await, &Alice);
    world.outbound.answer_by(|_| None);
    check("remembered", &world.ask(&token).await, &Alice);
    let scheme = scheme(entry, &world.outbound, &world.clock);
    let found = scheme.principal(&token, None).await;
    assert_eq!(found, Err(AccessError::Unverifiable));
}
