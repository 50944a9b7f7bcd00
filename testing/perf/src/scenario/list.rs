//! All scenarios.

use std::time::Duration;

use crate::figure::Figure;
use crate::load::{Load, Protocol, Question, Slow};
use crate::units::{GIB, KIB, MIB};

use super::{ConcurrentQueries, Download, Fixture, PageCache, Scenario, Task};

/// Divisor of sizes and counts for a quick look.
pub(crate) const QUICK_PART: u64 = 8;

/// How many small uploads a server has had before it is measured.
pub(crate) const WARM_UP: u64 = 10_000;

const BYTES: &[Figure] = &[
    Figure::Mib,
    Figure::CpuByGib,
    Figure::Peak,
    Figure::P50,
    Figure::P99,
    Figure::Max,
];

/// Of one request there is one latency, and the rate tells it.
const ONE: &[Figure] = &[Figure::Mib, Figure::CpuByGib, Figure::Peak];

const UPLOADS: &[Figure] = &[
    Figure::Uploads,
    Figure::CpuByUploads,
    Figure::Peak,
    Figure::P50,
    Figure::P99,
    Figure::Max,
];

const REQUESTS: &[Figure] = &[
    Figure::Requests,
    Figure::CpuByRequests,
    Figure::Peak,
    Figure::P50,
    Figure::P99,
    Figure::Max,
];

const QUERIES: &[Figure] = &[
    Figure::Queries,
    Figure::Left,
    Figure::P50,
    Figure::P99,
    Figure::Max,
];

const START: &[Figure] = &[Figure::Start, Figure::Idle];

/// All scenarios, at their full size or at a size that takes seconds.
pub(crate) fn all(is_quick: bool) -> Vec<Scenario> {
    let size = Size {
        part: if is_quick { QUICK_PART } else { 1 },
        limit: Duration::from_secs(if is_quick { 3 } else { 10 }),
    };
    let groups = [
        size.one_upload(),
        size.many_uploads(),
        size.servers(),
        size.growth(),
        size.queries(),
        size.downloads(),
        size.under_tls(),
        size.chunks_of_many(),
    ];
    groups.into_iter().flatten().collect()
}

/// How large everything is.
struct Size {
    part: u64,
    limit: Duration,
}

impl Size {
    fn load(&self) -> Load {
        Load {
            size: 0,
            count: 1,
            first: 0,
            connections: 1,
            chunk: 8 * MIB,
            limit: self.limit,
        }
    }

    fn one(&self, size: u64) -> Load {
        Load {
            size: size / self.part,
            ..self.load()
        }
    }

    fn tiny(&self) -> Load {
        Load {
            size: 4 * KIB,
            count: 60_000 / self.part,
            connections: 32,
            ..self.load()
        }
    }

    fn s1(&self) -> Scenario {
        uploads("S1", "one upload of 1 GiB", &self.one(GIB), ONE)
    }

    fn one_upload(&self) -> Vec<Scenario> {
        let chunks = Load {
            chunk: 256 * KIB,
            ..self.one(256 * MIB)
        };
        let (one, large) = (self.one(GIB), self.one(4 * GIB));
        vec![
            self.s1(),
            uploads("S1x4", "one upload of 4 GiB", &large, ONE),
            Scenario {
                yardstick: Some(Box::new(self.s1())),
                ..uploads("S2", "one upload of 1 GiB in chunks of 8 MiB", &one, BYTES)
            },
            uploads(
                "S2b",
                "one upload of 256 MiB in chunks of 256 KiB",
                &chunks,
                REQUESTS,
            ),
        ]
    }

    fn many_uploads(&self) -> Vec<Scenario> {
        let together = Load {
            count: 64,
            connections: 64,
            ..self.one(64 * MIB)
        };
        let in_turn = Load {
            count: 8,
            connections: 1,
            ..together.clone()
        };
        vec![
            uploads(
                "S3",
                "uploads of 4 KiB in one request each, 32 connections",
                &self.tiny(),
                UPLOADS,
            ),
            uploads(
                "S4",
                "uploads of 4 KiB in two requests each, 32 connections",
                &self.tiny(),
                UPLOADS,
            ),
            uploads(
                "S5",
                "64 uploads of 64 MiB, all at the same time",
                &together,
                BYTES,
            ),
            Scenario {
                yardstick: Some(Box::new(self.s1())),
                ..uploads(
                    "S6",
                    "8 uploads of 64 MiB, one after the other, with metadata in the same body",
                    &in_turn,
                    BYTES,
                )
            },
        ]
    }

    fn servers(&self) -> Vec<Scenario> {
        let slow = Slow {
            // With few connections, the fixed memory of a server would outweigh the memory of the
            // connections.
            connections: 1000,
            size: 8 * MIB,
            first: 16 * KIB,
            later: KIB,
            seconds: 5,
        };
        let sessions = Fixture {
            sessions: 100_000 / self.part,
            resources: 0,
        };
        let start = |name, title| scenario(name, title, Task::Start, START);
        vec![
            scenario(
                "S7",
                "1,000 slow connections in the middle of an upload",
                Task::Slow(slow),
                &[Figure::Connection, Figure::Held],
            ),
            start("S8", "start on an empty directory"),
            Scenario {
                fixtures: vec![sessions],
                ..start("S8b", "start with 100,000 unfinished sessions")
            },
        ]
    }

    fn growth(&self) -> Vec<Scenario> {
        let fixture = |count| Fixture {
            sessions: count / self.part,
            resources: count / self.part,
        };
        let after = |name, title| Scenario {
            fixtures: [0, 10_000, 1_000_000].map(fixture).into(),
            ..uploads(name, title, &self.tiny(), UPLOADS)
        };
        vec![
            after("S9", "S3 with so many sessions and resources there before"),
            after("S9b", "S4 with so many sessions and resources there before"),
        ]
    }

    fn queries(&self) -> Vec<Scenario> {
        let concurrent = |question| ConcurrentQueries {
            uploads: Load {
                count: u64::MAX,
                limit: self.limit / 3,
                ..self.tiny()
            },
            question,
            connections: 4,
            subjects: 1000,
        };
        let queries = |name, title, question| {
            scenario(name, title, Task::Query(concurrent(question)), QUERIES)
        };
        vec![
            queries(
                "S10",
                "status queries on 4 connections beside uploads as in S4",
                Question::Status,
            ),
            queries(
                "S10b",
                "lists of 100 resources on 4 connections beside uploads as in S4",
                Question::List,
            ),
        ]
    }

    fn download(&self, name: &'static str, title: &'static str, cache: PageCache) -> Scenario {
        let upload = self.one(GIB);
        scenario(name, title, Task::Download(Download { upload, cache }), ONE)
    }

    fn downloads(&self) -> Vec<Scenario> {
        vec![
            self.download(
                "S11",
                "download of 1 GiB at once after its upload",
                PageCache::AsUploaded,
            ),
            self.download("S12", "download of 1 GiB, warm", PageCache::Warm),
            self.download("S12c", "download of 1 GiB, cold", PageCache::Cold),
        ]
    }

    fn under_tls(&self) -> Vec<Scenario> {
        let upload = |name, title, protocol| Scenario {
            protocol,
            ..uploads(name, title, &self.one(GIB), ONE)
        };
        let upload_http1 = upload("S13", "one upload of 1 GiB under TLS", Protocol::Http1Tls);
        let title = "one upload of 1 GiB over HTTP/2 under TLS";
        let upload_http2 = Scenario {
            yardstick: Some(Box::new(upload_http1.clone())),
            ..upload("S14", title, Protocol::Http2Tls)
        };
        let download = Scenario {
            protocol: Protocol::Http1Tls,
            ..self.download("S13d", "download of 1 GiB under TLS, warm", PageCache::Warm)
        };
        vec![upload_http1, download, upload_http2]
    }

    fn chunks_of_many(&self) -> Vec<Scenario> {
        let chunks = Load {
            count: 32,
            connections: 32,
            chunk: 256 * KIB,
            ..self.one(32 * MIB)
        };
        vec![uploads(
            "S15",
            "32 uploads of 32 MiB in chunks of 256 KiB, all at the same time",
            &chunks,
            REQUESTS,
        )]
    }
}

fn uploads(
    name: &'static str,
    title: &'static str,
    load: &Load,
    figures: &'static [Figure],
) -> Scenario {
    scenario(name, title, Task::Upload(load.clone()), figures)
}

fn scenario(
    name: &'static str,
    title: &'static str,
    task: Task,
    figures: &'static [Figure],
) -> Scenario {
    Scenario {
        name,
        title,
        task,
        protocol: Protocol::Http1,
        fixtures: vec![Fixture::default()],
        yardstick: None,
        figures,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = all(false).iter().map(|scenario| scenario.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
