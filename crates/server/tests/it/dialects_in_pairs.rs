//! The dialect that began a session, and the dialect of a request to it: each pair.
//!
//! The dialect that began a session appends to it and ends it. Each may ask. A cancel needs the
//! dialect of the session. Every refusal says why and changes nothing.
//!
//! `dialects_in_pairs.txt` has the reply to each request, as a table. After a change,
//! `UPDATE_MESSAGES=1 cargo test -p windlass-server --test it in_pairs` rewrites it.

use std::fmt::Write as _;
use std::fs;

use windlass_store::{Ledger as _, SessionQuery};
use windlass_testkit::media::Media;

use crate::protocols::{ClientRequest, Outcome, Protocol};
use crate::world::{Body, Reply, SharedStores, World};

const TABLE: &str = include_str!("dialects_in_pairs.txt");
const TABLE_PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/it/dialects_in_pairs.txt"
);

const LEN: u64 = 20;
const HALF: u64 = 10;

const MEDIA: Media = Media::new(20, LEN);

/// How far the upload is when the request comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Half of the bytes are there.
    Half,
    /// All bytes are there. The request that brought them broke off before its end.
    All,
    Finished,
}

/// A request to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Append,
    Query,
    End,
    Cancel,
}

impl Stage {
    const EACH: [Self; 3] = [Self::Half, Self::All, Self::Finished];

    fn committed(self) -> u64 {
        match self {
            Self::Half => HALF,
            Self::All | Self::Finished => LEN,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Half => "10 of 20 bytes are committed.",
            Self::All => "All 20 bytes are committed, but the request that brought them broke off.",
            Self::Finished => "The upload is finished.",
        }
    }

    /// The requests that a client could send. None has bytes beyond the length.
    fn requests(self) -> &'static [Request] {
        const ALL: &[Request] = &[
            Request::Append,
            Request::Query,
            Request::End,
            Request::Cancel,
        ];
        match self {
            Self::Half => ALL,
            Self::All | Self::Finished => &ALL[1..],
        }
    }
}

impl Request {
    fn by(self, dialect: Protocol, session: &str, stage: Stage) -> ClientRequest {
        let from = stage.committed();
        let to = if self == Self::Append { from + 5 } else { LEN };
        let bytes = MEDIA.bytes(from..to);
        match self {
            Self::Append => dialect.append(session, from..to, bytes),
            Self::Query => dialect.query(session),
            Self::End => dialect.end(session, from..to, bytes),
            Self::Cancel => dialect.cancel(session),
        }
    }
}

/// A session at a stage.
struct Subject {
    world: World,
    stores: SharedStores,
    session: String,
}

impl Subject {
    async fn new(dialect: Protocol, stage: Stage) -> Self {
        let stores = SharedStores::new();
        let world = stores.server();
        let started = dialect.start(Some(LEN)).to(&world).await;
        let session = dialect.session(&started);
        let sent = match stage {
            Stage::Half => dialect.append(&session, 0..HALF, MEDIA.bytes(0..HALF)),
            Stage::All => dialect.end(&session, 0..LEN, Body::Broken(MEDIA.whole())),
            Stage::Finished => dialect.end(&session, 0..LEN, MEDIA),
        };
        sent.to(&world).await;
        let subject = Self {
            world,
            stores,
            session,
        };
        let found = subject.state().await;
        let resources = usize::from(stage == Stage::Finished);
        assert!(found.contains(&format!("{} bytes, {resources}", stage.committed())));
        subject
    }

    /// The state of the session in the ledger. A question in its dialect could change it.
    async fn state(&self) -> String {
        let page = self.stores.ledger.sessions(&SessionQuery::default()).await;
        let page = page.expect("memory can be read");
        let session = &page.sessions[0];
        let resources = self.world.count().await;
        let (state, offset) = (session.state, session.offset);
        format!("{state:?}, {offset} bytes, {resources} resources")
    }
}

/// Sends a request to a new session. Returns the cell of the table: the status, the outcome for the
/// client, and a star if the session has changed.
async fn cell(
    owner: Protocol,
    caller: Protocol,
    marked: bool,
    stage: Stage,
    request: Request,
) -> String {
    let subject = Subject::new(owner, stage).await;
    let before = subject.state().await;
    let uri = if marked {
        caller.readdressed(&subject.session)
    } else {
        subject.session.clone()
    };
    let reply = request.by(caller, &uri, stage).to(&subject.world).await;
    let has_changed = subject.state().await != before;
    let outcome = caller.read(&reply);
    let context = format!("{owner:?} {caller:?} {marked} {stage:?} {request:?} {reply:?}");
    assert!(
        !has_changed || outcome != Outcome::Refused,
        "a refusal changes nothing: {context}"
    );
    // The URI tells the dialect of a request without any header of one.
    let is_bare = match request {
        Request::Query => caller == Protocol::Ietf,
        Request::Cancel => true,
        Request::Append | Request::End => false,
    };
    if caller != owner && (marked || !is_bare) {
        assert!(!has_changed, "another dialect changes nothing: {context}");
    }
    if outcome == Outcome::Finished {
        assert_eq!(
            subject.world.count().await,
            1,
            "it is not finished: {context}"
        );
    }
    let outcome = match outcome {
        Outcome::Committed(offset) => offset.to_string(),
        Outcome::Finished => "finished".to_owned(),
        Outcome::Cancelled => "cancelled".to_owned(),
        Outcome::Refused => reason(&reply)
            .unwrap_or_else(|| panic!("no reason: {context}"))
            .to_owned(),
    };
    let star = if has_changed { "*" } else { "" };
    format!("{} {outcome}{star}", reply.status.as_u16())
}

/// Why a request is refused, in a few words.
fn reason(reply: &Reply) -> Option<&'static str> {
    let body = std::str::from_utf8(&reply.body).expect("it is text");
    let reasons = [
        ("was started by another upload protocol", "other dialect"),
        ("request method is not allowed", "method"),
        ("must name a version", "no version"),
        ("is finished and cannot be cancelled", "is finished"),
    ];
    let mut reasons = reasons.iter().filter(|(text, _)| body.contains(text));
    reasons.next().map(|(_, words)| *words)
}

async fn line(owner: Protocol, caller: Protocol, marked: bool, stage: Stage) -> String {
    let mut line = String::new();
    for request in stage.requests() {
        let cell = cell(owner, caller, marked, stage, *request).await;
        write!(line, " {cell:19}").expect("memory takes everything");
    }
    line
}

#[tokio::test]
async fn session_is_appended_to_and_ended_by_its_own_dialect() {
    let mut table = String::new();
    let head: String = TABLE
        .split_inclusive('\n')
        .take_while(|line| line.starts_with('#'))
        .collect();
    table.push_str(&head);
    for stage in Stage::EACH {
        let mut heading = format!("{:13} {:21}", "begun by", "request of");
        for request in stage.requests() {
            let title = format!("{request:?}").to_lowercase();
            write!(heading, " {title:19}").expect("memory takes everything");
        }
        write!(table, "\n{}\n\n{}\n", stage.title(), heading.trim_end())
            .expect("memory takes everything");
        for owner in Protocol::ALL {
            for caller in Protocol::ALL {
                let as_given = line(owner, caller, false, stage).await;
                let marked = line(owner, caller, true, stage).await;
                let mut lines = vec![("", &as_given)];
                if marked != as_given {
                    lines.push((", own URI", &marked));
                }
                for (note, cells) in lines {
                    let caller = format!("{}{note}", caller.name());
                    let line = format!("{:13} {caller:21}{cells}", owner.name());
                    writeln!(table, "{}", line.trim_end()).expect("memory takes everything");
                }
            }
        }
    }
    if std::env::var_os("UPDATE_MESSAGES").is_some() {
        fs::write(TABLE_PATH, &table).expect("the sources are writable");
    } else {
        assert_eq!(
            table, TABLE,
            "see the head of dialects_in_pairs.rs on how to update it"
        );
    }
}
