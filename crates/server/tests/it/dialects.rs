//! A second dialect, as an application could add it: one header in place of Google's parameters and
//! ranges, an explicit end, and its own replies.

use std::sync::Arc;

use http::{HeaderValue, StatusCode};
use windlass_digest::ExpectedDigests;
use windlass_discovery::Api;
use windlass_proto::command::{
    BodyLength, Command, End, Framing, Overlap, Query, SessionAction, SessionHead, SessionRequest,
    StartHead,
};
use windlass_proto::dialect::{Condition, Dialect, Outcome, RequestHead, RequestTarget};
use windlass_proto::error::ProtocolError;
use windlass_proto::reply::{ErrorReply, ReplyHead};
use windlass_proto::session::{ChunkRule, Rules, SessionError};
use windlass_server::{
    BearerToken, BuildError, Principal, Registry, ServedApi, Server, ServerBuilder, Settings,
    Stores,
};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_testkit::farm;
use windlass_testkit::media::Media;

use crate::world::{Peer as _, Reply, World};

/// `Toy: begin`, `Toy: ask`, `Toy: put OFFSET`, `Toy: end OFFSET`, `Toy: stop`.
#[derive(Debug)]
struct Toy;

const INVALID: ProtocolError = ProtocolError::InvalidHeader { name: "Toy" };

impl Dialect for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn claims(&self, target: &RequestTarget<'_>) -> bool {
        target.is_upload_path && target.headers.contains_key("toy")
    }

    fn command(&self, request: &RequestHead<'_>) -> Result<Command, ProtocolError> {
        let toy = request.headers["toy"].to_str().map_err(|_| INVALID)?;
        let (verb, offset) = toy.split_once(' ').unwrap_or((toy, "0"));
        let offset: u64 = offset.parse().map_err(|_| INVALID)?;
        let Framing::Length(length) = request.framing else {
            return Err(ProtocolError::LengthRequired);
        };
        if verb == "begin" {
            return Ok(Command::Start(StartHead {
                content_type: Some("image/png".to_owned()),
                ..StartHead::with_metadata(BodyLength::Exact(length))
            }));
        }
        let upload_id = request.parameters.upload_id().ok_or(INVALID)?;
        let action = match verb {
            "stop" => return Ok(Command::Cancel { upload_id }),
            "ask" => SessionAction::Query(Query::Undisturbed),
            "put" => append_at(offset, End::Never),
            "end" => append_at(offset, End::Always),
            _ => return Err(INVALID),
        };
        Ok(Command::Session(SessionHead {
            upload_id,
            request: SessionRequest {
                action,
                body: BodyLength::Exact(length),
            },
            no_308: false,
            expected: ExpectedDigests::default(),
        }))
    }

    /// Chunks may have any size, whatever is configured for Google's.
    fn rules(&self, configured: Rules) -> Rules {
        configured.with_chunks(ChunkRule::Lenient)
    }

    fn reply(&self, outcome: Outcome<'_>) -> ReplyHead {
        match outcome {
            Outcome::Started { location, .. } => with(StatusCode::CREATED, "toy-session", location),
            Outcome::Committed { status, .. } => {
                with(StatusCode::ACCEPTED, "toy-offset", status.offset.into())
            }
            // With a `Content-Length` of 0, which the server replaces.
            Outcome::Final(end) => {
                let mut reply = ReplyHead::empty(StatusCode::OK);
                reply.headers.insert("content-type", end.content_type);
                reply
            }
            Outcome::Cancelled => ReplyHead::empty(StatusCode::NO_CONTENT),
        }
    }

    fn protocol_error(&self, error: &ProtocolError) -> ErrorReply {
        let mut reply = ErrorReply::text(StatusCode::CONFLICT, "toy");
        if let ProtocolError::Session(SessionError::Gap { committed, .. }) = error {
            reply.headers.insert("toy-offset", (*committed).into());
        }
        reply
    }

    fn condition(&self, condition: Condition) -> ErrorReply {
        match condition {
            Condition::SessionNotFound => ErrorReply::empty(StatusCode::NOT_FOUND, "toy"),
            Condition::OtherDialect => ErrorReply::empty(StatusCode::MISDIRECTED_REQUEST, "toy"),
            _ => ErrorReply::empty(StatusCode::SERVICE_UNAVAILABLE, "toy"),
        }
    }
}

fn append_at(first: u64, end: End) -> SessionAction {
    SessionAction::AppendAt {
        first,
        overlap: Overlap::Skip,
        end,
        length: None,
    }
}

fn with(status: StatusCode, name: &'static str, value: HeaderValue) -> ReplyHead {
    let mut reply = ReplyHead::new(status);
    reply.headers.insert(name, value);
    reply
}

const MEDIA: Media = Media::new(8, 100_000);

/// Not a multiple of 256 KiB, nor one of them.
const FIRST: u64 = 70_000;

fn world() -> World {
    world_with(|server| server)
}

fn world_with(options: impl FnOnce(ServerBuilder) -> ServerBuilder) -> World {
    let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
    let registry = Registry::new([ServedApi::with_default_handler(farm)]);
    let stores = Stores {
        ledger: Arc::new(MemoryLedger::new()),
        vault: Arc::new(MemoryVault::new()),
    };
    let mut settings = Settings::default();
    settings.public_url = Some("http://farm.localhost".to_owned());
    settings.free_space.soft = 0;
    settings.free_space.hard = 0;
    let server = Server::builder(registry.expect("there is one API"), stores)
        .settings(settings)
        .dialect(Arc::new(Toy));
    World {
        server: options(server).build().expect("its parts fit"),
        clock: Arc::default(),
    }
}

async fn toy(world: &World, uri: &str, command: &str, body: Vec<u8>) -> Reply {
    let headers = [("toy", command)];
    world.send("POST", uri, &headers, body).await
}

async fn begin(world: &World) -> String {
    let begun = toy(world, "/upload/farm/v1/animals", "begin", Vec::new()).await;
    assert_eq!(begun.status, StatusCode::CREATED, "{begun:?}");
    let session = begun.headers["toy-session"].to_str().expect("it is text");
    session.replacen("http://farm.localhost", "", 1)
}

#[test]
fn dialects_of_one_name_are_refused() {
    let registry = Registry::new([]).expect("there is none to collide");
    let stores = Stores {
        ledger: Arc::new(MemoryLedger::new()),
        vault: Arc::new(MemoryVault::new()),
    };
    let twice = Server::builder(registry, stores)
        .dialect(Arc::new(Toy))
        .dialect(Arc::new(Toy));
    let refused = twice.build().err();
    assert_eq!(refused, Some(BuildError::DialectName { name: "toy" }));
}

#[tokio::test]
async fn second_dialect_uploads_with_its_own_heads() {
    let world = world();
    let session = begin(&world).await;
    let put = toy(&world, &session, "put 0", MEDIA.bytes(0..FIRST)).await;
    assert_eq!(put.status, StatusCode::ACCEPTED, "{put:?}");
    assert_eq!(put.headers["toy-offset"], "70000");
    let ahead = toy(&world, &session, "put 80000", MEDIA.bytes(80_000..90_000)).await;
    assert_eq!(ahead.status, StatusCode::CONFLICT);
    assert_eq!(ahead.headers["toy-offset"], "70000");
    let asked = toy(&world, &session, "ask", Vec::new()).await;
    assert_eq!(asked.headers["toy-offset"], "70000");
    let rest = MEDIA.bytes(FIRST..MEDIA.len());
    let end = toy(&world, &session, "end 70000", rest).await;
    assert_eq!(end.status, StatusCode::OK, "{end:?}");
    assert_eq!(end.headers.get("x-guploader-uploadid"), None);
    assert!(world.media(&end).await == MEDIA.whole(), "other media");
}

#[tokio::test]
async fn second_dialect_cancels_with_its_own_status() {
    let world = world();
    let session = begin(&world).await;
    let stopped = toy(&world, &session, "stop", Vec::new()).await;
    assert_eq!(stopped.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn other_requests_are_google_s() {
    let world = world();
    let started = world.start(None).await.expect("it is Google's");
    let reply = world.put(&started, "bytes 0-9/10", vec![7; 10]);
    assert_eq!(reply.await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn unknown_session_is_answered_in_the_dialect_of_the_request() {
    let world = world();
    let unknown = "/upload/farm/v1/animals?upload_id=unknown";
    let reply = toy(&world, unknown, "ask", Vec::new()).await;
    assert_eq!((reply.status, reply.body.len()), (StatusCode::NOT_FOUND, 0));
    let invalid = toy(&world, unknown, "what", Vec::new()).await;
    assert_eq!(invalid.status, StatusCode::CONFLICT);
    let google = world.query(unknown).await;
    assert_eq!(google.json()["error"]["errors"][0]["reason"], "notFound");
}

#[tokio::test]
async fn session_is_changed_by_the_dialect_that_started_it_alone() {
    let world = world();
    let session = begin(&world).await;
    toy(&world, &session, "put 0", vec![7; 10]).await;
    let google = world.put(&session, "bytes 10-19/20", vec![7; 10]);
    let refused = google.await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    let cancel = world.call("DELETE", &session);
    assert_eq!(cancel.await.status, StatusCode::BAD_REQUEST);
    assert_eq!(world.query(&session).await.committed(), 10);
    let end = toy(&world, &session, "end 10", vec![7; 10]).await;
    assert_eq!(end.status, StatusCode::OK, "{end:?}");

    let session = world.start(None).await.expect("it is Google's");
    let refused = toy(&world, &session, "put 0", vec![7; 10]).await;
    assert_eq!(refused.status, StatusCode::MISDIRECTED_REQUEST);
    let asked = toy(&world, &session, "ask", Vec::new()).await;
    assert_eq!(asked.headers["toy-offset"], "0");
}

#[tokio::test]
async fn upload_id_opens_nothing_but_a_session() {
    let token = BearerToken::new("s3cret", Principal::new("alice"));
    let world = world_with(|server| server.authorize(Arc::new(token)));
    let start = "/upload/farm/v1/animals";
    let refused = toy(&world, start, "begin", Vec::new()).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    let with_id = format!("{start}?upload_id=x");
    let refused = toy(&world, &with_id, "begin", Vec::new()).await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND);
}
