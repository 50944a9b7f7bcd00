//! A store on a disk that fills up again and again.

use super::client::{Acknowledged, Begun, Client, Made};
use super::filler::{Filler, LARGE_METADATA};
use super::other_process::OtherProcess;
use super::place::{Layout, Place};
use super::{Case, Tally};
use crate::server_under_test::{Server, Unstarted};

/// Size of the media that is stored before the disk is full. It is too large for the ledger.
const MEDIA: u64 = 256 << 10;

/// A server, and a client that knows the expected content.
pub(super) struct Life<'a> {
    place: &'a Place,
    case: Case,
    server: Server,
    client: Client<'a>,
    other_process: Option<OtherProcess>,
    done_when_full: u64,
}

/// The content of the store before the disk is full.
struct Before {
    /// Requests for the full disk: one set before the server is killed, and one set after it.
    work: [Work; 2],
    /// An upload that ends only when there is room again.
    going_on: Begun,
    /// A resource that is kept.
    stays: Made,
}

/// Requests that must succeed without room.
struct Work {
    /// To be finished: all of its bytes are there.
    whole: Begun,
    /// To be cancelled.
    half: Begun,
    /// To be deleted.
    made: Made,
}

impl<'a> Life<'a> {
    /// Starts a server.
    pub(super) fn begin(
        place: &'a Place,
        case: Case,
        seed: u64,
        verdict: &'a mut super::Verdict,
    ) -> anyhow::Result<Self> {
        let server = place.start()?;
        let other_process = match case.filler {
            Filler::Others => Some(OtherProcess::new(&place.others()?, case.user)),
            _ => None,
        };
        Ok(Self {
            place,
            case,
            client: Client::new(server.address(), seed, verdict),
            server,
            other_process,
            done_when_full: 0,
        })
    }

    /// Fills the disk and makes room again, `cycles` times.
    pub(super) fn run(mut self, cycles: u64, tally: &mut Tally) -> anyhow::Result<()> {
        for cycle in 1..=cycles {
            self.cycle(cycle)?;
            tally.fills += 1;
            if !self.client.is_content() {
                break;
            }
        }
        self.server.kill9();
        tally.cases += 1;
        tally.acknowledged += self.client.acknowledged;
        tally.refused += self.client.refused;
        tally.done_when_full += self.done_when_full;
        tally.slowest_room = tally.slowest_room.max(self.client.slowest_room);
        Ok(())
    }

    fn cycle(&mut self, cycle: u64) -> anyhow::Result<()> {
        self.at(cycle, "before");
        let Before {
            work: [first, second],
            mut going_on,
            stays,
        } = self.prepare()?;
        let filled = self.case.filler.fill(&mut self.client)?;
        self.at(cycle, "on the full disk");
        self.end_filling()?;
        self.expect_no_more(&mut going_on)?;
        let mut all = filled;
        all.begun.push(going_on);
        all.made.push(stays);
        self.do_without_room(&all, first)?;

        self.at(cycle, "after a start on the full disk");
        if !self.die_and_live_on_the_full_disk()? {
            return Ok(());
        }
        self.do_without_room(&all, second)?;

        self.at(cycle, "with room again");
        let rest = self.make_room(all)?;
        self.client.wait_until_it_says(true)?;
        self.client.look_at(&rest)?;
        self.server.kill9();
        if self.start()? {
            self.client.look_at(&rest)?;
            self.go_on(rest)?;
        }
        Ok(())
    }

    fn at(&mut self, cycle: u64, when: &str) {
        self.client.occasion = format!("{}, cycle {cycle}, {when}", self.case.name());
    }

    fn prepare(&mut self) -> anyhow::Result<Before> {
        Ok(Before {
            work: [self.prepare_work()?, self.prepare_work()?],
            going_on: self.begin_half()?,
            stays: self.upload()?,
        })
    }

    fn prepare_work(&mut self) -> anyhow::Result<Work> {
        Ok(Work {
            whole: self.begin_whole()?,
            half: self.begin_half()?,
            made: self.upload()?,
        })
    }

    /// An upload that lacks nothing but the request that ends it.
    fn begin_whole(&mut self) -> anyhow::Result<Begun> {
        let mut begun = self.begin_half()?;
        begun.shorten_to_what_was_sent();
        Ok(begun)
    }

    fn begin_half(&mut self) -> anyhow::Result<Begun> {
        let mut begun = room_to_begin(self.client.begin(0, 4 * MEDIA)?)?;
        self.client.append(&mut begun, MEDIA)?;
        Ok(begun)
    }

    fn upload(&mut self) -> anyhow::Result<Made> {
        room_to_begin(self.client.upload(MEDIA)?)
    }

    /// The other process takes the last byte. The server's clients must have been refused well
    /// before it.
    fn end_filling(&mut self) -> anyhow::Result<()> {
        if let Some(other_process) = &self.other_process {
            return other_process.take_the_last_byte();
        }
        let (left, hard) = (self.place.available()?, self.place.hard);
        let what = format!("{left} bytes are free, and the hard limit is {hard}");
        self.client.expect(left >= hard / 2, what);
        Ok(())
    }

    /// Expects that the server reports the full disk and refuses requests that need the lacking
    /// room. Requests that need only another disk are accepted.
    fn expect_no_more(&mut self, begun: &mut Begun) -> anyhow::Result<()> {
        let is_full = self.case.filler.leaves_no_room_for_media();
        if is_full {
            self.client.wait_until_it_says(false)?;
        }
        let started = self.client.begin(LARGE_METADATA, MEDIA)?;
        self.client
            .expect(started.is_none(), "an upload was started");
        if !is_full {
            return Ok(());
        }
        let is_taken = self.client.append_piece(begun)?;
        self.client.expect(!is_taken, "media was taken");
        let made = self.client.insert(LARGE_METADATA)?;
        let has_room = self.case.layout == Layout::SmallVault;
        let what = format!("whether JSON was taken: {}", made.is_some());
        self.client.expect(made.is_some() == has_room, what);
        made.iter().try_for_each(|made| self.client.delete(made))
    }

    /// Sends the requests that must succeed without room.
    fn do_without_room(&mut self, all: &Acknowledged, work: Work) -> anyhow::Result<()> {
        self.client.look_at(all)?;
        let Work { whole, half, made } = work;
        let finished = self.client.finish(&whole)?;
        self.client
            .expect(finished.is_some(), "a finish was refused");
        self.client.cancel(&half)?;
        self.client.delete(&made)?;
        finished
            .iter()
            .try_for_each(|made| self.client.delete(made))?;
        self.client.expect_health()?;
        self.done_when_full += (all.len() + 4) as u64;
        Ok(())
    }

    /// Kills the server and starts it again, with the disk as full as it was. Returns whether it
    /// starts.
    fn die_and_live_on_the_full_disk(&mut self) -> anyhow::Result<bool> {
        self.server.kill9();
        if let Some(other_process) = &self.other_process {
            other_process.take_all()?;
        }
        match self.place.damage() {
            Ok(damage) => {
                for violation in damage {
                    self.client.expect(false, violation.to_string());
                }
            }
            Err(error) => self.client.expect(false, format!("{error:#}")),
        }
        self.start()
    }

    fn start(&mut self) -> anyhow::Result<bool> {
        match self.place.start() {
            Ok(server) => self.server = server,
            Err(error) if error.is::<Unstarted>() => {
                self.client.expect(false, error.to_string());
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        self.client.move_to(self.server.address());
        Ok(true)
    }

    /// Makes room and returns the remaining uploads and resources. The filling process ends, or all
    /// but the first and the last of the filling uploads and resources are cancelled or deleted.
    fn make_room(&mut self, all: Acknowledged) -> anyhow::Result<Acknowledged> {
        let Some(other_process) = &self.other_process else {
            let Acknowledged {
                mut begun,
                mut made,
            } = all;
            let rest = Acknowledged {
                begun: keep_the_ends(&mut begun),
                made: keep_the_ends(&mut made),
            };
            self.client.remove(&Acknowledged { begun, made })?;
            return Ok(rest);
        };
        other_process.leave()?;
        Ok(all)
    }

    /// Expects that uploads and JSON are accepted again, and finishes the refused uploads.
    fn go_on(&mut self, rest: Acknowledged) -> anyhow::Result<()> {
        let client = &mut self.client;
        client.wait_until_it_says(true)?;
        let Acknowledged { begun, mut made } = rest;
        for begun in begun {
            made.extend(client.in_time("a finish", |it| it.finish(&begun))?);
        }
        made.extend(client.in_time("JSON", |it| it.insert(LARGE_METADATA))?);
        made.extend(client.in_time("an upload", |it| it.upload(MEDIA))?);
        let all = Acknowledged {
            made,
            begun: Vec::new(),
        };
        client.look_at(&all)?;
        client.remove(&all)?;
        client.wait_until_it_says(true)
    }
}

/// Takes the first and the last out.
fn keep_the_ends<T>(all: &mut Vec<T>) -> Vec<T> {
    let last = all.pop();
    let first = (!all.is_empty()).then(|| all.remove(0));
    first.into_iter().chain(last).collect()
}

fn room_to_begin<T>(done: Option<T>) -> anyhow::Result<T> {
    done.ok_or_else(|| anyhow::anyhow!("there is no room to begin with"))
}
