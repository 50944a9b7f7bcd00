//! No room on the disk.
//!
//! Injected: uploads fill a small file system up to the limits of the server; in every other cycle somebody else then takes it to its last
//! byte. Room is made by cancels and deletes alone, or by the other's leaving.
//! To be survived: everything that was acknowledged. To be seen: media is refused with 503 and `Retry-After`; queries, finishes, cancels
//! and deletes go on, on the last byte too; soon after there is room uploads go on, and nobody had to do anything about the server.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use windlass_testkit::checker::Violation;
use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::{Reply, Request};
use windlass_testkit::session::{Session, content_range};

use super::pulse::ask_once;
use super::verdict::Verdict;
use super::volume::Volume;
use crate::disk::FileSystem;
use crate::guard::dies_with_us;
use crate::outcome::{Outcome, progress};
use crate::subject::{Server, Subject};

/// The media of every upload: half of it is sent, the rest when there is room.
const MEDIA: u64 = 2 << 20;

/// The half.
const HALF: u64 = MEDIA / 2;

/// How soon after a cancel there must be room: the sweep comes within seconds.
const ROOM_WITHIN: Duration = Duration::from_secs(15);

/// Within this the sweep frees something, if there is anything left to free.
const SWEEP: Duration = Duration::from_secs(2);

/// Fills the disk and makes room again, many times.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    subject: Subject,
    /// The file system.
    #[arg(long, value_enum, default_value_t = FileSystem::Ext4)]
    file_system: FileSystem,
    /// How often it is filled.
    #[arg(long, default_value_t = 8)]
    cycles: u64,
    /// What the clients send follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The smallest that is of use: XFS and Btrfs take no less.
fn size(file_system: FileSystem) -> u64 {
    match file_system {
        FileSystem::Ext4 => 32 << 20,
        FileSystem::Xfs => 300 << 20,
        FileSystem::Btrfs => 256 << 20,
    }
}

/// The server's limits, for a disk that is so small. Btrfs only guesses how much room there is.
fn limits(file_system: FileSystem) -> &'static str {
    match file_system {
        FileSystem::Ext4 | FileSystem::Xfs => "[free_space]\nsoft = \"4MB\"\nhard = \"2MB\"\n",
        FileSystem::Btrfs => "[free_space]\nsoft = \"64MB\"\nhard = \"32MB\"\n",
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    Volume::need(arguments.file_system)?;
    let scratch = tempfile::tempdir()?;
    let config = scratch.path().join("config.toml");
    fs::write(&config, limits(arguments.file_system))?;
    let volume = Volume::new(
        arguments.file_system,
        size(arguments.file_system),
        scratch.path(),
    )?;
    let mut subject = arguments.subject.clone();
    subject
        .arguments
        .push(format!("--config={}", config.display()));
    let log = scratch.path().join("log");
    let mut server = subject.start_under(&dies_with_us(), &volume.data(), &log)?;
    let mut work = Work::new(server.address(), arguments.seed);
    for cycle in 1..=arguments.cycles {
        work.cycle(&volume, &mut server, cycle)?;
        if !work.verdict.is_clean() {
            break;
        }
        if cycle % 20 == 0 {
            progress(work.figures());
        }
    }
    server.kill9();
    let figures = format!("{}: {}", arguments.file_system.name(), work.figures());
    for Violation { upload, rule } in arguments.subject.verify(&volume.data())? {
        let occasion = format!("after {} cycles", work.cycles);
        work.verdict.blame(&occasion, format!("{upload}: {rule}"));
    }
    Ok(work.verdict.outcome(figures))
}

/// An upload that was begun.
struct Begun {
    session: Session,
    media: Media,
    offset: u64,
}

struct Work {
    address: SocketAddr,
    seed: u64,
    occasion: String,
    verdict: Verdict,
    cycles: u64,
    uploads: u64,
    refused: u64,
    done_when_full: u64,
    slowest_room: Duration,
}

impl Work {
    fn new(address: SocketAddr, seed: u64) -> Self {
        Self {
            address,
            seed,
            occasion: String::new(),
            verdict: Verdict::default(),
            cycles: 0,
            uploads: 0,
            refused: 0,
            done_when_full: 0,
            slowest_room: Duration::ZERO,
        }
    }

    fn figures(&self) -> String {
        format!(
            "full {} times; {} uploads, {} refusals; {} queries, finishes, cancels and deletes done on the full disk; room again within {} ms",
            self.cycles,
            self.uploads,
            self.refused,
            self.done_when_full,
            self.slowest_room.as_millis()
        )
    }

    fn cycle(&mut self, volume: &Volume, server: &mut Server, cycle: u64) -> anyhow::Result<()> {
        let others = cycle.is_multiple_of(2);
        let who = if others { "others" } else { "uploads" };
        self.occasion = format!("cycle {cycle}, filled by {who}");
        self.cycles += 1;
        let whole = self.begin_whole()?;
        let deleted = farm::id(&self.ask(&farm::simple(Media::new(self.seed, HALF)))?);
        let mut begun = if others {
            self.begin_some()?
        } else {
            self.fill()?
        };
        let stranger = volume.path().join("stranger");
        if others {
            fill_to_the_last_byte(&stranger)?;
            self.expect_no_media(&mut begun[0])?;
        }
        self.look_at_all(&begun)?;
        self.do_without_room(&mut begun, &whole, &deleted)?;
        if others {
            fs::remove_file(&stranger)?;
        } else {
            self.cancel_all(begun.split_off(1))?;
        }
        self.wait_for_room()?;
        self.look_at_all(&begun)?;
        self.finish_first(&begun.remove(0))?;
        self.cancel_all(begun)?;
        self.wait_for_room()?;
        let ended = server.wait(Duration::ZERO).ok();
        self.expect(ended.is_none(), format!("it ended: {ended:?}"));
        Ok(())
    }

    /// An upload all of whose bytes are there, and which lacks nothing but its end.
    fn begin_whole(&mut self) -> anyhow::Result<Session> {
        let mut begun = self
            .begin()?
            .ok_or_else(|| anyhow::anyhow!("there is no room to begin with"))?;
        self.append(&mut begun, HALF)?;
        Ok(begun.session)
    }

    /// Begins a few uploads, which leave room for others.
    fn begin_some(&mut self) -> anyhow::Result<Vec<Begun>> {
        let mut all = Vec::new();
        for mut begun in [self.begin()?, self.begin()?, self.begin()?]
            .into_iter()
            .flatten()
        {
            self.append(&mut begun, HALF)?;
            all.push(begun);
        }
        self.expect(all.len() == 3, "there was no room to begin with");
        Ok(all)
    }

    /// Begins uploads until one is refused, and goes on with them until all are.
    fn fill(&mut self) -> anyhow::Result<Vec<Begun>> {
        let mut all = Vec::new();
        while let Some(mut begun) = self.begin()? {
            let is_taken = self.append(&mut begun, HALF)?;
            all.push(begun);
            if !is_taken {
                break;
            }
        }
        for begun in &mut all {
            // The last piece stays with the client: whoever has sent it all would be finished.
            while begun.offset < MEDIA - HALF / 4 && self.append(begun, begun.offset + HALF / 4)? {}
        }
        let refused = self.refused;
        self.begin()?;
        self.expect(
            self.refused > refused,
            "an upload was started on a full disk",
        );
        Ok(all)
    }

    fn begin(&mut self) -> anyhow::Result<Option<Begun>> {
        let media = Media::new(self.seed + self.uploads, MEDIA);
        let reply = self.ask(&farm::start(&farm::named(&self.occasion)))?;
        if reply.status != 200 {
            self.judge_refusal(&reply);
            return Ok(None);
        }
        self.uploads += 1;
        Ok(Some(Begun {
            session: Session::of_reply(self.address, &reply),
            media,
            offset: 0,
        }))
    }

    /// Sends the media up to `end`. Returns whether all of it was taken.
    fn append(&mut self, begun: &mut Begun, end: u64) -> anyhow::Result<bool> {
        let range = begun.offset..end;
        let sent = content_range(begun.media, &range);
        let request = begun.session.ranged(&sent);
        let reply = self.ask(&request.body(begun.media.bytes(range)))?;
        if reply.status == 308 {
            self.expect(
                reply.range() == end,
                format!("{} bytes of {end} were taken", reply.range()),
            );
            begun.offset = reply.range();
            return Ok(true);
        }
        self.judge_refusal(&reply);
        // What was written before is kept, and told.
        let told = self.query(begun)?;
        self.expect(
            (begun.offset..=end).contains(&told),
            format!(
                "{told} bytes are committed, {} to {end} could be",
                begun.offset
            ),
        );
        begun.offset = told;
        Ok(false)
    }

    /// Everything that was acknowledged is there.
    fn look_at_all(&mut self, all: &[Begun]) -> anyhow::Result<()> {
        for begun in all {
            let told = self.query(begun)?;
            self.expect(
                told == begun.offset,
                format!(
                    "{told} bytes are committed, {} were acknowledged",
                    begun.offset
                ),
            );
        }
        Ok(())
    }

    fn query(&mut self, begun: &Begun) -> anyhow::Result<u64> {
        let reply = self.ask(&begun.session.ranged("bytes */*").body(""))?;
        self.expect_status(&reply, 308, "a query");
        Ok(if reply.status == 308 {
            reply.range()
        } else {
            0
        })
    }

    /// What must go on when there is no room.
    fn do_without_room(
        &mut self,
        begun: &mut Vec<Begun>,
        whole: &Session,
        deleted: &str,
    ) -> anyhow::Result<()> {
        self.done_when_full += begun.len() as u64;
        let end = whole.ranged(&format!("bytes */{HALF}")).body("");
        let done = [
            ("a finish", self.ask(&end)?, 201),
            (
                "a delete",
                self.ask(&Request::new("DELETE", farm::animal(deleted)))?,
                204,
            ),
        ];
        let cancelled = begun.pop().map(|begun| begun.session);
        let cancel = cancelled.map(|session| self.ask(&session.request("DELETE").body("")));
        let cancel = cancel.transpose()?.map(|reply| ("a cancel", reply, 499));
        for (what, reply, status) in done.iter().chain(&cancel) {
            self.expect_status(reply, *status, what);
            self.done_when_full += u64::from(reply.status == *status);
        }
        let finished = &done[0].1;
        if finished.status == 201 {
            let delete = self.ask(&Request::new("DELETE", farm::animal(&farm::id(finished))))?;
            self.expect_status(&delete, 204, "a delete");
        }
        let health = self.ask(&Request::new("GET", "/healthz"))?;
        self.expect_status(&health, 200, "/healthz");
        Ok(())
    }

    fn cancel_all(&mut self, all: Vec<Begun>) -> anyhow::Result<()> {
        for begun in all {
            let reply = self.ask(&begun.session.request("DELETE").body(""))?;
            self.expect_status(&reply, 499, "a cancel");
        }
        Ok(())
    }

    /// No media is taken, once the server has looked at the disk.
    fn expect_no_media(&mut self, begun: &mut Begun) -> anyhow::Result<()> {
        let start = Instant::now();
        while self.ask(&Request::new("GET", "/readyz"))?.status == 200 {
            if start.elapsed() > ROOM_WITHIN {
                self.expect(false, "the disk is full, and it says that it is ready");
                break;
            }
            sleep(Duration::from_millis(20));
        }
        let is_taken = self.append(begun, MEDIA - HALF / 4)?;
        self.expect(!is_taken, "media was taken by a full disk");
        Ok(())
    }

    /// Waits until the server says that it takes uploads.
    fn wait_for_room(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        while self.ask(&Request::new("GET", "/readyz"))?.status != 200 {
            if start.elapsed() > ROOM_WITHIN {
                self.expect(false, "there is room, and it does not take uploads");
                return Ok(());
            }
            sleep(Duration::from_millis(20));
        }
        self.slowest_room = self.slowest_room.max(start.elapsed());
        Ok(())
    }

    /// Brings an upload to its end that was refused, looks at its media and deletes it.
    fn finish_first(&mut self, begun: &Begun) -> anyhow::Result<()> {
        let range = begun.offset..MEDIA;
        let sent = content_range(begun.media, &range);
        let request = begun.session.ranged(&sent);
        let finished = self.ask(&request.body(begun.media.bytes(range)))?;
        self.expect_status(&finished, 201, "the end of an upload");
        if finished.status != 201 {
            return Ok(());
        }
        let id = farm::id(&finished);
        let download = self.ask(&farm::download(&id))?;
        let same = begun.media.compare(0..MEDIA, &download.body[..]);
        self.expect(same.is_ok(), format!("the media differs: {same:?}"));
        let delete = self.ask(&Request::new("DELETE", farm::animal(&id)))?;
        self.expect_status(&delete, 204, "a delete");
        Ok(())
    }

    fn judge_refusal(&mut self, reply: &Reply) {
        self.refused += 1;
        self.expect_status(reply, 503, "a refusal");
        let says_when = reply.header("retry-after").is_some();
        self.expect(says_when, "a refusal has no Retry-After");
    }

    fn expect_status(&mut self, reply: &Reply, status: u16, what: &str) {
        let (is, text) = (reply.status, first_words(reply));
        self.expect(
            is == status,
            format!("{what} was answered {is}, not {status}: {text}"),
        );
    }

    fn expect(&mut self, holds: bool, what: impl Into<String>) {
        self.verdict.expect(holds, &self.occasion, what);
    }

    fn ask(&self, request: &Request) -> anyhow::Result<Reply> {
        Ok(ask_once(self.address, request)?)
    }
}

/// Takes what there is, and what the sweep still frees of the cycle before.
fn fill_to_the_last_byte(path: &Path) -> anyhow::Result<()> {
    while take_all(path)? {
        sleep(SWEEP);
    }
    Ok(())
}

/// Writes a file until nothing more can be written, whoever asks. What a file system had set aside for a file that grows comes back when
/// it is closed, so it is opened again. Whether there was room for as much as media needs.
fn take_all(path: &Path) -> anyhow::Result<bool> {
    let mut was_room = false;
    for step in [1 << 20, 64 << 10, 4 << 10, 1] {
        let mut file = File::options().create(true).append(true).open(path)?;
        let piece = vec![0x55; step];
        while file.write_all(&piece).is_ok() {
            was_room |= step >= 64 << 10;
        }
        // Where there is no room even for this, there is none.
        file.sync_all().ok();
    }
    Ok(was_room)
}

/// Enough of an error to tell which it is.
fn first_words(reply: &Reply) -> String {
    let words = reply.text().split_whitespace();
    words.take(20).collect::<Vec<_>>().join(" ")
}
