//! A server that implements only the protocol: media is held in memory, and [`step`] decides for
//! sessions.

use http::header::{CONTENT_TYPE, RANGE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version};
use windlass_proto::command::{
    BodyLength, Command, Framing, SessionHead, StartHead, effective_method,
};
use windlass_proto::dialect::{self, Condition, RequestHead, RequestTarget, SessionStatus};
use windlass_proto::error::ProtocolError;
use windlass_proto::parameters::{Parameters, UploadId};
use windlass_proto::reply::{ErrorReply, ReplyHead};
use windlass_proto::session::{
    BodyFilter, CHUNK_GRANULARITY, Ending, Outcome, Rules, SessionAction, SessionError, Snapshot,
    State, Step, step,
};

use crate::client::Outgoing;
use crate::fault::Keep;
use crate::media::{Stored, pieces};
use crate::schedule::{Dialect, Options};

const Q: u64 = CHUNK_GRANULARITY;

/// The part of a request that arrives, and when its effect becomes visible.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivery {
    /// Number of bytes of the body after which the connection breaks.
    pub(crate) breaks: Option<u64>,
    pub(crate) keep: Keep,
    /// Number of requests until the effect becomes visible.
    pub(crate) late: u8,
}

impl Delivery {
    pub(crate) const WHOLE: Self = Self {
        breaks: None,
        keep: Keep::All,
        late: 0,
    };
}

/// A reply on the wire.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn new(status: u16, body: &str) -> Self {
        Self {
            status: StatusCode::from_u16(status).expect("a status"),
            headers: HeaderMap::new(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn page(status: u16) -> Self {
        let mut answer = Self::new(status, "<html><body>Something happened.</body></html>");
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        answer.headers.insert(CONTENT_TYPE, html);
        answer
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    pub(crate) fn with_retry_after(self, seconds: Option<u64>) -> Self {
        match seconds {
            Some(seconds) => self.with_header(RETRY_AFTER, seconds.into()),
            None => self,
        }
    }
}

impl From<ReplyHead> for Answer {
    fn from(head: ReplyHead) -> Self {
        Self {
            status: head.status,
            headers: head.headers,
            body: String::new(),
        }
    }
}

impl From<ErrorReply> for Answer {
    fn from(error: ErrorReply) -> Self {
        Self {
            status: error.status,
            headers: error.headers,
            body: String::new(),
        }
        .with_retry_after(error.retry_after.map(u64::from))
    }
}

/// The model server.
#[derive(Debug)]
pub(crate) struct Server {
    dialect: Dialect,
    sessions: Vec<Session>,
    /// The media of uploads in one request.
    one_shots: Vec<Stored>,
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) state: State,
    total: Option<u64>,
    pub(crate) media: Stored,
    /// The condition in replies after the session is lost.
    pub(crate) lost: Option<Condition>,
    late: Vec<Late>,
}

/// The effect of a request that is not visible yet.
#[derive(Debug)]
struct Late {
    requests: u8,
    effect: Effect,
}

/// The effect of a request.
#[derive(Debug)]
struct Effect {
    first: u64,
    media: Stored,
    total: Option<u64>,
    finishes: Option<u64>,
}

impl Server {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            sessions: Vec::new(),
            one_shots: Vec::new(),
        }
    }

    /// Returns the session of a URI's query.
    pub(crate) fn session(&mut self, query: &str) -> Option<&mut Session> {
        let parameters = Parameters::parse(Some(query)).expect("tests write valid queries");
        let index: usize = parameters.first("upload_id")?.parse().ok()?;
        self.sessions.get_mut(index)
    }

    pub(crate) fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    pub(crate) fn one_shots(&self) -> &[Stored] {
        &self.one_shots
    }

    /// Serves a request. The reply is lost when the connection breaks.
    pub(crate) fn serve(&mut self, request: &Outgoing, delivery: Delivery) -> Answer {
        for session in &mut self.sessions {
            session.time_passes();
        }
        let parameters =
            Parameters::parse(Some(&request.query)).expect("the client writes valid queries");
        let headers = &request.headers;
        let method = effective_method(&request.method, headers).expect("a method");
        let framing = Framing::of(Version::HTTP_11, headers, false).expect("a framing");
        let head = RequestHead {
            http_method: &method,
            parameters: &parameters,
            headers,
            framing,
        };
        let dialect = self.dialect;
        let target = RequestTarget {
            http_method: &method,
            is_upload_path: true,
            is_media_path: false,
            parameters: &parameters,
            headers,
        };
        assert!(dialect.of_server().claims(&target));
        match dialect.of_server().command(&head).expect("a good head") {
            Command::Start(head) => self.start(&head),
            Command::Simple(head) => self.single_request(head.length, request, delivery),
            Command::Session(head) => {
                let session = self.session(&request.query).expect("a URI of this server");
                session.serve(&head, request, delivery, dialect)
            }
            Command::Cancel { .. } => {
                let session = self.session(&request.query).expect("a URI of this server");
                session.cancel(dialect)
            }
            other @ Command::Multipart(_) => panic!("{other:?} is sent by no client"),
        }
    }

    /// Unfinished sessions lose a part of their bytes and all late effects.
    pub(crate) fn restart(&mut self, left: u16) {
        for session in &mut self.sessions {
            session.late.clear();
            if session.state == State::Active {
                let left = thousandths(session.media.len(), left);
                session.media.truncate(left - left % Q);
            }
        }
    }

    fn start(&mut self, head: &StartHead) -> Answer {
        let id = self.sessions.len().to_string();
        let uri = format!("https://up.example.com/upload/farm/v1/animals?upload_id={id}");
        self.sessions.push(Session {
            state: State::Active,
            total: head.declared_total(),
            media: Stored::default(),
            lost: None,
            late: Vec::new(),
        });
        let value = |text: String| HeaderValue::try_from(text).expect("ASCII");
        let started = dialect::Outcome::Started {
            location: value(uri),
            upload_id: value(id),
            status: SessionStatus::with_offset(0),
            with_data: false,
        };
        self.dialect.of_server().reply(started).into()
    }

    fn single_request(
        &mut self,
        length: BodyLength,
        request: &Outgoing,
        delivery: Delivery,
    ) -> Answer {
        let filter = BodyFilter::single_request(None, length).expect("there is no limit");
        let (media, outcome) = take(filter, request, delivery);
        match outcome {
            Outcome::Finished { total } => {
                self.one_shots.push(media);
                resource(total, None, self.dialect)
            }
            Outcome::Committed => panic!("the only chunk is the last"),
            Outcome::Interrupted => lost_reply(),
        }
    }
}

impl Session {
    /// Returns whether a resource exists.
    pub(crate) fn is_finished(&self) -> bool {
        self.state == State::Finished
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            state: self.state,
            offset: self.media.len(),
            total: self.total,
        }
    }

    fn time_passes(&mut self) {
        for late in &mut self.late {
            late.requests -= 1;
        }
        let due: Vec<_> = self
            .late
            .extract_if(.., |late| late.requests == 0)
            .collect();
        for late in due {
            self.apply(late.effect);
        }
    }

    fn serve(
        &mut self,
        head: &SessionHead,
        request: &Outgoing,
        delivery: Delivery,
        dialect: Dialect,
    ) -> Answer {
        if let Some(condition) = self.lost {
            return dialect.of_server().condition(condition).into();
        }
        let rules = dialect.of_server().rules(Rules::default());
        let effect = match step(&self.snapshot(), &rules, &head.request) {
            Ok(Step::Replay) => return self.resource(head, dialect),
            Ok(Step::Report) => return self.report(head, dialect),
            Ok(Step::ResumeFinish) => panic!("a finish takes no time here"),
            Ok(Step::Finish { total }) => Effect {
                first: total,
                media: Stored::default(),
                total: Some(total),
                finishes: Some(total),
            },
            Ok(Step::Append(filter)) => self.append(filter, request, delivery),
            Err(error) => {
                let action = head.request.action;
                assert!(
                    is_explained(&error, action),
                    "the client has broken a rule: {error}"
                );
                let error = ProtocolError::Session(error);
                return dialect.of_server().protocol_error(&error).into();
            }
        };
        if delivery.late == 0 {
            self.apply(effect);
        } else {
            let requests = delivery.late;
            self.late.push(Late { requests, effect });
        }
        if self.is_finished() {
            self.resource(head, dialect)
        } else {
            self.report(head, dialect)
        }
    }

    fn cancel(&mut self, dialect: Dialect) -> Answer {
        let dialect = dialect.of_server();
        match (self.lost, self.state) {
            (Some(condition), _) => dialect.condition(condition).into(),
            (None, State::Active) => {
                self.state = State::Cancelled;
                dialect.reply(dialect::Outcome::Cancelled).into()
            }
            (None, State::Cancelled) => dialect.condition(Condition::AlreadyCancelled).into(),
            (None, _) => dialect.condition(Condition::AlreadyFinished).into(),
        }
    }

    fn append(&self, filter: BodyFilter, request: &Outgoing, delivery: Delivery) -> Effect {
        let total = filter.total();
        let first = self.media.len();
        let (mut media, outcome) = take(filter, request, delivery);
        if delivery.breaks.is_some() {
            let end = first + media.len();
            media.truncate(match delivery.keep {
                Keep::All => media.len(),
                Keep::Floor => (end - end % Q).saturating_sub(first),
                Keep::Nothing => 0,
            });
        }
        let finishes = match outcome {
            Outcome::Finished { total } => Some(total),
            Outcome::Committed | Outcome::Interrupted => None,
        };
        Effect {
            first,
            media,
            total,
            finishes,
        }
    }

    /// Applies a late effect. It adds no bytes that others have stored or lost meanwhile.
    fn apply(&mut self, mut effect: Effect) {
        let offset = self.media.len();
        if self.state != State::Active || self.lost.is_some() || effect.first > offset {
            return;
        }
        self.total = effect.total.or(self.total);
        effect.media.skip(offset - effect.first);
        self.media.append(effect.media);
        if effect.finishes == Some(self.media.len()) {
            self.state = State::Finished;
        }
    }

    fn resource(&self, head: &SessionHead, dialect: Dialect) -> Answer {
        resource(self.media.len(), Some(&head.upload_id), dialect)
    }

    fn report(&self, head: &SessionHead, dialect: Dialect) -> Answer {
        let committed = dialect::Outcome::Committed {
            status: SessionStatus::with_offset(self.media.len()),
            upload_id: &head.upload_id,
            no_308: head.no_308,
        };
        let mut answer: Answer = dialect.of_server().reply(committed).into();
        let is_bare = matches!(
            dialect,
            Dialect::Google(Options {
                bare_range: true,
                ..
            })
        );
        if let Some(range) = answer.headers.get_mut(RANGE).filter(|_| is_bare) {
            let text = range.to_str().expect("ASCII").replace("bytes=", "");
            *range = HeaderValue::try_from(text).expect("ASCII");
        }
        answer
    }
}

/// Reads the part of a body that arrives.
fn take(mut filter: BodyFilter, request: &Outgoing, delivery: Delivery) -> (Stored, Outcome) {
    let mut body = request.body.clone();
    let mut ending = Ending::Complete;
    if let Some(breaks) = delivery.breaks {
        body.end = body.start + breaks;
        ending = Ending::Broken;
    }
    let mut media = Stored::default();
    for piece in pieces(body) {
        media.push(filter.accept(piece).expect("a body as announced"));
    }
    let outcome = filter.end(ending).expect("a body as announced");
    (media, outcome)
}

/// Returns whether a fault explains the error.
fn is_explained(error: &SessionError, action: SessionAction) -> bool {
    match error {
        SessionError::Gap { .. } | SessionError::Gone | SessionError::Cancelled => true,
        // A restart has lost bytes that the client takes for stored.
        SessionError::LengthDisagrees { .. } => action == SessionAction::Finish,
        _ => false,
    }
}

fn resource(size: u64, upload_id: Option<&UploadId>, dialect: Dialect) -> Answer {
    let status = match dialect {
        Dialect::Google(Options { created: false, .. }) => StatusCode::OK,
        // The dialect `X-Goog-Upload` turns it into 200.
        Dialect::Google(_) | Dialect::XGoogUpload(_) => StatusCode::CREATED,
    };
    let reply = dialect::Outcome::Final(dialect::Final {
        status,
        content_type: HeaderValue::from_static("application/json; charset=UTF-8"),
        length: size,
        resource: None,
        upload_id,
        location: None,
        kept: None,
    });
    Answer {
        body: format!(r#"{{"size": "{size}"}}"#),
        ..Answer::from(dialect.of_server().reply(reply))
    }
}

/// Returns the reply that a broken connection loses.
fn lost_reply() -> Answer {
    Answer::new(500, "")
}

pub(crate) fn thousandths(of: u64, count: u16) -> u64 {
    of * u64::from(count) / 1000
}
