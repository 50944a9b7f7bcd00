//! Notices to services about finished uploads.

use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep, timeout};

use super::*;

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Two collections, of which each has a service.
const TWO: &str = r#"
name = "album"
version = "v1"

[collections.photos]
media = {}
on.finished = "http://127.0.0.1:9000/photos"

[collections.films]
media = {}
on.finished = "http://127.0.0.1:9001/films"
"#;

type Respond = Box<dyn Fn(usize) -> Result<u16, OutboundError> + Send + Sync>;

/// A service at port 9000 that passes each request to the test, and a service at 9001 that never
/// answers.
struct Told {
    tell: UnboundedSender<(Instant, Got)>,
    respond: Respond,
    count: Mutex<usize>,
}

#[async_trait]
impl Outbound for Told {
    async fn send(
        &self,
        request: Request<Bytes>,
        limits: OutboundLimits,
    ) -> Result<Response<Bytes>, OutboundError> {
        let got = Got::of(&request);
        if request.uri().port_u16() == Some(9001) {
            sleep(limits.timeout).await;
            let host = "127.0.0.1".to_owned();
            let timeout = limits.timeout;
            return Err(OutboundError::Timeout { host, timeout });
        }
        self.tell.send((Instant::now(), got)).expect("it is read");
        let at = {
            let mut count = self.count.lock().expect("no panic");
            *count += 1;
            *count - 1
        };
        let reply = Response::builder().status((self.respond)(at)?);
        Ok(reply.body(Bytes::new()).expect("a reply"))
    }
}

/// Returns a server with a clock that follows the timers, and the requests that the first service
/// receives.
fn told(
    respond: impl Fn(usize) -> Result<u16, OutboundError> + Send + Sync + 'static,
) -> (World, UnboundedReceiver<(Instant, Got)>) {
    let (tell, told) = mpsc::unbounded_channel();
    let outbound = Told {
        tell,
        respond: Box::new(respond),
        count: Mutex::default(),
    };
    let secret = SECRET.parse().expect("a secret");
    let backends = Backends::new(Arc::new(outbound), secret, OutboundAddresses::Public);
    let api = Api::from_toml(TWO).expect("it is valid");
    let stores = Stores {
        ledger: Arc::new(MemoryLedger::default()),
        vault: Arc::new(MemoryVault::new()),
    };
    let clock = ManualClock::with_timers();
    let served = ServedApi::with_default_handler(api).with_backends(Arc::new(backends));
    (World::of(served, stores, clock), told)
}

async fn upload(world: &World, collection: &str) -> String {
    let uri = format!("/album/v1/{collection}");
    let made = world.simple(&uri, "image/png", b"a cow").await;
    assert_eq!(made.status, 200, "{made:?}");
    made.field("id")
}

async fn next(told: &mut UnboundedReceiver<(Instant, Got)>) -> (Instant, Got) {
    let next = timeout(HOUR, told.recv()).await;
    next.expect("it is told").expect("the server runs")
}

#[tokio::test(start_paused = true)]
async fn event_is_repeated_with_its_id_until_the_service_takes_it() {
    let (world, mut told) = told(|at| match at {
        0 => Ok(500),
        1 => Err(OutboundError::Unsupported { problem: "down" }),
        _ => Ok(204),
    });
    let _serving = world.serve().await;
    let begun = Instant::now();
    let id = upload(&world, "photos").await;
    let mut attempts = Vec::new();
    for _ in 0..3 {
        attempts.push(next(&mut told).await);
    }
    for (_, got) in &attempts {
        assert_eq!(got.path, "/photos");
        assert_eq!(got.id, attempts[0].1.id);
        assert_eq!(got.body["type"], "album.photos.finished");
        assert_eq!(got.body["data"]["method"], "album.photos.insert");
        assert_eq!(got.body["data"]["resource"]["id"], *id);
        assert_eq!(got.body["data"]["resource"]["size"], "5");
    }
    assert_eq!(attempts[0].0, begun, "it is told at once");
    // After 5 s, then after 10 s, with a random part.
    let waited = attempts[2].0 - begun;
    let expected = Duration::from_secs(10)..Duration::from_secs(40);
    assert!(expected.contains(&waited), "{waited:?}");
    sleep(HOUR).await;
    assert!(told.try_recv().is_err(), "it has been taken");
    let other = upload(&world, "photos").await;
    let (_, got) = next(&mut told).await;
    assert_eq!(got.body["data"]["resource"]["id"], *other);
    assert_ne!(got.id, attempts[0].1.id);
}

#[tokio::test(start_paused = true)]
async fn service_that_is_gone_gets_no_event_twice() {
    let (world, mut told) = told(|_| Ok(410));
    let _serving = world.serve().await;
    upload(&world, "photos").await;
    next(&mut told).await;
    sleep(24 * HOUR).await;
    assert!(told.try_recv().is_err(), "it wants no more");
}

#[tokio::test(start_paused = true)]
async fn service_that_never_answers_delays_no_other() {
    let (world, mut told) = told(|_| Ok(204));
    let _serving = world.serve().await;
    for _ in 0..50 {
        upload(&world, "films").await;
    }
    // The worker of the films is busy with them.
    sleep(Duration::from_secs(10)).await;
    let begun = Instant::now();
    upload(&world, "photos").await;
    assert_eq!(next(&mut told).await.0, begun, "it is told at once");
}
