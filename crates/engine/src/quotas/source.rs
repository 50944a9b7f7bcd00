//! Quotas that an application keeps: the trait [`QuotaSource`], and a memory of its answers.

use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hashlink::LruCache;
use tokio::time::Instant;

use crate::error::Error;
use crate::shares::{MAX_CALLERS, Shares};

/// How long an answer is remembered.
const MEMORY: Duration = Duration::from_secs(10);

/// How long a request waits for an answer, including the wait for other requests of its principal.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Knows the limits of each principal, for example from the database of an application.
///
/// The source is asked when a principal would come to occupy more:
///
/// - when it starts an upload, or uploads in one request,
/// - while media of undeclared length arrives, at most once for each MiB and each commit,
/// - when an upload finishes, media is concatenated, or a call inserts or replaces resources. Then
///   it is asked for each owner of these resources.
///
/// It is not asked for requests without a principal, for reads and deletions, or for the chunks of
/// an upload that declared its length at its start.
///
/// An answer holds for 10 seconds, so a changed limit applies after that time. The answers of up to
/// 10,000 principals are remembered, and the source is asked once at a time for each principal. If
/// it fails, or takes longer than 5 seconds, the request is refused with 503 and a time to retry.
/// Nothing of the request is acknowledged, and failures are not remembered. A complete upload
/// remains complete in that case: the server creates its resource later.
///
/// ```
/// use std::error::Error;
///
/// use async_trait::async_trait;
/// use windlass_engine::quotas::{PrincipalLimits, QuotaSource};
/// # struct Database;
/// # impl Database {
/// #     async fn plan(&self, _user: &str) -> Result<u64, std::io::Error> { Ok(5) }
/// # }
///
/// /// Five gigabytes for each seat of the user's plan.
/// struct Plans(Database);
///
/// #[async_trait]
/// impl QuotaSource for Plans {
///     async fn limits(
///         &self,
///         principal: &str,
///     ) -> Result<PrincipalLimits, Box<dyn Error + Send + Sync>> {
///         let seats = self.0.plan(principal).await?;
///         Ok(PrincipalLimits::default().with_bytes(seats * 5_000_000_000))
///     }
/// }
/// ```
#[async_trait]
pub trait QuotaSource: Send + Sync + 'static {
    /// Returns the limits of a principal. `principal` is its id.
    ///
    /// # Errors
    /// Any error. It is logged, and the client does not see it.
    ///
    /// # Cancel safety
    /// The server drops the future after 5 seconds, or when the client of the request has gone.
    async fn limits(
        &self,
        principal: &str,
    ) -> Result<PrincipalLimits, Box<dyn StdError + Send + Sync>>;
}

/// The limits of one principal. A limit that is `None` is the limit in the server's settings.
///
/// Unlike in the settings, 0 admits nothing. [`u64::MAX`] admits everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrincipalLimits {
    /// Maximum number of open uploads.
    pub sessions: Option<u64>,
    /// Maximum number of bytes, as [`Usage::bytes`](windlass_store::Usage::bytes) counts them.
    pub bytes: Option<u64>,
}

impl PrincipalLimits {
    /// Sets the maximum number of open uploads.
    #[must_use]
    pub fn with_sessions(self, sessions: u64) -> Self {
        Self {
            sessions: Some(sessions),
            ..self
        }
    }

    /// Sets the maximum number of bytes.
    #[must_use]
    pub fn with_bytes(self, bytes: u64) -> Self {
        Self {
            bytes: Some(bytes),
            ..self
        }
    }
}

/// The most recently used answers, by the principal's id, with the time of each.
type Answers = LruCache<String, (PrincipalLimits, Instant)>;

/// A source whose answers are remembered.
pub(super) struct RememberedSource {
    source: Arc<dyn QuotaSource>,
    answers: Mutex<Answers>,
    /// One question at a time for each principal: the other requests use its answer.
    turns: Shares<String>,
}

impl RememberedSource {
    pub(super) fn new(source: Arc<dyn QuotaSource>) -> Self {
        Self {
            source,
            answers: Mutex::new(LruCache::new(MAX_CALLERS)),
            turns: Shares::of_count(1),
        }
    }

    /// Returns the limits of a principal.
    ///
    /// # Errors
    /// [`Error::QuotaUnknown`].
    ///
    /// # Cancel safety
    /// This method is cancel safe. A dropped call drops its question.
    pub(super) async fn limits(&self, principal: &str) -> Result<PrincipalLimits, Error> {
        if let Some(limits) = self.remembered(principal) {
            return Ok(limits);
        }
        // The timeout includes the wait for the turn. Otherwise the requests of a principal would
        // wait for the timeouts of all earlier ones, one after the other.
        let answer = tokio::time::timeout(TIMEOUT, self.ask(principal)).await;
        answer.unwrap_or_else(|_| {
            tracing::warn!(principal, "the source of quotas has not answered in time");
            Err(Error::QuotaUnknown)
        })
    }

    async fn ask(&self, principal: &str) -> Result<PrincipalLimits, Error> {
        let _turn = self.turns.acquire(principal.to_owned(), 1).await;
        // The request before this one may have got an answer in the meantime.
        if let Some(limits) = self.remembered(principal) {
            return Ok(limits);
        }
        match self.source.limits(principal).await {
            Ok(limits) => {
                let answer = (limits, Instant::now());
                self.lock().insert(principal.to_owned(), answer);
                Ok(limits)
            }
            Err(error) => {
                let error = &*error as &dyn StdError;
                tracing::warn!(principal, error, "the source of quotas has failed");
                Err(Error::QuotaUnknown)
            }
        }
    }

    fn remembered(&self, principal: &str) -> Option<PrincipalLimits> {
        let (limits, at) = *self.lock().get(principal)?;
        (at.elapsed() < MEMORY).then_some(limits)
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leaves out the answers.
impl fmt::Debug for RememberedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RememberedSource").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::io;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use futures_util::future::join_all;

    use super::*;

    /// Answers with the number of the question, after a second.
    #[derive(Default)]
    struct Counting {
        asked: AtomicU64,
        fails: AtomicBool,
        hangs: AtomicBool,
    }

    #[async_trait]
    impl QuotaSource for Counting {
        async fn limits(
            &self,
            _: &str,
        ) -> Result<PrincipalLimits, Box<dyn StdError + Send + Sync>> {
            let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
            if self.hangs.load(Ordering::Relaxed) {
                pending::<()>().await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            if self.fails.load(Ordering::Relaxed) {
                return Err(io::Error::other("down").into());
            }
            Ok(PrincipalLimits::default().with_bytes(asked))
        }
    }

    fn remembered() -> (Arc<Counting>, RememberedSource) {
        let source = Arc::<Counting>::default();
        (Arc::clone(&source), RememberedSource::new(source))
    }

    #[tokio::test(start_paused = true)]
    async fn answer_holds_for_ten_seconds() {
        let (_, remembered) = remembered();
        let bytes = async |principal| remembered.limits(principal).await.unwrap().bytes;
        assert_eq!(bytes("alice").await, Some(1));
        assert_eq!(bytes("bob").await, Some(2));
        tokio::time::advance(Duration::from_millis(8_900)).await;
        assert_eq!(
            bytes("alice").await,
            Some(1),
            "9.9 seconds after the answer"
        );
        tokio::time::advance(Duration::from_millis(200)).await;
        assert_eq!(bytes("bob").await, Some(2));
        assert_eq!(bytes("alice").await, Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_a_principal_share_one_question() {
        let (source, remembered) = remembered();
        let all = join_all((0..100).map(|_| remembered.limits("alice"))).await;
        assert!(all.iter().all(|it| it.as_ref().unwrap().bytes == Some(1)));
        assert_eq!(source.asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn failure_is_not_remembered() {
        let (source, remembered) = remembered();
        source.fails.store(true, Ordering::Relaxed);
        let refused = remembered.limits("alice").await;
        assert!(matches!(refused, Err(Error::QuotaUnknown)));
        source.fails.store(false, Ordering::Relaxed);
        remembered.limits("alice").await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn source_that_hangs_is_given_up_by_all_at_once() {
        let (source, remembered) = remembered();
        source.hangs.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        let all = join_all((0..100).map(|_| remembered.limits("alice"))).await;
        assert!(all.iter().all(Result::is_err));
        assert_eq!(begun.elapsed(), TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn number_of_remembered_answers_is_bounded() {
        let (source, remembered) = remembered();
        for n in 0..3 * MAX_CALLERS {
            let answer = (PrincipalLimits::default(), Instant::now());
            remembered.lock().insert(n.to_string(), answer);
            assert!(remembered.lock().len() <= MAX_CALLERS);
        }
        let last = (3 * MAX_CALLERS - 1).to_string();
        assert_eq!(
            remembered.limits(&last).await.unwrap(),
            PrincipalLimits::default()
        );
        assert_eq!(source.asked.load(Ordering::Relaxed), 0);
        remembered.limits("0").await.unwrap();
        assert_eq!(source.asked.load(Ordering::Relaxed), 1);
    }
}
