//! The client over a failing line to a working server. Whatever happens on the way, the media is
//! uploaded exactly once, and no byte is sent again that the client knows to be committed.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use windlass_client::{
    ChunkSize, Chunking, Client, Error, Kind, Protocol, RetryPolicy, Schedule, Source, Timeouts,
    Upload, UploadType, Uploaded,
};
use windlass_testkit::farm;
use windlass_testkit::fault_proxy::{Exchange, Fault, FaultProxy, Plan};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Request, exchange};
use windlass_testkit::wait;

use crate::server;

const QUARTER: u64 = 256 * 1024;

/// Far from all multiples, and more than three of the smallest chunks.
const LEN: u64 = 3 * QUARTER + 12_345;

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("there are threads")
}

/// Short waits, and many of them.
fn patience() -> RetryPolicy {
    let schedule = Schedule::default()
        .with_unit(Duration::from_millis(5))
        .with_waits(2000)
        .with_longest(Duration::from_millis(50));
    RetryPolicy::default().with_schedule(schedule)
}

fn client() -> Client {
    let timeouts = Timeouts::default()
        .with_connect(Duration::from_secs(30))
        // Each stall costs one idle timeout.
        .with_idle(Duration::from_secs(2))
        .with_reply(Duration::from_secs(4));
    let client = Client::builder().timeouts(timeouts);
    client.build().expect("it can be set up")
}

fn upload(base: &str, name: &str) -> Upload {
    let metadata = json!({"name": name});
    let upload = unnamed(base).metadata(&metadata);
    upload.expect("it is an object")
}

/// An upload without metadata, for which some protocols have no place.
fn unnamed(base: &str) -> Upload {
    let url = format!("{base}{}", farm::UPLOADS);
    Upload::new(url.parse().expect("it is a URL"))
        .and_then(|upload| upload.content_type("image/png"))
        .expect("it is a good upload")
        .upload_type(UploadType::Resumable)
        .retry_policy(patience())
}

/// Chunks of 256 KiB.
fn small_chunks() -> Chunking {
    Chunking::Fixed(ChunkSize::new(QUARTER).expect("it is a multiple"))
}

/// One upload of `media` through a proxy with this plan.
fn through(
    plan: Plan,
    media: Media,
    change: impl FnOnce(Upload) -> Upload,
) -> (Result<Uploaded, Error>, Vec<Exchange>) {
    let proxy = FaultProxy::start(server::farm());
    proxy.set_plan(plan);
    let upload = change(upload(&proxy.base_url(), "bad line"));
    let result = runtime().block_on(client().upload(upload, Source::bytes(media.whole())));
    (result, proxy.exchanges())
}

/// Checks that the server has exactly this media.
#[track_caller]
fn assert_up(address: SocketAddr, uploaded: &Uploaded, media: Media) {
    let resource = uploaded.resource.as_ref().expect("the reply shows it");
    let id = resource["id"].as_str().expect("an animal has an id");
    let shown = exchange(address, &Request::new("GET", farm::animal(id))).expect(200);
    farm::assert_media(address, &shown, media);
    assert!(uploaded.verified.crc32c && uploaded.verified.size);
}

/// Checks that every data request begins at the offset that the server last reported.
#[track_caller]
fn assert_nothing_sent_twice(exchanges: &[Exchange]) {
    let mut heard = 0;
    for exchange in exchanges {
        if let Some(first) = exchange.first_byte() {
            assert_eq!(first, heard, "{exchange:?}\nof {exchanges:#?}");
        }
        let started = exchange.content_range.is_none();
        match (exchange.committed, exchange.fault) {
            _ if !exchange.delivered => {}
            (Some(_), Some(Fault::RangeLost)) => heard = 0,
            (Some(committed), _) => heard = committed,
            (None, _) if started => heard = 0,
            (None, _) => {}
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of faults")]
fn each_fault_alone_at_each_request_is_survived() {
    let faults = [
        Fault::CutRequest { after: 0 },
        Fault::CutRequest { after: 100_000 },
        Fault::CutRequest { after: u64::MAX },
        Fault::ResetRequest { after: 0 },
        Fault::ResetRequest { after: 100_000 },
        Fault::Delay {
            by: Duration::from_millis(30),
        },
        Fault::Stall { after: 100_000 },
        Fault::Unavailable { retry_after: None },
        Fault::Unavailable {
            retry_after: Some(0),
        },
        Fault::UnavailableAfter { after: 100_000 },
        Fault::LoseReply,
        Fault::CutReply { after: 20 },
        Fault::RangeLost,
        Fault::Throttle {
            bytes_per_second: 10_000_000,
        },
        Fault::Replace {
            status: 404,
            body: "<html>Not here.</html>",
        },
        Fault::Replace {
            status: 410,
            body: "",
        },
        Fault::Replace {
            status: 429,
            body: "{}",
        },
        Fault::Replace {
            status: 403,
            body: r#"{"error":{"errors":[{"reason":"userRateLimitExceeded"}]}}"#,
        },
        Fault::Replace {
            status: 200,
            body: "<html>Please log in to the network.</html>",
        },
    ];
    let media = Media::new(1, LEN);
    std::thread::scope(|scope| {
        for fault in faults {
            scope.spawn(move || {
                for (nth, chunking) in [
                    (0, Chunking::Adaptive),
                    (0, small_chunks()),
                    (1, small_chunks()),
                    (3, small_chunks()),
                ] {
                    let (result, exchanges) = through(Plan::once(nth, fault), media, |upload| {
                        upload.chunking(chunking)
                    });
                    let uploaded = result.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
                    assert_up(server::farm(), &uploaded, media);
                    let hit = exchanges.iter().filter(|exchange| exchange.fault.is_some());
                    assert_eq!(hit.count(), 1, "{fault:?}");
                    assert_nothing_sent_twice(&exchanges);
                    let lost = matches!(
                        fault,
                        Fault::Replace {
                            status: 404 | 410,
                            ..
                        }
                    );
                    assert_eq!(uploaded.restarts, u32::from(lost));
                }
            });
        }
    });
}

/// Faults that matter to every protocol.
const FAULTS: [Fault; 10] = [
    Fault::CutRequest { after: 0 },
    Fault::CutRequest { after: 100_000 },
    Fault::CutRequest { after: u64::MAX },
    Fault::ResetRequest { after: 100_000 },
    Fault::Unavailable {
        retry_after: Some(0),
    },
    Fault::UnavailableAfter { after: 100_000 },
    Fault::LoseReply,
    Fault::CutReply { after: 20 },
    Fault::Replace {
        status: 404,
        body: "<html>Not here.</html>",
    },
    Fault::Replace {
        status: 410,
        body: "",
    },
];

#[test]
fn faults_are_survived_in_each_protocol() {
    let protocols = [Protocol::XGoogUpload, Protocol::Tus, Protocol::Ietf];
    let server = server::own(&[]);
    let media = Media::new(4, LEN);
    let runtime = runtime();
    let mut uploads = JoinSet::new();
    for protocol in protocols {
        for (fault, nth) in FAULTS
            .into_iter()
            .flat_map(|it| [0, 1, 3].map(|nth| (it, nth)))
        {
            let upload = survive(server.address(), protocol, (fault, nth), media);
            uploads.spawn_on(upload, runtime.handle());
        }
    }
    let count = uploads.len();
    runtime.block_on(uploads.join_all());
    let animals = exchange(server.address(), &farm::list("")).expect(200);
    let animals = animals.field("items");
    let animals = animals.as_array().expect("there are some");
    assert_eq!(animals.len(), count);
    for animal in animals {
        assert_eq!(animal["size"], media.len().to_string());
        assert_eq!(animal["crc32c"], media.crc32c());
    }
}

/// An upload whose `nth` request to its session meets a fault.
async fn survive(
    address: SocketAddr,
    protocol: Protocol,
    (fault, nth): (Fault, usize),
    media: Media,
) {
    let proxy = FaultProxy::start(address);
    proxy.set_plan(Plan::once(nth, fault));
    let upload = unnamed(&proxy.base_url())
        .protocol(protocol)
        .chunking(small_chunks());
    let uploaded = client().upload(upload, Source::bytes(media.whole())).await;
    let context = format!("{protocol:?}, {fault:?} at {nth}");
    let uploaded = uploaded.unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(uploaded.protocol, protocol, "{context}");
    let exchanges = proxy.exchanges();
    let hit = exchanges.iter().filter(|exchange| exchange.fault.is_some());
    assert_eq!(hit.count(), 1, "{context}");
    let is_lost = matches!(fault, Fault::Replace { .. });
    assert_eq!(uploaded.restarts, u32::from(is_lost), "{context}");
    // Dropping it waits for its threads.
    let dropped = tokio::task::spawn_blocking(|| drop(proxy)).await;
    dropped.expect("no panic");
}

/// Where a request is cut.
const CUT: u64 = 500_000;

/// How much the server has of a session.
fn committed(target: &str) -> u64 {
    let query = Request::new("PUT", target).header("Content-Range", "bytes */*");
    exchange(server::farm(), &query.body("")).committed()
}

#[test]
fn what_arrived_before_a_cut_is_not_sent_again() {
    let media = Media::new(2, LEN);
    let plan = Plan::new(|request| {
        let range = request.content_range.as_deref();
        if range.is_some_and(|range| range.starts_with("bytes */")) {
            // The server may still be reading the arrived bytes. Query it only after that.
            wait::until("what arrived is committed", || {
                committed(&request.target) == CUT
            });
        }
        let is_first = request.is_session && request.index == 1;
        is_first.then_some(Fault::CutRequest { after: CUT })
    });
    let (result, exchanges) = through(plan, media, |upload| upload);
    assert_up(server::farm(), &result.expect("it gets up"), media);
    let sent: u64 = exchanges
        .iter()
        .map(|exchange| exchange.body_bytes_forwarded)
        .sum();
    // The metadata of the start, and the media once.
    assert!(sent < LEN + 100, "{sent} bytes for {LEN}");
}

#[test]
fn five_hundred_mixes_of_faults_end_with_the_same_media_each_in_one_resource() {
    const MIXES: u64 = 500;
    const AT_ONCE: usize = 100;
    let server = server::own(&[]);
    let runtime = runtime();
    runtime.block_on(async {
        let mut uploads = JoinSet::new();
        for seed in 0..MIXES {
            if uploads.len() == AT_ONCE {
                uploads
                    .join_next()
                    .await
                    .expect("there are some")
                    .expect("no panic");
            }
            uploads.spawn(mix(server.address(), seed));
        }
        uploads.join_all().await;
    });
    let counts = animals(&server);
    assert_eq!(counts.len() as u64, MIXES);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

/// One upload with up to eight faults; its manner follows from the seed too.
async fn mix(address: SocketAddr, seed: u64) {
    let media = Media::new(
        seed,
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (4 * QUARTER),
    );
    let proxy = FaultProxy::start(address);
    proxy.set_plan(Plan::mix(seed, 8));
    let upload = upload(&proxy.base_url(), &format!("mix {seed}"));
    let source = match seed % 4 {
        0 => Source::reader(std::io::Cursor::new(media.whole())).with_window(QUARTER),
        1 => Source::reader(std::io::Cursor::new(media.whole()))
            .spilled_to(env!("CARGO_TARGET_TMPDIR")),
        _ => Source::bytes(media.whole()),
    };
    let upload = match seed % 3 {
        0 => upload.chunking(small_chunks()),
        _ => upload,
    };
    let result = client().upload(upload, source).await;
    let exchanges = proxy.exchanges();
    // Dropping it waits for its threads.
    tokio::task::spawn_blocking(|| drop(proxy))
        .await
        .expect("no panic");
    let range_lost = exchanges
        .iter()
        .any(|exchange| exchange.fault == Some(Fault::RangeLost));
    match result {
        Ok(uploaded) => {
            // Downloading blocks the thread, while the remaining uploads continue.
            let check = move || assert_up(address, &uploaded, media);
            tokio::task::spawn_blocking(check)
                .await
                .expect("the media is up");
            assert_nothing_sent_twice(&exchanges);
        }
        // Bytes that a window has dropped cannot be sent again. The upload can only fail.
        Err(error) if seed.is_multiple_of(4) && range_lost && error.kind() == Kind::Source => {
            let again = self::upload(&format!("http://{address}"), &format!("mix {seed}"));
            let done = client().upload(again, Source::bytes(media.whole())).await;
            done.expect("nothing is in the way");
        }
        Err(error) => panic!("seed {seed}: {error}\n{exchanges:#?}"),
    }
}

/// How often each name occurs among the animals.
fn animals(server: &ServerProcess) -> HashMap<String, usize> {
    let list = Request::new("GET", format!("{}?maxResults=1000", farm::ANIMALS));
    let reply = exchange(server.address(), &list).expect(200);
    let mut counts = HashMap::new();
    for animal in reply.field("items").as_array().expect("there are some") {
        *counts.entry(animal["name"].to_string()).or_default() += 1;
    }
    counts
}

#[test]
fn a_server_that_is_killed_and_started_again_in_the_middle_gets_it_all() {
    let media = Media::new(3, 40 * QUARTER);
    let mut server = server::own(&[]);
    let proxy = FaultProxy::start(server.address());
    proxy.set_plan(Plan::always(Fault::Throttle {
        bytes_per_second: 8_000_000,
    }));
    let upload = upload(&proxy.base_url(), "killed").chunking(small_chunks());
    let runtime = runtime();
    let uploading =
        runtime.spawn(async move { client().upload(upload, Source::bytes(media.whole())).await });
    for seen in [5, 15, 25] {
        let committed = || {
            let exchanges = proxy.exchanges();
            exchanges
                .iter()
                .filter(|exchange| exchange.committed.is_some())
                .count()
        };
        while committed() < seen && !uploading.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        server.kill9();
        server.start_again();
        proxy.set_upstream(server.address());
    }
    let uploaded = runtime
        .block_on(uploading)
        .expect("no panic")
        .expect("it gets up");
    assert_up(server.address(), &uploaded, media);
}
