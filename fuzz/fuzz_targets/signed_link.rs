//! A link opens the request that it was signed for, and nothing opens with a link that was altered
//! or was never signed.

#![no_main]

use std::sync::LazyLock;

use http::{HeaderMap, Method, Uri};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};
use windlass_auth::{Authenticator, LINK_PARAMETER, Link, LinkKeys, Rules};
use windlass_server::{Access, AccessRequest, Authorize, Clock, Host, Principal, SystemClock};

#[derive(Debug, Arbitrary)]
struct Input {
    id: String,
    method: u8,
    path: String,
    query: Vec<(String, String)>,
    seconds: u32,
    max_size: Option<u64>,
    once: bool,
    principal: Option<String>,
    /// The altered positions of the link, and their new bytes.
    altered: Vec<(u16, u8)>,
    /// A link that nobody signed.
    foreign: String,
}

const HOST: &str = "up.example.com";

const BASE: &str = "https://up.example.com";

static KEYS: LazyLock<LinkKeys> = LazyLock::new(|| {
    let mut keys = LinkKeys::default();
    let secret = "00".repeat(32).parse().expect("it is a secret");
    keys.insert("k", &secret);
    keys
});

static AUTHENTICATOR: LazyLock<Authenticator> = LazyLock::new(|| {
    Authenticator::new(Rules {
        links: KEYS.clone(),
        ..Rules::default()
    })
});

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_current_thread();
    builder.build().expect("a thread has a runtime")
});

fuzz_target!(|input: Input| {
    let link = link(&input);
    let signed = KEYS.sign(&link).expect("there is a key");
    let own = ask(&link, &signed);
    if let Some(opened) = &own {
        let id = opened.as_ref().map(Principal::id);
        let expected = match &link.principal {
            Some(id) => id.clone(),
            None => format!("link:{}", link.id),
        };
        let is_valid =
            link.expires > now() && link.query.iter().all(|(name, _)| name != LINK_PARAMETER);
        assert_eq!(id, is_valid.then_some(&*expected), "{link:?}");
    }
    let altered = altered(&signed, &input.altered);
    if altered != signed {
        assert!(
            ask(&link, &altered).flatten().is_none(),
            "{signed} {altered}"
        );
    }
    if input.foreign != signed {
        assert!(ask(&link, &input.foreign).flatten().is_none());
    }
});

fn link(input: &Input) -> Link {
    let methods = ["GET", "POST", "PUT", "PATCH"];
    // A second on either side of now would depend on when it is run.
    let expires = if input.seconds.is_multiple_of(2) {
        1
    } else {
        now() + 3_600 + u64::from(input.seconds)
    };
    Link {
        id: input.id.clone(),
        method: methods[usize::from(input.method) % methods.len()].to_owned(),
        host: HOST.to_owned(),
        path: format!("/{}", input.path),
        query: input.query.clone(),
        expires,
        max_size: input.max_size,
        media_type: None,
        origin: None,
        once: input.once,
        principal: input.principal.clone(),
    }
}

fn now() -> u64 {
    SystemClock.now().as_millis() / 1000
}

/// Whom a link establishes for the request that it is for, or nobody; `None` if its path cannot be
/// sent.
fn ask(link: &Link, signed: &str) -> Option<Option<Principal>> {
    let mut target = format!("{}?", link.path);
    for (name, value) in &link.query {
        target += &format!("{}={}&", encoded(name), encoded(value));
    }
    target += &format!("{LINK_PARAMETER}={}", encoded(signed));
    let uri: Uri = target
        .parse()
        .ok()
        .filter(|uri: &Uri| uri.path() == link.path)?;
    let method: Method = link.method.parse().expect("it is a method");
    let host: Host = HOST.parse().expect("it is a host");
    assert_eq!(host.to_string(), HOST);
    let headers = HeaderMap::new();
    let request = AccessRequest::new(Access::Call, &method, &uri, &headers).at_base_url(BASE);
    let found = RUNTIME.block_on(AUTHENTICATOR.authenticate(&request));
    Some(found.ok().flatten())
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The link with other characters of its alphabet at some places.
fn altered(signed: &str, changes: &[(u16, u8)]) -> String {
    let mut bytes = signed.as_bytes().to_vec();
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=";
    for (at, character) in changes {
        let at = usize::from(*at) % bytes.len();
        bytes[at] = alphabet[usize::from(*character) % alphabet.len()];
    }
    String::from_utf8(bytes).expect("it is ASCII")
}
