//! Scenarios: the tasks for the servers, and the figures taken from them.

mod list;

use std::fmt;

use crate::contestant::{Contestant, Role};
use crate::figure::Figure;
use crate::load::{Load, Protocol, Question, Shape, Slow};
use crate::units::{GIB, KIB, figure, float};

pub(crate) use list::{QUICK_PART, WARM_UP, all};

/// A task that every contestant carries out.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    /// Its short name, e.g. `S1`.
    pub(crate) name: &'static str,
    /// Its title in tables.
    pub(crate) title: &'static str,
    /// The task.
    pub(crate) task: Task,
    /// The sessions and resources that exist before. Each contestant takes part once for each
    /// fixture.
    pub(crate) fixtures: Vec<Fixture>,
    /// The protocol of the requests.
    pub(crate) protocol: Protocol,
    /// Another scenario, which ours carries out here too, so that both are measured in the same
    /// round.
    pub(crate) yardstick: Option<Box<Scenario>>,
    /// The figures taken. The first is the main figure of the scenario.
    pub(crate) figures: &'static [Figure],
}

/// A task for a server.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// Media is uploaded.
    Upload(Load),
    /// Uploaded media is downloaded.
    Download(Download),
    /// Many clients are in the middle of an upload and continue slowly.
    Slow(Slow),
    /// The server is started, and asked once.
    Start,
    /// Uploads run alone, then together with queries, then alone again.
    Query(ConcurrentQueries),
}

/// A download after an upload. Only the download is measured.
#[derive(Debug, Clone)]
pub(crate) struct Download {
    /// The upload before.
    pub(crate) upload: Load,
    /// The state of the page cache.
    pub(crate) cache: PageCache,
}

/// The part of the media that is in the page cache when a download begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageCache {
    /// The part that the upload has left there. The download follows at once.
    AsUploaded,
    /// All of it, if the server reads through the page cache: it was downloaded once before.
    Warm,
    /// Nothing.
    Cold,
}

/// Queries during uploads.
#[derive(Debug, Clone)]
pub(crate) struct ConcurrentQueries {
    /// The uploads that run all the time, up to their limit.
    pub(crate) uploads: Load,
    /// The kind of the queries.
    pub(crate) question: Question,
    /// By how many connections.
    pub(crate) connections: usize,
    /// How many sessions, or resources, there are to ask for.
    pub(crate) subjects: u64,
}

/// The content of a server's data before the measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fixture {
    /// Sessions that have begun and have no media yet.
    pub(crate) sessions: u64,
    /// Small resources.
    pub(crate) resources: u64,
}

/// A contestant in one of the ways in which it takes part.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    /// Who.
    pub(crate) contestant: &'a Contestant,
    /// Its name in tables.
    pub(crate) name: String,
    /// How its uploads look.
    pub(crate) shape: Shape,
    /// Its task.
    pub(crate) task: Task,
    /// The protocol of the requests.
    pub(crate) protocol: Protocol,
    /// The content of the data before.
    pub(crate) fixture: Fixture,
    /// The figures taken.
    pub(crate) figures: &'static [Figure],
}

impl Scenario {
    /// Who takes part, in the order of the table of contestants.
    pub(crate) fn parts<'a>(&self, contestants: &'a [Contestant]) -> Vec<Part<'a>> {
        let parts = contestants.iter().flat_map(|one| {
            let (own, yardstick) = (self.own_parts(one), self.yardstick_part(one));
            own.into_iter().chain(yardstick)
        });
        parts.collect()
    }

    fn own_parts<'a>(&self, contestant: &'a Contestant) -> Vec<Part<'a>> {
        let Some(shape) = contestant.shape(self.name) else {
            return Vec::new();
        };
        let part = |fixture: &Fixture| Part {
            contestant,
            name: match self.fixtures.len() {
                1 => contestant.name.clone(),
                _ => format!("{}, {fixture}", contestant.name),
            },
            shape,
            task: self.task.clone(),
            protocol: self.protocol,
            fixture: *fixture,
            figures: self.figures,
        };
        self.fixtures.iter().map(part).collect()
    }

    /// Only for a durable contestant: a server without durability is no yardstick.
    fn yardstick_part<'a>(&self, contestant: &'a Contestant) -> Option<Part<'a>> {
        let other = self.yardstick.as_ref()?;
        let is_ours = contestant.role == Role::Ours && contestant.durable;
        Some(Part {
            contestant,
            name: format!("{}, as in {}", contestant.name, other.name),
            shape: is_ours.then(|| contestant.shape(other.name)).flatten()?,
            task: other.task.clone(),
            protocol: other.protocol,
            fixture: Fixture::default(),
            figures: self.figures,
        })
    }
}

impl Part<'_> {
    /// Bytes that the measurement leaves on the disk, about.
    pub(crate) fn footprint(&self) -> u64 {
        self.fixture.footprint() + self.task.footprint() + WARM_UP * of_file(0)
    }

    /// Whether a server can be measured on the fixture itself, since it leaves it as it is.
    pub(crate) fn leaves_fixture_unchanged(&self) -> bool {
        matches!(self.task, Task::Start)
    }
}

impl Task {
    fn footprint(&self) -> u64 {
        match self {
            Self::Upload(load) | Self::Download(Download { upload: load, .. }) => {
                load.count * of_file(load.size)
            }
            Self::Slow(slow) => slow.connections as u64 * of_file(slow.sent()),
            Self::Start => 0,
            // As many as there is time for.
            Self::Query(_) => GIB,
        }
    }
}

impl Fixture {
    /// Bytes of each resource.
    pub(crate) const MEDIA: u64 = 512;

    /// Bytes that it takes on the disk, about.
    pub(crate) fn footprint(self) -> u64 {
        (self.sessions + self.resources) * of_file(0)
    }

    /// Whether there is nothing.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for Fixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sessions.max(self.resources) {
            0 => f.write_str("empty"),
            count => write!(f, "{} there", figure(float(count))),
        }
    }
}

/// Disk space of a file: at least one block, and some more for its record.
fn of_file(size: u64) -> u64 {
    size + 4 * KIB
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::contestant;

    #[test]
    fn each_fixture_and_the_yardstick_make_a_part_of_their_own() {
        let contestants = contestant::all(&["windlass".to_owned()]).unwrap();
        let names = |scenario| {
            let scenarios = all(false);
            let scenario = scenarios.iter().find(|one| one.name == scenario).unwrap();
            let parts = scenario.parts(&contestants).into_iter();
            parts.map(|part| part.name).collect::<Vec<_>>()
        };
        let expected = [
            "windlass",
            "windlass, as in S1",
            "windlass before",
            "windlass, durability os",
            "windlass, tus",
            "windlass, tus, as in S1",
            "HTTP floor, durable",
        ];
        assert_eq!(names("S2"), expected);
        let expected = [
            "windlass, empty",
            "windlass, 10,000 there",
            "windlass, 1,000,000 there",
            "windlass before, empty",
            "windlass before, 10,000 there",
            "windlass before, 1,000,000 there",
        ];
        assert_eq!(names("S9"), expected);
        let expected = [
            "windlass",
            "windlass, as in S13",
            "windlass before",
            "windlass, durability os",
        ];
        assert_eq!(names("S14"), expected);
    }
}
