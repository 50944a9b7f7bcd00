use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, Method as HttpMethod};
use windlass_discovery::Api;
use windlass_server::{Access, ClientCertificate};

use super::*;
use crate::policy::Grant;
use crate::secrets::SecretHash;

fn table(secret: &str, principal: Principal) -> SecretTable {
    let mut table = SecretTable::default();
    table.insert(SecretHash::of(secret), principal);
    table
}

fn rules() -> Rules {
    Rules {
        schemes: vec![Arc::new(table("alices", Principal::new("alice")))],
        keys: table("key", Principal::new("web")),
        proxies: vec![TrustedProxy {
            from: vec!["10.0.0.0/8".parse().unwrap()],
            principal_header: http::HeaderName::from_static("x-forwarded-user"),
            groups_header: None,
        }],
        certificates: CertificateTable::default(),
        links: LinkKeys::default(),
        revoked_sessions: RevokedSessions::default(),
        policy: Policy::default(),
    }
}

async fn ask(
    authenticator: &Authenticator,
    access: Access,
    target: &str,
    headers: &[(&'static str, &'static str)],
) -> Result<Option<String>, AccessError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, value.parse().unwrap());
    }
    let uri = target.parse().unwrap();
    let request = AccessRequest::new(access, &HttpMethod::POST, &uri, &map)
        .from_peer(SocketAddr::from(([10, 0, 0, 1], 80)));
    let found = authenticator.authenticate(&request).await?;
    Ok(found.map(|principal| principal.id().to_owned()))
}

const ALICE: (&str, &str) = ("authorization", "Bearer alices");

#[tokio::test]
async fn credentials_are_demanded_of_calls_alone() {
    let authenticator = Authenticator::new(rules());
    let missing = Err(AccessError::CredentialsMissing);
    assert_eq!(ask(&authenticator, Access::Call, "/a", &[]).await, missing);
    for access in [Access::Session, Access::Discovery] {
        assert_eq!(ask(&authenticator, access, "/a", &[]).await, Ok(None));
        let wrong = [("authorization", "Bearer wrong")];
        assert_eq!(ask(&authenticator, access, "/a", &wrong).await, Ok(None));
        let alice = Ok(Some("alice".to_owned()));
        assert_eq!(ask(&authenticator, access, "/a", &[ALICE]).await, alice);
    }
}

/// An issuer that does not answer.
struct Silent;

#[async_trait]
impl TokenScheme for Silent {
    async fn principal(
        &self,
        _: &str,
        _: Option<IpAddr>,
    ) -> Result<Option<Principal>, AccessError> {
        Err(AccessError::Unverifiable)
    }
}

#[tokio::test]
async fn issuer_that_does_not_answer_stops_no_session_but_those_of_owners() {
    let mut rules = rules();
    rules.schemes.push(Arc::new(Silent));
    let authenticator = Authenticator::new(rules);
    let unknown = [("authorization", "Bearer unknown")];
    let unverifiable = Err(AccessError::Unverifiable);
    for (access, expected) in [
        (Access::Call, &unverifiable),
        (Access::OwnedSession, &unverifiable),
        (Access::Session, &Ok(None)),
        (Access::Discovery, &Ok(None)),
    ] {
        let found = ask(&authenticator, access, "/a", &unknown).await;
        assert_eq!(found, *expected, "{access:?}");
    }
    let none = ask(&authenticator, Access::OwnedSession, "/a", &[]).await;
    assert_eq!(none, Ok(None));
}

#[tokio::test]
async fn principal_is_that_of_the_token_then_the_key_then_the_proxy() {
    let authenticator = Authenticator::new(rules());
    let proxy = ("x-forwarded-user", "bob");
    for (target, headers, expected) in [
        ("/a?key=key", &[ALICE, proxy][..], Ok("alice")),
        ("/a?key=wrong", &[ALICE], Ok("alice")),
        ("/a?key=key", &[proxy], Ok("web")),
        ("/a", &[proxy], Ok("bob")),
        (
            "/a?key=wrong",
            &[proxy],
            Err(AccessError::CredentialsInvalid),
        ),
        (
            "/a?key=key",
            &[("authorization", "Bearer wrong"), proxy],
            Err(AccessError::CredentialsInvalid),
        ),
    ] {
        let expected = expected.map(|id: &str| Some(id.to_owned()));
        let found = ask(&authenticator, Access::Call, target, headers).await;
        assert_eq!(found, expected, "{target} {headers:?}");
    }
}

#[tokio::test]
async fn certificate_counts_after_token_and_key_and_before_the_proxy() {
    let mut rules = rules();
    let name = "camera-7.example.com";
    let camera = Principal::new("camera-7").with_scopes(["read".to_owned()]);
    rules
        .certificates
        .insert_name(name.parse().unwrap(), camera);
    let authenticator = Authenticator::new(rules);
    let (known, unknown) = (name.to_owned(), "a.example".to_owned());
    let (known, unknown) = (
        ClientCertificate::new([known], [0; 32]),
        ClientCertificate::new([unknown], [0; 32]),
    );
    let proxy = ("x-forwarded-user", "bob");
    let wrong = ("authorization", "Bearer wrong");
    let (invalid, missing) = (
        Err(AccessError::CredentialsInvalid),
        Err(AccessError::CredentialsMissing),
    );
    for (certificate, target, headers, expected) in [
        (&known, "/a", &[][..], Ok("camera-7")),
        (&known, "/a", &[proxy], Ok("camera-7")),
        (&known, "/a", &[ALICE], Ok("alice")),
        (&known, "/a?key=key", &[], Ok("web")),
        (&known, "/a", &[wrong], invalid.clone()),
        (&known, "/a?key=wrong", &[], invalid.clone()),
        (&unknown, "/a", &[proxy], Ok("bob")),
        (&unknown, "/a", &[ALICE], Ok("alice")),
        (&unknown, "/a", &[], missing),
    ] {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let uri = target.parse().unwrap();
        let request = AccessRequest::new(Access::Call, &HttpMethod::POST, &uri, &map)
            .from_peer(SocketAddr::from(([10, 0, 0, 1], 80)))
            .with_certificate(certificate);
        let found = authenticator.authenticate(&request).await;
        let found = found.map(|found| found.map(|principal| principal.id().to_owned()));
        let expected = expected.map(|id: &str| Some(id.to_owned()));
        assert_eq!(found, expected, "{certificate:?} {target} {headers:?}");
    }
}

#[tokio::test]
async fn page_of_another_origin_needs_credentials_of_its_own() {
    use AmbientAuthority::{Anonymous, Full, None as Nothing};
    let proxied = Authenticator::new(rules());
    let open = Authenticator::new(Rules {
        proxies: Vec::new(),
        policy: Policy::new(vec![Grant {
            anonymous: true,
            ..Grant::default()
        }]),
        ..rules()
    });
    let proxy = ("x-forwarded-user", "bob");
    let foreign = || Err(AccessError::ForeignPage);
    let found = |id: &str| Ok(Some(id.to_owned()));
    for (authenticator, authority, access, target, header, expected) in [
        (&proxied, Full, Access::Call, "/a", proxy, found("bob")),
        (&proxied, Anonymous, Access::Call, "/a", proxy, foreign()),
        (&proxied, Nothing, Access::Call, "/a", proxy, foreign()),
        (
            &proxied,
            Nothing,
            Access::OwnedSession,
            "/a",
            proxy,
            foreign(),
        ),
        (&proxied, Nothing, Access::Session, "/a", proxy, Ok(None)),
        (&proxied, Nothing, Access::Call, "/a", ALICE, found("alice")),
        (
            &proxied,
            Nothing,
            Access::Call,
            "/a?key=key",
            proxy,
            found("web"),
        ),
        (&open, Full, Access::Call, "/a", proxy, Ok(None)),
        (&open, Anonymous, Access::Call, "/a", proxy, Ok(None)),
        (&open, Nothing, Access::Call, "/a", proxy, foreign()),
        (&open, Nothing, Access::Session, "/a", proxy, Ok(None)),
        (&open, Nothing, Access::Call, "/a", ALICE, found("alice")),
    ] {
        let mut map = HeaderMap::new();
        map.append(header.0, header.1.parse().unwrap());
        let uri = target.parse().unwrap();
        let request = AccessRequest::new(access, &HttpMethod::POST, &uri, &map)
            .from_peer(SocketAddr::from(([10, 0, 0, 1], 80)))
            .with_ambient_authority(authority);
        let found = authenticator.authenticate(&request).await;
        let found = found.map(|found| found.map(|principal| principal.id().to_owned()));
        assert_eq!(
            found, expected,
            "{authority:?} {access:?} {target} {header:?}"
        );
    }
}

#[tokio::test]
async fn key_is_ignored_where_no_keys_are_known() {
    let rules = Rules {
        keys: SecretTable::default(),
        ..rules()
    };
    let authenticator = Authenticator::new(rules);
    let found = ask(&authenticator, Access::Call, "/a?key=AIza", &[ALICE]).await;
    assert_eq!(found, Ok(Some("alice".to_owned())));
    let found = ask(&authenticator, Access::Call, "/a?key=AIza", &[]).await;
    assert_eq!(found, Err(AccessError::CredentialsMissing));
}

#[tokio::test]
async fn token_in_the_query_is_refused_everywhere() {
    let authenticator = Authenticator::new(rules());
    for access in [
        Access::Call,
        Access::Session,
        Access::OwnedSession,
        Access::Discovery,
    ] {
        let refused = ask(&authenticator, access, "/a?access_token=alices", &[ALICE]).await;
        assert!(
            matches!(refused, Err(AccessError::CredentialsMisplaced { .. })),
            "{access:?}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn replaced_rules_are_those_of_the_next_request() {
    let authenticator = Authenticator::new(rules());
    let found = ask(&authenticator, Access::Call, "/a", &[ALICE]).await;
    assert_eq!(found, Ok(Some("alice".to_owned())));
    authenticator.replace(Rules::default());
    let found = ask(&authenticator, Access::Call, "/a", &[ALICE]).await;
    assert_eq!(found, Err(AccessError::CredentialsInvalid));
}

#[tokio::test]
async fn methods_are_allowed_by_the_policy_and_one_of_their_scopes() {
    let text = "name = 'farm'\nversion = 'v1'\nscopes = ['write', 'all']\n\
                [collections.animals]\nmethods = ['insert', 'get']\n";
    let farm = Api::from_toml(text).unwrap();
    let insert = farm.method("farm.animals.insert").unwrap();
    let get = farm.method("farm.animals.get").unwrap();
    let grant = Grant {
        methods: vec!["insert".to_owned()],
        ..Grant::default()
    };
    let authenticator = Authenticator::new(Rules {
        policy: Policy::new(vec![grant]),
        ..rules()
    });
    let with = |scope: &str| Principal::new("a").with_scopes([scope.to_owned()]);
    for principal in [Principal::new("a"), with("all")] {
        let allowed = authenticator.authorize(Some(&principal), insert).await;
        assert_eq!(allowed, Ok(()));
        let refused = authenticator.authorize(Some(&principal), get).await;
        assert!(matches!(refused, Err(AccessError::Forbidden { .. })));
    }
    let refused = authenticator.authorize(Some(&with("read")), insert).await;
    let scopes = vec!["write".to_owned(), "all".to_owned()];
    assert_eq!(refused, Err(AccessError::InsufficientScope { scopes }));
    let refused = authenticator.authorize(None, insert).await;
    assert_eq!(refused, Err(AccessError::CredentialsMissing));
}

#[tokio::test]
async fn strangers_may_call_what_a_grant_opens_and_nothing_else() {
    let text = "name = 'farm'\nversion = 'v1'\n[collections.animals]\n";
    let farm = Api::from_toml(text).unwrap();
    let grant = Grant {
        anonymous: true,
        methods: vec!["get".to_owned()],
        ..Grant::default()
    };
    let authenticator = Authenticator::new(Rules {
        policy: Policy::new(vec![grant]),
        ..rules()
    });
    assert_eq!(ask(&authenticator, Access::Call, "/a", &[]).await, Ok(None));
    let get = farm.method("farm.animals.get").unwrap();
    assert_eq!(authenticator.authorize(None, get).await, Ok(()));
    let list = farm.method("farm.animals.list").unwrap();
    let refused = authenticator.authorize(None, list).await;
    assert_eq!(refused, Err(AccessError::CredentialsMissing));
}
