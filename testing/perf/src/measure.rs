//! One measurement of a contestant under a task (uploads, slow clients, a start, queries during
//! uploads), on a new server.

mod fixtures;
mod page_cache;
mod warm_up;

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::contestant::Places;
use crate::figure::Figure;
use crate::load::{
    self, Block, Crowd, Failure, Load, LoadTarget, Operation, Question, Slow, Tally, Tls,
};
use crate::scenario::{ConcurrentQueries, Download, Fixture, PageCache, Part, Task};
use crate::server::Server;
use crate::units::{KIB, float, mib};

pub(crate) use fixtures::Fixtures;

/// The figures of a measurement.
pub(crate) type Figures = BTreeMap<Figure, f64>;

/// How long a server is idle before its memory is read. Its work after the start is over by then.
const REST: Duration = Duration::from_secs(1);

/// The data that all measurements share.
#[derive(Debug)]
pub(crate) struct Site {
    /// Binaries.
    pub(crate) places: Places,
    /// The media of all uploads.
    pub(crate) block: Block,
    /// The keys and configurations for TLS.
    pub(crate) tls: Tls,
    /// How many small uploads a server gets before it is measured.
    pub(crate) warm_up: u64,
}

impl Site {
    /// Measures a contestant. Its server works in `data`.
    ///
    /// # Errors
    /// The server misbehaves. The measurement then does not count.
    pub(crate) fn measure(&self, part: &Part<'_>, data: &Path) -> anyhow::Result<Figures> {
        match &part.task {
            Task::Upload(load) => self.uploads(part, load, data),
            Task::Download(download) => self.download(part, download, data),
            Task::Slow(slow) => measure_slow(self, part, slow, data),
            Task::Start => measure_start(self, part, data),
            Task::Query(concurrent) => measure_queries(self, part, concurrent, data),
        }
    }

    /// Starts the server of a contestant. Its log and its pid file are next to its data.
    fn start(&self, part: &Part<'_>, data: &Path) -> anyhow::Result<Server> {
        let tls = part.protocol.has_tls().then(|| self.tls.files());
        let launch = part.contestant.launch(&self.places, data, tls.as_ref())?;
        let data_dirs = data
            .parent()
            .context("data is in a directory of data directories")?;
        Server::start(launch, &data.with_extension("log"), data_dirs)
    }

    /// Starts the server of a contestant, and lets it run for a while before anything is measured.
    fn start_warm(&self, part: &Part<'_>, data: &Path) -> anyhow::Result<Server> {
        let server = self.start(part, data)?;
        warm_up::carry_out(self, part, &server, data).context("warming up")?;
        Ok(server)
    }

    fn load_target<'a>(&'a self, part: &Part<'a>, server: &Server) -> LoadTarget<'a> {
        LoadTarget {
            address: server.address(),
            targets: part.contestant.targets(),
            shape: part.shape,
            block: &self.block,
            transport: part.protocol.with(&self.tls),
        }
    }

    fn uploads(&self, part: &Part<'_>, load: &Load, data: &Path) -> anyhow::Result<Figures> {
        let server = self.start_warm(part, data)?;
        let load_target = self.load_target(part, &server);
        let (tally, figures) = observe(part, &server, || {
            load::carry_out(load_target, load, Operation::Upload)
        })?;
        load::compare(load_target, load, &tally).context("read back")?;
        Ok(figures)
    }

    /// Downloads the uploaded media. Each download is compared with the upload, before or after it
    /// is measured.
    fn download(
        &self,
        part: &Part<'_>,
        download: &Download,
        data: &Path,
    ) -> anyhow::Result<Figures> {
        let Download { upload, cache } = download;
        let server = self.start_warm(part, data)?;
        let load_target = self.load_target(part, &server);
        let uploaded = load::carry_out(load_target, upload, Operation::Upload)?;
        let compare = || {
            let is_compared = load::compare(load_target, upload, &uploaded).context("read back")?;
            ensure!(is_compared, "{} has no downloads", part.contestant.name);
            Ok(())
        };
        match cache {
            PageCache::AsUploaded => {}
            PageCache::Warm => {
                page_cache::settle(data)?;
                compare()?;
            }
            PageCache::Cold => {
                let dropped = page_cache::drop_files(data)?;
                let size = upload.size;
                ensure!(dropped >= size, "{dropped} of {size} bytes are in files");
            }
        }
        server.forget_peak();
        let (_, figures) = observe(part, &server, || {
            load::carry_out(load_target, upload, Operation::Download(&uploaded))
        })?;
        if *cache != PageCache::Warm {
            compare()?;
        }
        Ok(figures)
    }
}

/// Carries out a load, and reads its cost for the server.
fn observe(
    part: &Part<'_>,
    server: &Server,
    load: impl FnOnce() -> Result<Tally, Failure>,
) -> anyhow::Result<(Tally, Figures)> {
    let before = server.usage();
    let tally = load()?;
    let after = server.usage();
    let cpu = after.cpu.saturating_sub(before.cpu).as_secs_f64();
    let read_off = |figure: &Figure| Some((*figure, figure.of(&tally, cpu, after.peak)?));
    let figures = part.figures.iter().filter_map(read_off).collect();
    Ok((tally, figures))
}

/// The memory of a server that has nothing to do.
fn at_rest(server: &Server) -> u64 {
    thread::sleep(REST);
    server.usage().resident
}

/// Returns the growth of a server's memory from before to during many slow uploads: the resident
/// memory of all its processes. The growth is all anonymous memory, because mappings of files do
/// not grow with connections. It therefore does not matter that shared pages are counted once per
/// process.
fn measure_slow(site: &Site, part: &Part<'_>, slow: &Slow, data: &Path) -> anyhow::Result<Figures> {
    let server = site.start_warm(part, data)?;
    let load_target = site.load_target(part, &server);
    load::first_answer(load_target)?;
    let idle = at_rest(&server);
    let load = Load::of_size(slow.size);
    let mut crowd = Crowd::gather(load_target, &load, slow)?;
    crowd.go_on()?;
    let held = server.usage().resident;
    let by_connections = float(held.saturating_sub(idle)) / float(slow.connections as u64);
    Ok(Figures::from([
        (Figure::Connection, by_connections / float(KIB)),
        (Figure::Held, mib(held)),
    ]))
}

/// The time from the start of a process to its first answer, and its memory at that time.
fn measure_start(site: &Site, part: &Part<'_>, data: &Path) -> anyhow::Result<Figures> {
    let server = site.start(part, data)?;
    load::first_answer(site.load_target(part, &server))?;
    let start = server.age();
    Ok(Figures::from([
        (Figure::Start, start.as_secs_f64() * 1000.0),
        (Figure::Idle, mib(at_rest(&server))),
    ]))
}

/// Measures the rate of queries during uploads, and the part of the uploads' rate that is left.
fn measure_queries(
    site: &Site,
    part: &Part<'_>,
    concurrent: &ConcurrentQueries,
    data: &Path,
) -> anyhow::Result<Figures> {
    let server = site.start_warm(part, data)?;
    let load_target = site.load_target(part, &server);
    let sessions = prepare(load_target, concurrent)?;
    let operation = match concurrent.question {
        Question::Status => Operation::Status(&sessions),
        Question::List => Operation::List,
    };
    let queries = Load {
        connections: concurrent.connections,
        ..concurrent.uploads.clone()
    };
    let upload = || load::carry_out(load_target, &concurrent.uploads, Operation::Upload);
    let alone = upload()?;
    let (both, asked) = thread::scope(|scope| {
        let asking = scope.spawn(|| load::carry_out(load_target, &queries, operation));
        let both = upload();
        (both, asking.join().expect("queries do not panic"))
    });
    // Before and after, since some servers need a while to come up to speed.
    let alone = f64::midpoint(rate(&alone), rate(&upload()?));
    let left = rate(&both?) / alone;
    let asked = asked?;
    let read_off = |figure: &Figure| Some((*figure, figure.of(&asked, 0.0, 0)?));
    let figures = part.figures.iter().filter_map(read_off);
    Ok(figures.chain([(Figure::Left, left)]).collect())
}

/// Makes the sessions or resources for the queries. Returns the locations of sessions.
fn prepare(
    load_target: LoadTarget<'_>,
    concurrent: &ConcurrentQueries,
) -> anyhow::Result<Vec<String>> {
    match concurrent.question {
        Question::Status => Ok(load::begin(
            load_target,
            &concurrent.uploads,
            concurrent.subjects,
        )?),
        Question::List => {
            let resources = Load {
                size: Fixture::MEDIA,
                count: concurrent.subjects,
                ..concurrent.uploads.clone()
            };
            load::carry_out(load_target, &resources, Operation::Upload)?;
            load::check_list(load_target, &resources)?;
            Ok(Vec::new())
        }
    }
}

fn rate(tally: &Tally) -> f64 {
    Figure::Uploads.of(tally, 0.0, 0).unwrap_or_default()
}
