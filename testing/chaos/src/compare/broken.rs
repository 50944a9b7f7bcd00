//! Requests that break off half-way: how many of the arrived bytes count, and can the client
//! continue?

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use windlass_testkit::checker::{Answer, Dialect, Rule};
use windlass_testkit::media::Media;
use windlass_testkit::raw::{RawPeer, Reply, Request};
use windlass_testkit::rng::Rng;

use super::Arguments;
use super::contestant::Contestant;
use super::table::Row;
use crate::scratch::Scratch;
use crate::server_under_test::{Server, ServerUnderTest};

/// The media of an upload, half of which is sent.
const LENGTH: u64 = 1 << 20;

/// How long a server may take to say how much of a broken request it keeps.
const TELLS_WITHIN: Duration = Duration::from_secs(2);

/// How long a reply may take: longer than the three seconds for which the tus server for Node lets
/// a frozen request keep its lock.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a refused client tries again.
const TRIES: u32 = 2;

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// How a request breaks off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The client closes the connection.
    HangsUp,
    /// The connection stays open without further bytes, while the client continues over another
    /// connection.
    Freezes,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HangsUp => "client hangs up",
            Self::Freezes => "client freezes",
        })
    }
}

/// Breaks requests off, one after another.
///
/// # Errors
/// When the server does not start.
pub(super) fn run(arguments: &Arguments, contestant: &Contestant, way: Way) -> anyhow::Result<Row> {
    let scratch = Scratch::on_disk()?;
    let (data, log) = (scratch.path().join("data"), scratch.path().join("log"));
    let mut watch = Watch {
        server: contestant.server_under_test.start(&data, &log)?,
        server_under_test: &contestant.server_under_test,
        data,
        log,
        ended: 0,
    };
    let mut rng = Rng::new(arguments.seed);
    let mut row = Row::of(way.to_string());
    for number in 1..=arguments.broken {
        let mut client = Client {
            dialect: &*contestant.dialect,
            watch: &mut watch,
            media: Media::new(rng.next_u64(), LENGTH),
        };
        let name = format!("broken upload {number}");
        row.injected += 1;
        row.uploads += 1;
        let (kept, end) = client.upload(&name, way);
        let (of, told) = row.kept.get_or_insert_default();
        (*of, *told) = (*of + LENGTH / 2, *told + kept);
        row.acknowledged += kept;
        match end {
            End::Whole => row.acknowledged += LENGTH - kept,
            End::Damaged(how) => {
                row.finished_lost += 1;
                row.violate(name, Rule::MediaDiffers(how));
            }
            End::Stuck(how) => {
                row.otherwise += 1;
                row.violate(name, Rule::Stuck(how));
            }
        }
    }
    row.ended = watch.ended;
    Ok(row)
}

/// A server that is started again when it has ended by itself, as a supervisor does it.
struct Watch<'a> {
    server: Server,
    server_under_test: &'a ServerUnderTest,
    data: PathBuf,
    log: PathBuf,
    ended: u64,
}

impl Watch<'_> {
    fn address(&mut self) -> io::Result<SocketAddr> {
        if self.server.has_ended() {
            self.ended += 1;
            let again = self.server_under_test.start(&self.data, &self.log);
            self.server = again.map_err(io::Error::other)?;
        }
        Ok(self.server.address())
    }
}

/// The outcome of an upload after one of its requests broke off.
enum End {
    Whole,
    Damaged(String),
    Stuck(String),
}

struct Client<'a, 'b> {
    dialect: &'a dyn Dialect,
    watch: &'a mut Watch<'b>,
    media: Media,
}

impl Client<'_, '_> {
    /// Returns how many bytes of the broken request were kept, and the outcome of the upload.
    fn upload(&mut self, name: &str, way: Way) -> (u64, End) {
        let target = match self.ask(&self.dialect.start(name, self.media)) {
            Ok(Answer::Started(target)) => target,
            other => return (0, End::Stuck(format!("it does not start: {other:?}"))),
        };
        let broken = self.break_off(&target, way);
        let kept = self.kept(&target);
        let end = match broken {
            Ok(_open) => self.go_on(&target),
            Err(error) => End::Stuck(error.to_string()),
        };
        (kept, end)
    }

    /// Sends all of the head and half of the media. A connection that freezes is returned, as it
    /// must stay open.
    fn break_off(&mut self, target: &str, way: Way) -> io::Result<Option<RawPeer>> {
        let append = self.dialect.append(target, self.media, 0..LENGTH);
        let mut peer = RawPeer::try_connect(self.watch.address()?)?;
        peer.try_send(append.head_bytes())?;
        peer.try_send(self.media.bytes(0..LENGTH / 2))?;
        Ok((way == Way::Freezes).then_some(peer))
    }

    /// The highest offset that the server tells within its time.
    fn kept(&mut self, target: &str) -> u64 {
        let start = Instant::now();
        let mut kept = 0;
        while kept < LENGTH / 2 && start.elapsed() < TELLS_WITHIN {
            if let Ok(Answer::Committed(offset)) = self.ask(&self.dialect.query(target)) {
                kept = kept.max(offset);
            }
            sleep(PAUSE);
        }
        kept
    }

    /// Asks for the offset and sends the rest, until the upload is complete.
    fn go_on(&mut self, target: &str) -> End {
        let mut heard = String::new();
        for _ in 0..TRIES {
            let answer = match self.ask(&self.dialect.query(target)) {
                Ok(Answer::Committed(offset)) => {
                    let rest = self.dialect.append(target, self.media, offset..LENGTH);
                    self.ask(&rest)
                }
                other => other,
            };
            match answer {
                Ok(Answer::Finished(body)) => return self.compare(target, &body),
                other => heard = format!("{other:?}"),
            }
        }
        End::Stuck(heard)
    }

    fn compare(&mut self, target: &str, body: &[u8]) -> End {
        let resource = self.dialect.resource(Some(target), body);
        let Some(download) = resource.and_then(|resource| self.dialect.download(&resource)) else {
            return End::Whole;
        };
        let reply = self.exchange(&download);
        let same = reply.and_then(|reply| self.media.compare(0..LENGTH, &reply.body[..]));
        same.map_or_else(|how| End::Damaged(how.to_string()), |()| End::Whole)
    }

    fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        let reply = self.exchange(request)?;
        Ok(self.dialect.answer(&reply, self.media))
    }

    fn exchange(&mut self, request: &Request) -> io::Result<Reply> {
        let mut peer = RawPeer::try_connect(self.watch.address()?)?;
        peer.set_patience(PATIENCE);
        peer.try_send(request.to_bytes())?;
        peer.try_reply_to(request)
    }
}
