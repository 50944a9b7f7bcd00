//! What the server allocates for an upload, in all its parts that are in Rust.
//!
//! Server, store and APIs are those of the binary, with their defaults. With `WINDLASS_GUARD_SITES=FILE` the places that allocate are
//! written to that file, for dhat's viewer.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::oneshot;
use windlass_apis::Options as ApiOptions;
use windlass_guard::limits::{Count, Judge, Section};
use windlass_guard::scenario::{self, Crew, Scenario};
use windlass_server::{Ended, Listener, Registry, Server, Settings, Stores, SystemClock};
use windlass_store_local::{LocalStore, Options};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// As many threads as the runtime has, whatever the machine.
const WORKERS: usize = 2;

/// Rounds behind the first, of small uploads.
const MORE_ROUNDS: usize = 7;

#[test]
fn an_upload_allocates_no_more_than_it_may() -> anyhow::Result<()> {
    let profiler = dhat::Profiler::builder();
    let _profiler = match std::env::var_os("WINDLASS_GUARD_SITES") {
        Some(file) => profiler.file_name(Path::new(&file)).build(),
        None => profiler.testing().build(),
    };
    let mut judge = Judge::new(Section::Allocations)?;
    for scenario in scenario::ALL {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let counts = with_server(directory.path(), |address| count(scenario, address))??;
        judge.hear(scenario.name, &counts)?;
    }
    println!("{}", judge.table());
    judge.verdict().map_err(anyhow::Error::msg)
}

/// Blocks and bytes that were ever allocated. A block that grows counts again, with all its bytes.
#[derive(Debug, Clone, Copy)]
struct Allocated {
    blocks: u64,
    bytes: u64,
}

impl Allocated {
    fn now() -> Self {
        let dhat::HeapStats {
            total_blocks: blocks,
            total_bytes: bytes,
            ..
        } = dhat::HeapStats::get();
        Self { blocks, bytes }
    }

    /// What came since `before`.
    fn since(self, before: Self) -> Self {
        Self {
            blocks: self.blocks - before.blocks,
            bytes: self.bytes - before.bytes,
        }
    }
}

/// What uploads allocate: the least of some rounds. Whether a buffer is free again when the next bytes come is a matter of timing; in one of the
/// rounds it nearly always is.
fn count(scenario: Scenario, address: SocketAddr) -> anyhow::Result<[Count; 2]> {
    let mut crew = Crew::connect(address, scenario)?;
    // Once for whatever is made at first use.
    crew.upload(scenario.first)?;
    let mut least = round(scenario, &mut crew)?;
    let more = if scenario.is_small() { MORE_ROUNDS } else { 0 };
    for _ in 0..more {
        for (least, count) in least.iter_mut().zip(round(scenario, &mut crew)?) {
            least.value = least.value.min(count.value);
        }
    }
    Ok(least)
}

/// More uploads, less the first: so falls out whatever comes once with each carrying out, such as threads.
fn round(scenario: Scenario, crew: &mut Crew) -> anyhow::Result<[Count; 2]> {
    let mut upload = |times| {
        let before = Allocated::now();
        crew.upload(times)?;
        anyhow::Ok(Allocated::now().since(before))
    };
    let less = upload(scenario.first)?;
    let more = upload(scenario.first + scenario.more)?;
    let each = |name, more, less| Count::each(name, more, less, scenario.counted());
    Ok([
        each("allocations", more.blocks, less.blocks),
        each("bytes-allocated", more.bytes, less.bytes),
    ])
}

/// Lets `work` look at a server as long as it runs.
fn with_server<T>(data: &Path, work: impl FnOnce(SocketAddr) -> T) -> anyhow::Result<T> {
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let server = server(data)?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = runtime.spawn(async move {
        let stop = async { drop(stopped.await) };
        server.run(Listener::plain(listener), stop).await
    });
    let done = work(address);
    drop(stop);
    ensure!(
        runtime.block_on(serving)? == Ended::Drained,
        "storage failed"
    );
    Ok(done)
}

/// The server that the binary runs when it is told nothing, but for checkpoints by the clock.
fn server(data: &Path) -> anyhow::Result<Server> {
    let options = Options {
        allow_unsafe_filesystem: true,
        ..Options::default()
    };
    let LocalStore { ledger, vault } = LocalStore::open(data, options)?;
    let stores = Stores {
        ledger: Arc::new(ledger),
        vault: Arc::new(vault),
    };
    let farm = windlass_apis::by_name("farm", &ApiOptions::default()).context("no Farm API")?;
    let registry = Registry::new(farm).map_err(|conflict| anyhow!("{conflict:?}"))?;
    let mut settings = Settings::default();
    // By the clock there would be more of them where the machine is slow.
    settings.checkpoints.interval = Duration::from_secs(3600);
    let clock = Arc::new(SystemClock);
    Ok(Server::new(settings, registry, stores, clock))
}
