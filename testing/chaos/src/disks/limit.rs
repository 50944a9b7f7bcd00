//! Files that may not grow any more.
//!
//! Injected: a limit on the size of files (`RLIMIT_FSIZE`), over which a write fails with EFBIG and
//! the kernel sends SIGXFSZ, which ends a process by default.
//! To be survived: everything that was acknowledged. To be seen: an upload that is too long is
//! refused with 503, its written part is kept, and the server continues with all other uploads.

use std::net::SocketAddr;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use windlass_testkit::checker::{FarmDialects, Load, Workload};
use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::Request;
use windlass_testkit::session::{Session, content_range};

use super::latency_probe::ask_once;
use super::verdict::Verdict;
use crate::outcome::Outcome;
use crate::scratch::Scratch;
use crate::server_under_test::ServerUnderTest;
use crate::tool::{dies_with_us, need};

/// The longest file. The ledger's own stay below it for as long as this takes.
const MAX_FILE_LEN: u64 = 96 << 20;

/// How much more is sent.
const MORE: u64 = 4 << 20;

/// Limits the size of files.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    server_under_test: ServerUnderTest,
    /// Duration of the uploads of other clients, in seconds.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Seed of the clients' requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    need(&["prlimit", "setpriv"])?;
    let mut verdict = Verdict::default();
    let scratch = Scratch::on_disk()?;
    let (data, log) = (scratch.path().join("data"), scratch.path().join("log"));
    let mut workload = Workload::new(FarmDialects, Load::default(), arguments.seed);
    let media = Media::new(arguments.seed, MAX_FILE_LEN + MORE);
    let session = under_the_limit(arguments, (&data, &log), media, &mut workload, &mut verdict)?;
    without_it(
        arguments,
        (&data, &log),
        &session,
        media,
        &mut workload,
        &mut verdict,
    )?;
    let figures = workload.figures();
    Ok(verdict.outcome(format!(
        "files of at most {} MiB; {figures}",
        MAX_FILE_LEN >> 20
    )))
}

fn under_the_limit(
    arguments: &Arguments,
    (data, log): (&Path, &Path),
    media: Media,
    workload: &mut Workload,
    verdict: &mut Verdict,
) -> anyhow::Result<Session> {
    let occasion = "under the limit";
    let mut wrapper = dies_with_us();
    wrapper.extend(["prlimit".to_owned(), format!("--fsize={MAX_FILE_LEN}")]);
    let mut server = arguments
        .server_under_test
        .start_under(&wrapper, data, log)?;
    let session = farm::begin_declared(server.address(), media.len());
    for from in [0, MAX_FILE_LEN] {
        let reply = send_the_rest(server.address(), &session, media, from);
        let status = reply.as_ref().ok().map(|reply| reply.status);
        verdict.expect(
            status == Some(503),
            occasion,
            format!("it answered {reply:?}"),
        );
        let told = ask_once(server.address(), &session.ranged("bytes */*").body(""));
        let told = told.ok().filter(|told| told.status == 308);
        let told = told.map(|told| told.range());
        verdict.expect(
            told == Some(MAX_FILE_LEN),
            occasion,
            format!("of {MAX_FILE_LEN} bytes that fit {told:?} are committed"),
        );
    }
    workload.run_while(server.address(), || {
        sleep(Duration::from_secs(arguments.seconds));
    });
    let health = ask_once(server.address(), &Request::new("GET", "/healthz"));
    let is_well = health.as_ref().is_ok_and(|health| health.status == 200);
    verdict.expect(is_well, occasion, format!("/healthz answered {health:?}"));
    server.kill9();
    Ok(session)
}

fn without_it(
    arguments: &Arguments,
    (data, log): (&Path, &Path),
    session: &Session,
    media: Media,
    workload: &mut Workload,
    verdict: &mut Verdict,
) -> anyhow::Result<()> {
    let occasion = "without the limit";
    let mut server = arguments
        .server_under_test
        .start_under(&dies_with_us(), data, log)?;
    let finished = send_the_rest(server.address(), session, media, MAX_FILE_LEN)?;
    verdict.expect(
        finished.status == 201,
        occasion,
        format!("the end was answered {}", finished.status),
    );
    if finished.status == 201 {
        let download = ask_once(server.address(), &farm::download(&farm::id(&finished)))?;
        let same = media.compare(0..media.len(), &download.body[..]);
        verdict.expect(
            same.is_ok(),
            occasion,
            format!("the media differs: {same:?}"),
        );
    }
    workload.check(server.address());
    workload.finish(server.address());
    server.kill9();
    workload.extend_violations(arguments.server_under_test.verify(data)?);
    verdict.take_in(occasion, workload);
    Ok(())
}

fn send_the_rest(
    address: SocketAddr,
    session: &Session,
    media: Media,
    from: u64,
) -> std::io::Result<windlass_testkit::raw::Reply> {
    let range = from..media.len();
    let request = session.ranged(&content_range(media, &range));
    ask_once(address, &request.body(media.bytes(range)))
}
