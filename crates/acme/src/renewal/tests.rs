use std::collections::VecDeque;
use std::sync::Mutex;

use rcgen::{CertificateParams, KeyPair};
use rustls::sign::CertifiedKey;
use tokio::time::{Instant, advance};

use super::*;

const DOMAIN: &str = "up.example.com";

/// The time at the start of a test.
fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

/// A certificate for a name that is valid from an hour before the start until this many seconds
/// after it.
fn pem(name: &str, expires: i64) -> String {
    let time = |seconds| rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
    let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
    let begun = start()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("later")
        .as_secs();
    params.not_before = time(begun - 3600);
    params.not_after = time(begun.checked_add_signed(expires).expect("a time"));
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    key.serialize_pem() + &certificate.pem()
}

fn issued(name: &str, expires: i64) -> Issued {
    Issued::from_pem(&pem(name, expires)).expect("a certificate")
}

/// The outcome of an attempt.
enum Outcome {
    Issued(Issued),
    Failed(Failure),
    Hangs,
}

/// An authority that follows a script and records when it was asked.
#[derive(Clone)]
struct Scripted {
    domains: Vec<Domain>,
    directory: String,
    outcomes: Arc<Mutex<VecDeque<Outcome>>>,
    asked: Arc<Mutex<Vec<Duration>>>,
    suggestion: Arc<Mutex<Option<Suggestion>>>,
    questions: Arc<Mutex<u32>>,
    begun: Instant,
}

#[async_trait]
impl Authority for Scripted {
    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn directory(&self) -> &str {
        &self.directory
    }

    async fn issue(&self, _: Option<&Issued>) -> Result<Issued, Failure> {
        self.asked.lock().unwrap().push(self.begun.elapsed());
        let outcome = self.outcomes.lock().unwrap().pop_front();
        match outcome {
            Some(Outcome::Issued(issued)) => Ok(issued),
            Some(Outcome::Failed(failure)) => Err(failure),
            Some(Outcome::Hangs) | None => std::future::pending().await,
        }
    }

    async fn suggestion(&self, _: &Issued) -> Option<Suggestion> {
        *self.questions.lock().unwrap() += 1;
        *self.suggestion.lock().unwrap()
    }
}

struct Bench {
    authority: Scripted,
    serving: Arc<Serving>,
    metrics: AcmeMetrics,
    renewal: Renewal<Scripted>,
}

fn bench(outcomes: impl IntoIterator<Item = Outcome>) -> Bench {
    let begun = Instant::now();
    let domains = vec![DOMAIN.parse().expect("a domain")];
    let serving = Arc::new(Serving::new(&domains));
    let authority = Scripted {
        domains,
        directory: "https://ca.example/dir".to_owned(),
        outcomes: Arc::new(Mutex::new(outcomes.into_iter().collect())),
        asked: Arc::default(),
        suggestion: Arc::default(),
        questions: Arc::default(),
        begun,
    };
    let metrics = AcmeMetrics::default();
    let now = move || start() + begun.elapsed();
    Bench {
        renewal: Renewal::new(
            authority.clone(),
            Arc::clone(&serving),
            metrics.clone(),
            now,
        ),
        authority,
        serving,
        metrics,
    }
}

impl Bench {
    /// Runs the task for a time.
    async fn run(&mut self, time: Duration) {
        timeout(time, self.renewal.run())
            .await
            .expect_err("it has no end");
    }

    /// The seconds after the start at which a certificate was ordered.
    fn orders(&self) -> Vec<u64> {
        let asked = self.authority.asked.lock().unwrap();
        asked.iter().map(Duration::as_secs).collect()
    }

    fn served(&self) -> Option<Arc<CertifiedKey>> {
        self.serving.certificate_for(Some(DOMAIN))
    }

    #[track_caller]
    fn assert_served(&self, expected: &Issued) {
        let served = self.served().expect("a certificate");
        assert_eq!(served.cert, expected.key.cert);
    }
}

fn broken() -> Outcome {
    Outcome::Failed(Failure::Timeout(Duration::ZERO))
}

const DAY: i64 = 86_400;

#[tokio::test(start_paused = true)]
async fn without_a_certificate_one_is_ordered_at_once() {
    let fresh = issued(DOMAIN, 90 * DAY);
    let mut bench = bench([Outcome::Issued(fresh.clone())]);
    bench.renewal.use_stored(Ok(None));
    assert!(bench.served().is_none());
    bench.run(Duration::from_secs(1)).await;
    assert_eq!(bench.orders(), [0]);
    bench.assert_served(&fresh);
    assert_eq!(bench.metrics.issued.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn stored_certificate_is_used_and_renewed_when_a_third_is_left() {
    // Of three hours, one is over.
    let (pem, fresh) = (pem(DOMAIN, 7200), issued(DOMAIN, 90 * DAY));
    let mut bench = bench([Outcome::Issued(fresh.clone())]);
    bench.renewal.use_stored(Ok(Some(pem.clone())));
    bench.assert_served(&Issued::from_pem(&pem).expect("a certificate"));
    bench.run(Duration::from_secs(3599)).await;
    assert!(bench.orders().is_empty());
    bench.run(Duration::from_secs(2)).await;
    assert_eq!(bench.orders(), [3600]);
    bench.assert_served(&fresh);
}

#[tokio::test(start_paused = true)]
async fn stored_certificate_that_cannot_be_used_is_replaced_at_once() {
    let damaged = StateError::Damaged {
        path: "certificate.pem".into(),
    };
    for stored in [
        Ok(Some(pem(DOMAIN, -1))),
        Ok(Some("no certificate".to_owned())),
        Err(damaged),
    ] {
        let fresh = issued(DOMAIN, 90 * DAY);
        let mut bench = bench([Outcome::Issued(fresh.clone())]);
        bench.renewal.use_stored(stored);
        assert!(bench.served().is_none());
        bench.run(Duration::from_secs(1)).await;
        bench.assert_served(&fresh);
    }
}

#[tokio::test(start_paused = true)]
async fn stored_certificate_without_a_new_domain_is_used_until_the_next_one_is_there() {
    let (pem, fresh) = (pem("other.example.com", 90 * DAY), issued(DOMAIN, 90 * DAY));
    let mut bench = bench([broken(), Outcome::Issued(fresh.clone())]);
    bench.renewal.use_stored(Ok(Some(pem.clone())));
    bench.run(Duration::from_secs(1)).await;
    bench.assert_served(&Issued::from_pem(&pem).expect("a certificate"));
    bench.run(Duration::from_secs(60)).await;
    bench.assert_served(&fresh);
}

#[tokio::test(start_paused = true)]
async fn failures_are_repeated_after_growing_pauses() {
    let (pem, fresh) = (pem(DOMAIN, 7200), issued(DOMAIN, 90 * DAY));
    let outcomes = [broken(), broken(), broken(), Outcome::Issued(fresh.clone())];
    let mut bench = bench(outcomes);
    bench.renewal.use_stored(Ok(Some(pem)));
    bench.run(Duration::from_secs(4000)).await;
    let orders = bench.orders();
    assert_eq!((orders.len(), orders[0]), (4, 3600));
    let pauses = orders.windows(2).map(|pair| pair[1] - pair[0]);
    for (pause, longest) in pauses.zip([10, 40, 160]) {
        assert!((longest / 2..=longest).contains(&pause), "{orders:?}");
    }
    let counts = (bench.metrics.failed.get(), bench.metrics.issued.get());
    assert_eq!(counts, (3, 1));
    bench.assert_served(&fresh);
}

#[tokio::test(start_paused = true)]
async fn certificate_that_is_not_renewed_stays_in_use() {
    let pem = pem(DOMAIN, 7200);
    let mut bench = bench(std::iter::repeat_with(broken).take(100));
    bench.renewal.use_stored(Ok(Some(pem.clone())));
    // Also after its end: a client says more of an expired one than of none.
    bench.run(Duration::from_secs(10_000)).await;
    assert!(bench.orders().len() > 4);
    bench.assert_served(&Issued::from_pem(&pem).expect("a certificate"));
}

#[tokio::test(start_paused = true)]
async fn attempt_that_hangs_is_given_up() {
    let fresh = issued(DOMAIN, 90 * DAY);
    let mut bench = bench([Outcome::Hangs, Outcome::Issued(fresh.clone())]);
    bench.renewal.use_stored(Ok(None));
    bench.run(ATTEMPT + Duration::from_secs(11)).await;
    assert_eq!(bench.orders().len(), 2);
    bench.assert_served(&fresh);
}

#[tokio::test(start_paused = true)]
async fn certificate_that_is_due_at_once_is_used_but_not_renewed_without_a_pause() {
    // An hour of life is over, and little is left: the clock is wrong.
    let short = || Outcome::Issued(issued(DOMAIN, 60));
    let mut bench = bench(std::iter::repeat_with(short).take(100));
    bench.renewal.use_stored(Ok(None));
    bench.run(Duration::from_secs(3600)).await;
    assert!(
        (4..=7).contains(&bench.orders().len()),
        "{:?}",
        bench.orders()
    );
    assert!(bench.served().is_some());
}

#[tokio::test(start_paused = true)]
async fn certificate_for_other_names_is_not_used() {
    let mut bench = bench([Outcome::Issued(issued("other.example.com", 90 * DAY))]);
    bench.renewal.use_stored(Ok(None));
    bench.run(Duration::from_secs(1)).await;
    assert!(bench.served().is_none());
    assert_eq!(bench.metrics.failed.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn names_of_others_get_no_certificate() {
    let mut bench = bench([Outcome::Issued(issued(DOMAIN, 90 * DAY))]);
    bench.renewal.use_stored(Ok(None));
    bench.run(Duration::from_secs(1)).await;
    for (name, expected) in [
        (Some(DOMAIN), true),
        (Some("UP.example.COM"), true),
        (None, true),
        (Some("example.com"), false),
        (Some("other.up.example.com"), false),
    ] {
        let found = bench.serving.certificate_for(name).is_some();
        assert_eq!(found, expected, "{name:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn clock_that_is_set_forward_is_noticed_within_an_hour() {
    let jump = Arc::new(Mutex::new(Duration::ZERO));
    let (begun, jumped) = (Instant::now(), Arc::clone(&jump));
    let mut bench = bench([Outcome::Issued(issued(DOMAIN, 90 * DAY))]);
    bench.renewal.now = Box::new(move || start() + begun.elapsed() + *jumped.lock().unwrap());
    bench.renewal.use_stored(Ok(Some(pem(DOMAIN, 60 * DAY))));
    bench.run(Duration::from_secs(60)).await;
    *jump.lock().unwrap() = Duration::from_secs(50 * 86_400);
    advance(Duration::ZERO).await;
    bench.run(MAX_SLEEP).await;
    assert_eq!(bench.orders().len(), 1);
}

/// From this many seconds after the start until as many.
fn window(from: u64, to: u64) -> Window {
    Window {
        start: start() + Duration::from_secs(from),
        end: start() + Duration::from_secs(to),
    }
}

#[tokio::test(start_paused = true)]
async fn authority_that_wants_an_early_renewal_gets_it_at_the_next_question() {
    const HOUR: u64 = 3600;
    let fresh = || Outcome::Issued(issued(DOMAIN, 90 * DAY));
    let mut bench = bench([fresh(), fresh()]);
    bench.renewal.use_stored(Ok(None));
    let said = |window| Suggestion {
        window,
        ask_again: Duration::from_secs(2 * HOUR),
    };
    let suggestion = Arc::clone(&bench.authority.suggestion);
    *suggestion.lock().unwrap() = Some(said(window(100 * HOUR, 101 * HOUR)));
    bench.run(Duration::from_secs(5 * HOUR + 1)).await;
    // An hour after the order, and then every two hours.
    assert_eq!(*bench.authority.questions.lock().unwrap(), 3);
    assert_eq!(bench.orders(), [0]);
    *suggestion.lock().unwrap() = Some(said(window(0, HOUR)));
    bench.run(Duration::from_secs(2 * HOUR + 60)).await;
    assert_eq!(bench.orders().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn authority_that_is_never_content_gets_an_order_an_hour() {
    let fresh = || Outcome::Issued(issued(DOMAIN, 90 * DAY));
    let mut bench = bench(std::iter::repeat_with(fresh).take(50));
    bench.renewal.use_stored(Ok(None));
    *bench.authority.suggestion.lock().unwrap() = Some(Suggestion {
        window: window(0, 1),
        ask_again: Duration::ZERO,
    });
    bench.run(Duration::from_secs(10 * 3600 - 1)).await;
    assert_eq!(bench.orders().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn window_is_followed_in_place_of_the_lifetime() {
    let mut bench = bench([Outcome::Issued(issued(DOMAIN, 90 * DAY))]);
    *bench.authority.suggestion.lock().unwrap() = Some(Suggestion {
        window: window(4000, 5000),
        ask_again: Duration::from_secs(60),
    });
    // The third is left after an hour.
    bench.renewal.use_stored(Ok(Some(pem(DOMAIN, 7200))));
    bench.run(Duration::from_secs(3999)).await;
    assert!(bench.orders().is_empty());
    bench.run(Duration::from_secs(1001)).await;
    assert_eq!(bench.orders().len(), 1);
}
