use bytes::Bytes;
use futures_util::future::join_all;
use http::Response;
use serde_json::json;

use super::*;
use crate::file::{AuthFile, Services};
use crate::test_issuer::{DrivenClock, FakeOutbound};

struct World {
    scheme: Arc<dyn TokenScheme>,
    outbound: Arc<FakeOutbound>,
    clock: Arc<DrivenClock>,
}

impl World {
    fn new(entry: &str) -> Self {
        let text = format!(
            "[introspection]\nurl = 'https://issuer.example/introspect'\n\
             client_id = 'wind lass'\nclient_secret_file = 'secret'\n{entry}"
        );
        let outbound = FakeOutbound::with_document(&json!({"active": true, "sub": "alice"}));
        let clock = DrivenClock::new();
        let services = Services {
            outbound: Arc::<FakeOutbound>::clone(&outbound),
            clock: Arc::<DrivenClock>::clone(&clock),
            read: &|path| {
                assert_eq!(path, std::path::Path::new("secret"));
                Ok("s3cret:+/%\n".to_owned())
            },
        };
        let rules = AuthFile::parse(&text).unwrap().into_rules(&services);
        Self {
            scheme: rules.unwrap().schemes.remove(1),
            outbound,
            clock,
        }
    }

    async fn ask(&self, token: &str) -> Result<String, AccessError> {
        self.ask_for(None, token).await
    }

    async fn ask_for(&self, client: Option<IpAddr>, token: &str) -> Result<String, AccessError> {
        let found = self.scheme.principal(token, client).await?;
        Ok(found.expect("it is the last scheme").id().to_owned())
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

#[tokio::test(start_paused = true)]
async fn question_has_the_token_in_its_body_and_the_client_s_credentials() {
    let world = World::new("");
    assert_eq!(world.ask("a+b/c=").await, Ok("alice".to_owned()));
    let request = world.outbound.last();
    assert_eq!(request.method(), Method::POST);
    assert_eq!(request.uri(), "https://issuer.example/introspect");
    let form = "token=a%2Bb%2Fc%3D&token_type_hint=access_token";
    assert_eq!(request.body(), form.as_bytes());
    let content_type = &request.headers()[CONTENT_TYPE];
    assert_eq!(content_type, "application/x-www-form-urlencoded");
    let authorization = &request.headers()[AUTHORIZATION];
    let pair = STANDARD.encode("wind%20lass:s3cret%3A%2B%2F%25");
    assert_eq!(authorization, &format!("Basic {pair}"));
    assert!(authorization.is_sensitive());
}

#[tokio::test(start_paused = true)]
async fn answer_decides_about_a_token() {
    let (invalid, expired) = (
        AccessError::CredentialsInvalid,
        AccessError::CredentialsExpired,
    );
    let alice = || Ok("alice".to_owned());
    let world = World::new("audience = ['windlass']");
    let now = world.clock.seconds();
    for (n, (answer, expected)) in [
        (
            json!({"active": true, "aud": "windlass", "sub": "alice"}),
            alice(),
        ),
        (
            json!({"active": true, "aud": ["windlass"], "username": "alice"}),
            alice(),
        ),
        (
            json!({"active": true, "aud": "windlass", "client_id": "alice"}),
            alice(),
        ),
        (
            json!({"active": true, "aud": "windlass", "sub": "alice", "exp": now}),
            alice(),
        ),
        (
            json!({"active": true, "aud": "windlass", "sub": "a", "exp": now - 60}),
            Err(expired),
        ),
        (
            json!({"active": true, "aud": "else", "sub": "alice"}),
            Err(invalid.clone()),
        ),
        (
            json!({"active": true, "sub": "alice"}),
            Err(invalid.clone()),
        ),
        (
            json!({"active": true, "aud": "windlass"}),
            Err(invalid.clone()),
        ),
        (
            json!({"active": true, "aud": "windlass", "sub": "a", "cnf": {}}),
            Err(invalid.clone()),
        ),
        (
            json!({"active": false, "aud": "windlass", "sub": "alice"}),
            Err(invalid.clone()),
        ),
        (
            json!({"active": "true", "sub": "alice"}),
            Err(AccessError::Unverifiable),
        ),
        (json!({"sub": "alice"}), Err(AccessError::Unverifiable)),
        (json!([true]), Err(AccessError::Unverifiable)),
    ]
    .into_iter()
    .enumerate()
    {
        world.outbound.answer_with_document(&answer);
        assert_eq!(world.ask(&n.to_string()).await, expected, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn issuer_that_does_not_answer_is_a_reason_to_try_again() {
    let world = World::new("");
    for reply in [None, Some(401), Some(302), Some(500)] {
        world.outbound.answer_by(move |_| {
            let body = Bytes::from_static(b"{\"active\": true, \"sub\": \"alice\"}");
            Some(Response::builder().status(reply?).body(body).unwrap())
        });
        assert_eq!(
            world.ask("a").await,
            Err(AccessError::Unverifiable),
            "{reply:?}"
        );
    }
    world
        .outbound
        .answer_by(|_| Some(Response::new(Bytes::from(vec![b' '; MAX_REPLY + 1]))));
    assert_eq!(world.ask("a").await, Err(AccessError::Unverifiable));
    // Nothing of it is remembered.
    world
        .outbound
        .answer_with_document(&json!({"active": true, "sub": "alice"}));
    assert_eq!(world.ask("a").await, Ok("alice".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn answers_are_remembered_for_their_time() {
    let world = World::new("");
    let expires = world.clock.seconds() + 30;
    assert_eq!(world.ask("long").await, Ok("alice".to_owned()));
    let short = json!({"active": true, "sub": "alice", "exp": expires});
    world.outbound.answer_with_document(&short);
    assert_eq!(world.ask("short").await, Ok("alice".to_owned()));
    let inactive = json!({"active": false});
    world.outbound.answer_with_document(&inactive);
    let refused = Err(AccessError::CredentialsInvalid);
    assert_eq!(world.ask("refused").await, refused);
    assert_eq!(world.outbound.count(), 3);
    for (seconds, token, remembered) in [
        (9, "refused", true),
        (1, "refused", false),
        (19, "short", true),
        (1, "short", false),
        (29, "long", true),
        (1, "long", false),
    ] {
        world.pass(seconds);
        let before = world.outbound.count();
        let found = world.ask(token).await;
        assert_eq!(world.outbound.count() == before, remembered, "{token}");
        assert_eq!(
            found == refused,
            token == "refused" || !remembered,
            "{token}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn questions_are_bounded_and_long_tokens_are_not_asked_about() {
    let world = World::new("");
    let tokens: Vec<_> = (0..1000).map(|n| n.to_string()).collect();
    let found = join_all(tokens.iter().map(|token| world.ask(token))).await;
    assert!(found.iter().all(|found| *found == Ok("alice".to_owned())));
    assert_eq!(world.outbound.most_at_once(), INTROSPECTIONS);
    let long = world.ask(&"x".repeat(MAX_TOKEN + 1)).await;
    assert_eq!(long, Err(AccessError::CredentialsInvalid));
    assert_eq!(world.outbound.count(), 1000);
}

#[tokio::test(start_paused = true)]
async fn client_that_invents_tokens_leaves_questions_to_others() {
    let world = World::new("");
    let client = |n| Some(IpAddr::from([192, 0, 2, n]));
    let tokens: Vec<_> = (0..1000).map(|n| n.to_string()).collect();
    let flood = join_all(tokens.iter().map(|token| world.ask_for(client(1), token)));
    let honest = async {
        let found = world.ask_for(client(2), "honest").await;
        (found, world.outbound.count())
    };
    let (flood, (found, asked)) = tokio::join!(flood, honest);
    assert_eq!(found, Ok("alice".to_owned()));
    assert!(asked <= 2 * INTROSPECTIONS_PER_CLIENT + 1, "{asked}");
    assert!(flood.iter().all(|found| *found == Ok("alice".to_owned())));
    assert_eq!(world.outbound.most_at_once(), INTROSPECTIONS_PER_CLIENT + 1);
}
