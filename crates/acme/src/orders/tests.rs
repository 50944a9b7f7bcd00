use std::collections::HashMap;
use std::sync::Mutex;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use instant_acme::{Error, Problem};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_server::outbound::{OutboundError, OutboundLimits};

use super::*;

const DIRECTORY_URL: &str = "https://ca.example/dir";

/// An authority that has these documents, and nothing else.
#[derive(Default)]
struct Documents {
    documents: HashMap<String, Value>,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Outbound for Documents {
    async fn send(
        &self,
        request: Request<Bytes>,
        _: OutboundLimits,
    ) -> Result<Response<Bytes>, OutboundError> {
        let url = request.uri().to_string();
        let found = self.documents.get(&url).map(Value::to_string);
        let reply = Response::builder()
            .status(if found.is_some() { 200 } else { 404 })
            .header("retry-after", "7200")
            .body(found.unwrap_or_default().into());
        self.asked.lock().unwrap().push(url);
        Ok(reply.unwrap())
    }
}

/// A certificate of an authority, which names it.
fn certificate() -> Issued {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = Issuer::new(params, KeyPair::generate().unwrap());
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["up.example.com".to_owned()]).unwrap();
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&key, &authority).unwrap();
    Issued::from_pem(&(key.serialize_pem() + &certificate.pem())).unwrap()
}

fn account() -> StoredAccount {
    let key = KeyPair::generate().unwrap().serialize_der();
    let credentials = json!({
        "id": "https://ca.example/account/1",
        "key_pkcs8": BASE64_URL_SAFE_NO_PAD.encode(key),
        "directory": DIRECTORY_URL,
    });
    StoredAccount {
        contact: Vec::new(),
        credentials: serde_json::from_value(credentials).unwrap(),
    }
}

/// Orders from an authority with this directory and these renewals, by a known account.
fn orders(data: &TempDir, more: Value, renewals: &[(String, Value)]) -> (Orders, Arc<Documents>) {
    let mut directory = json!({
        "newNonce": "https://ca.example/nonce",
        "newAccount": "https://ca.example/account",
        "newOrder": "https://ca.example/order",
    });
    let Value::Object(more) = more else {
        panic!("more members");
    };
    directory.as_object_mut().unwrap().extend(more);
    let mut documents = HashMap::from([(DIRECTORY_URL.to_owned(), directory)]);
    documents.extend(renewals.iter().cloned());
    let outbound = Arc::new(Documents {
        documents,
        ..Documents::default()
    });
    let state = State::new(data.path(), DIRECTORY_URL);
    state.write_account(&account()).unwrap();
    let orders = Orders {
        directory: DIRECTORY_URL.parse().unwrap(),
        domains: vec!["up.example.com".parse().unwrap()],
        contact: Vec::new(),
        outbound: Arc::clone(&outbound) as Arc<dyn Outbound>,
        challenges: Arc::default(),
        state,
    };
    (orders, outbound)
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[tokio::test]
async fn authority_is_asked_when_to_renew() {
    let data = tempfile::tempdir().unwrap();
    let issued = certificate();
    let url = format!(
        "https://ca.example/renewal/{}",
        issued.identifier().unwrap()
    );
    let window = json!({"start": "2027-01-15T08:00:00Z", "end": "2027-01-15T09:00:00Z"});
    let renewals = [(url.clone(), json!({"suggestedWindow": window}))];
    let more = json!({"renewalInfo": "https://ca.example/renewal"});
    let (orders, outbound) = orders(&data, more, &renewals);
    let said = orders.suggestion(&issued).await.expect("a suggestion");
    let (start, end) = (at(1_800_000_000), at(1_800_003_600));
    assert_eq!(said.window, Window { start, end });
    let hours = said.ask_again.as_secs_f64() / 3600.0;
    assert!((1.9..=2.0).contains(&hours), "{hours}");
    assert_eq!(*outbound.asked.lock().unwrap(), [DIRECTORY_URL, &url]);
}

#[tokio::test]
async fn authority_without_suggestions_or_with_broken_ones_leaves_it_to_the_lifetime() {
    let issued = certificate();
    let url = format!(
        "https://ca.example/renewal/{}",
        issued.identifier().unwrap()
    );
    let more = || json!({"renewalInfo": "https://ca.example/renewal"});
    let early = json!({"start": "1960-01-01T00:00:00Z", "end": "1960-01-02T00:00:00Z"});
    for (more, reply) in [
        (json!({}), None),
        (more(), None),
        (more(), Some(json!({"suggestedWindow": "soon"}))),
        (more(), Some(json!({"suggestedWindow": early}))),
    ] {
        let data = tempfile::tempdir().unwrap();
        let renewals = reply.clone().map(|reply| (url.clone(), reply));
        let (orders, _) = orders(&data, more, renewals.as_slice());
        assert_eq!(orders.suggestion(&issued).await, None, "{reply:?}");
    }
}

#[tokio::test]
async fn without_an_account_nobody_is_asked() {
    let data = tempfile::tempdir().unwrap();
    let (orders, outbound) = orders(&data, json!({}), &[]);
    orders.state.forget_account().unwrap();
    assert_eq!(orders.suggestion(&certificate()).await, None);
    assert!(outbound.asked.lock().unwrap().is_empty());
}

#[test]
fn order_is_repeated_without_its_predecessor_only_where_that_helps() {
    let problem = |kind: &str| {
        Error::Api(Problem {
            r#type: Some(format!("urn:ietf:params:acme:error:{kind}")),
            detail: None,
            status: None,
            subproblems: Vec::new(),
        })
    };
    for (error, expected) in [
        (problem("alreadyReplaced"), true),
        (problem("malformed"), true),
        (problem("rateLimited"), false),
        (problem("unauthorized"), false),
        (Error::Unsupported("ARI"), true),
        (Error::Str("a nonce"), false),
    ] {
        assert_eq!(is_about_replacement(&error), expected, "{error}");
    }
}
