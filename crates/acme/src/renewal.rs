//! The task that keeps a certificate. It orders the first certificate, renews it in time, and
//! retries after failures.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::time::{sleep, timeout};
use zeroize::Zeroizing;

use super::failure::Failure;
use super::issued::Issued;
use super::metrics::AcmeMetrics;
use super::options::Domain;
use super::schedule::{self, Window};
use super::serving::Serving;
use super::state::StateError;

/// The time limit of one attempt.
const ATTEMPT: Duration = Duration::from_secs(600);

// Timers stand still while a machine sleeps, and clocks are set.
/// The longest time until the clock is read again.
const MAX_SLEEP: Duration = Duration::from_secs(60 * 60);

/// How often the authority is asked when to renew, unless it says how often.
const QUESTIONS: Duration = Duration::from_secs(6 * 60 * 60);

/// When the authority is asked for the first time after an order. An authority may want each
/// certificate to be renewed at once; this delay bounds it to one order in this time.
const FIRST_QUESTION: Duration = Duration::from_secs(60 * 60);

/// The longest time between two questions to the authority, which may have to revoke certificates.
const MAX_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// The time limit of a question to the authority.
const QUESTION: Duration = Duration::from_secs(60);

/// The authority's suggestion for the renewal of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Suggestion {
    pub(super) window: Window,
    /// When it wants to be asked again.
    pub(super) ask_again: Duration,
}

/// Who issues certificates.
#[async_trait]
pub(super) trait Authority: Send + Sync + 'static {
    /// The names that a certificate must have.
    fn domains(&self) -> &[Domain];

    /// Returns the name of the authority in the log.
    fn directory(&self) -> &str;

    /// Orders a certificate. `replaced` is the certificate that it replaces, if there is one.
    async fn issue(&self, replaced: Option<&Issued>) -> Result<Issued, Failure>;

    /// Returns when a certificate should be renewed, if the authority says so.
    async fn suggestion(&self, issued: &Issued) -> Option<Suggestion>;
}

/// The task and its state.
pub(super) struct Renewal<A> {
    authority: A,
    serving: Arc<Serving>,
    metrics: AcmeMetrics,
    now: Box<dyn Fn() -> SystemTime + Send + Sync>,
    /// When the next certificate is ordered. `None`: at once.
    due: Option<SystemTime>,
    /// The certificate in use.
    current: Option<Issued>,
    /// The window within which the authority wants it to be renewed.
    window: Option<Window>,
    /// When the authority is asked for the window.
    ask_at: Option<SystemTime>,
    /// Attempts that have failed since the last success.
    failures: u32,
}

impl<A: Authority> Renewal<A> {
    pub(super) fn new(
        authority: A,
        serving: Arc<Serving>,
        metrics: AcmeMetrics,
        now: impl Fn() -> SystemTime + Send + Sync + 'static,
    ) -> Self {
        Self {
            authority,
            serving,
            metrics,
            now: Box::new(now),
            due: None,
            current: None,
            window: None,
            ask_at: None,
            failures: 0,
        }
    }

    /// Uses the certificate that an earlier process has stored, if it is valid now. A certificate
    /// that lacks a domain serves the remaining domains while its successor is ordered.
    pub(super) fn use_stored(&mut self, stored: Result<Option<String>, StateError>) {
        match stored {
            Ok(Some(pem)) => match Issued::from_pem(&Zeroizing::new(pem)) {
                Ok(issued) if issued.validity.holds_at((self.now)()) => self.take_up(&issued),
                Ok(_) => tracing::warn!("the stored certificate is not valid at this time"),
                Err(error) => tracing::warn!(%error, "the stored certificate cannot be used"),
            },
            Ok(None) => {}
            Err(error) => {
                let cause = std::error::Error::source(&error).map(tracing::field::display);
                tracing::error!(%error, cause, "the stored certificate cannot be used");
            }
        }
        self.log_start();
    }

    /// Keeps a valid certificate in use. Never returns.
    pub(super) async fn run(&mut self) {
        loop {
            self.wait_until_due().await;
            if let Err(failure) = self.attempt().await {
                self.rest(&failure).await;
            }
        }
    }

    async fn wait_until_due(&mut self) {
        while self.time_left().is_some() {
            self.ask_when_to_renew().await;
            if let Some(left) = self.time_left() {
                sleep(left.min(MAX_SLEEP)).await;
            }
        }
    }

    /// Follows the authority's suggestion for the certificate in use. Without a suggestion, the
    /// certificate is renewed when a third of its lifetime is left.
    async fn ask_when_to_renew(&mut self) {
        let (now, Some(current)) = ((self.now)(), &self.current) else {
            return;
        };
        if self.ask_at.is_some_and(|time| time > now) {
            return;
        }
        let asked = timeout(QUESTION, self.authority.suggestion(current)).await;
        let suggestion = asked.ok().flatten();
        let pause = suggestion.map_or(QUESTIONS, |it| it.ask_again.min(MAX_PAUSE));
        self.ask_at = Some(now + pause);
        // The time within a window is chosen once. A new random time at each question would make
        // the renewal early.
        let new = suggestion
            .map(|it| it.window)
            .filter(|it| Some(*it) != self.window);
        if let Some(window) = new {
            self.window = Some(window);
            self.due = Some(current.validity.renewal_within(window, random()));
        }
    }

    /// Returns the time until the renewal; `None` if it is due.
    fn time_left(&self) -> Option<Duration> {
        let left = self.due?.duration_since((self.now)()).ok()?;
        (!left.is_zero()).then_some(left)
    }

    async fn attempt(&mut self) -> Result<(), Failure> {
        let issued = timeout(ATTEMPT, self.authority.issue(self.current.as_ref())).await;
        let issued = issued.unwrap_or(Err(Failure::Timeout(ATTEMPT)))?;
        self.metrics.issued.inc();
        if !issued.covers(self.authority.domains()) {
            return Err(Failure::OtherDomains);
        }
        self.take_up(&issued);
        self.ask_at = Some((self.now)() + FIRST_QUESTION);
        let not_after = issued.validity.not_after;
        // Without this check, the server would order one certificate after another.
        if self.time_left().is_none() {
            return Err(Failure::ShortLived { not_after });
        }
        self.failures = 0;
        tracing::info!(
            domains = %self.domains(),
            expires = %humantime::format_rfc3339_seconds(not_after),
            "the authority has issued a certificate"
        );
        Ok(())
    }

    /// Uses a certificate for new connections.
    fn take_up(&mut self, issued: &Issued) {
        self.serving.replace(issued);
        let validity = issued.validity;
        self.metrics.expires(validity.not_after);
        let is_complete = issued.covers(self.authority.domains());
        self.due = is_complete.then(|| validity.renewal());
        self.current = Some(issued.clone());
        (self.window, self.ask_at) = (None, None);
    }

    /// Logs a failure, and waits for the delay after it.
    async fn rest(&mut self, failure: &Failure) {
        self.failures = self.failures.saturating_add(1);
        self.metrics.failed.inc();
        let delay = schedule::delay(self.failures, random(), failure.retry_after());
        self.log_failure(failure, delay);
        sleep(delay).await;
    }

    fn log_start(&self) {
        let (domains, directory) = (self.domains(), self.authority.directory());
        if let Some(not_after) = self.not_after() {
            let expires = humantime::format_rfc3339_seconds(not_after);
            tracing::info!(%domains, %expires, "the stored certificate is used");
        } else {
            tracing::warn!(
                %domains,
                directory,
                "there is no certificate yet: TLS handshakes fail until the authority has issued one"
            );
        }
    }

    fn log_failure(&self, failure: &Failure, delay: Duration) {
        let error = failure.description();
        let next_step = failure.next_step();
        let (attempts, again_in) = (self.failures, humantime::format_duration(rounded(delay)));
        let now = (self.now)();
        match self.not_after() {
            Some(not_after) if not_after > now => {
                let expires = humantime::format_rfc3339_seconds(not_after);
                tracing::warn!(%error, attempts, %again_in, %expires, next_step, "no new certificate; the old one is used");
            }
            Some(_) => {
                tracing::error!(%error, attempts, %again_in, next_step, "no new certificate, and the old one has expired");
            }
            None => {
                tracing::error!(%error, attempts, %again_in, next_step, "no certificate: TLS handshakes fail");
            }
        }
    }

    /// When the certificate in use expires.
    fn not_after(&self) -> Option<SystemTime> {
        self.current
            .as_ref()
            .map(|issued| issued.validity.not_after)
    }

    fn domains(&self) -> String {
        let domains = self.authority.domains().iter();
        let domains: Vec<_> = domains.map(Domain::as_str).collect();
        domains.join(", ")
    }
}

/// In whole seconds, as people read it.
fn rounded(delay: Duration) -> Duration {
    Duration::from_secs(delay.as_secs() + u64::from(delay.subsec_nanos() > 0))
}

/// Returns a number between 0 and 1.
fn random() -> f64 {
    // Without randomness the delay is the longest.
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests;
