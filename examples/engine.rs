//! An upload server over a protocol without HTTP: one line for each connection.
//!
//! `cargo run --bin engine -- 127.0.0.1:8080 data`, then in another terminal:
//!
//! ```sh
//! printf 'start 10 hello.txt\n' | nc 127.0.0.1 8080          # upload ID
//! printf 'append ID 0 5\nhello' | nc 127.0.0.1 8080          # committed 5
//! # kill -9 the server and start it again; it still has the five bytes:
//! printf 'query ID\n' | nc 127.0.0.1 8080                    # committed 5
//! printf 'append ID 5 5\nworld' | nc 127.0.0.1 8080          # stored hello.txt
//! ```

#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Take};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use windlass_digest::ExpectedDigests;
use windlass_engine::identifiers::session_id;
use windlass_engine::identifiers::{Clock as _, SystemClock, first_version, new_resource_id};
use windlass_engine::{
    Completed, Completion, Engine, EngineParts, Error, FinishedMedia, MediaStream, SessionHead,
    SessionReply, UploadContext,
};
use windlass_session::{BodyLength, ContentRange, Query, SessionAction, SessionRequest};
use windlass_store::{Resource, ResourceChange, Session, SessionId};
use windlass_store_local::{LocalStore, Options};

/// The purpose of an upload: the name of a file.
#[derive(Debug)]
struct FileName(String);

impl UploadContext for FileName {
    fn memory(&self) -> usize {
        self.0.len()
    }
}

/// Makes a resource of each upload.
struct Files;

impl Completion for Files {
    type Context = FileName;
    type Request = ();
    type Reply = String;
    type Held = ();

    fn encode(&self, name: &FileName) -> Vec<u8> {
        name.0.clone().into_bytes()
    }

    fn decode(&self, session: &Session) -> Result<FileName, Error> {
        let name = String::from_utf8(session.context.clone());
        name.map(FileName).map_err(|_| Error::NotFound)
    }

    /// A client that knows the id of a session may use it.
    fn check(&self, _: &Session, _: &FileName, (): &()) -> Result<(), Error> {
        Ok(())
    }

    async fn complete(
        &self,
        FileName(name): &FileName,
        finished: &FinishedMedia,
        _: Option<SessionId>,
    ) -> Result<Completed<String, ()>, Error> {
        let now = SystemClock.now();
        let file = Resource {
            collection: "files".to_owned(),
            id: new_resource_id(now),
            version: first_version(),
            body: Bytes::from(name.clone()),
            media: Some(finished.media.clone()),
            created: now,
            updated: now,
            due: None,
            claimed_by: None,
            owner: None,
        };
        let stored = name.clone().into_bytes();
        let changes = vec![ResourceChange::Insert(file)];
        Ok(Completed::new(changes, name.clone(), stored))
    }

    fn replay(&self, stored: &[u8], _: u64) -> Result<Option<String>, Error> {
        Ok(String::from_utf8(stored.to_vec()).ok())
    }
}

/// The bytes after the line of a connection.
struct Rest(Take<BufReader<OwnedReadHalf>>);

impl MediaStream for Rest {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let mut data = BytesMut::with_capacity(64 * 1024);
        match self.0.read_buf(&mut data).await? {
            0 if self.0.limit() > 0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            0 => Ok(None),
            _ => Ok(Some(data.freeze())),
        }
    }
}

/// Answers the one line of a connection.
async fn answer(engine: &Engine<Files>, line: &str, read: BufReader<OwnedReadHalf>) -> String {
    let words: Vec<_> = line.split_whitespace().collect();
    let number = |text: &str| text.parse().unwrap_or_default();
    let (id, action, count) = match words[..] {
        ["start", length, name] => {
            let name = FileName(name.to_owned());
            let started = engine.start(name, Some(number(length)), "lines").await;
            return started.map_or_else(
                |error| error.to_string(),
                |started| format!("upload {}", started.upload_id),
            );
        }
        // The upload ends with the byte that completes the length which was declared at the start.
        ["append", id, first, count] if number(count) > 0 => {
            let (first, count) = (number(first), number(count));
            let last = first.saturating_add(count - 1);
            let range = ContentRange::Bounded {
                first,
                last,
                total: None,
            };
            (id, SessionAction::Ranged(Ok(Some(range))), count)
        }
        ["query", id] => (id, SessionAction::Query(Query::Undisturbed), 0),
        _ => return "write start LENGTH NAME, append ID OFFSET COUNT, or query ID".to_owned(),
    };
    let head = SessionHead {
        session: session_id(id),
        dialect: "lines",
        action: SessionRequest {
            action,
            body: BodyLength::Exact(count),
        },
        expected_digests: ExpectedDigests::default(),
        request: (),
    };
    let mut rest = Some(Rest(read.take(count)));
    match engine
        .continue_session(Box::new(head), &mut rest, |_| ())
        .await
    {
        Ok(SessionReply::Committed(done)) => format!("committed {}", done.offset),
        Ok(SessionReply::Final(name)) => format!("stored {name}"),
        Err(error) => error.to_string(),
    }
}

async fn serve(engine: Engine<Files>, connection: TcpStream) -> io::Result<()> {
    let (read, mut write) = connection.into_split();
    let (mut read, mut line) = (BufReader::new(read), String::new());
    (&mut read).take(4096).read_line(&mut line).await?;
    let reply = answer(&engine, &line, read).await;
    write.write_all(format!("{reply}\n").as_bytes()).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(address), Some(data)) = (args.next(), args.next()) else {
        return Err("usage: engine ADDRESS DATA_DIRECTORY".into());
    };
    let stores = LocalStore::open(Path::new(&data), Options::default())?;
    let engine = Engine::new(
        EngineParts::new(Arc::new(stores.ledger), Arc::new(stores.vault)),
        Files,
    );
    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        let (connection, _) = listener.accept().await?;
        tokio::spawn(serve(engine.clone(), connection));
    }
}
