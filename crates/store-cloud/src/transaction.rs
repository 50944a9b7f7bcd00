//! Statements, and the transactions that run them.
//!
//! A change takes two or three round trips. The first ones lock and read rows; the last one sends
//! all writes together with the `COMMIT`. What is decided in between is plain code
//! ([`Change::make`]).

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use deadpool::managed::{Object, Pool, Timeouts};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};
use windlass_store::LedgerError;
use windlass_store::recorder::StoreRecorder;

use crate::connection::Connector;
use crate::failure::{Answered, CommittedWithWarning, Failure, Refusal};
use crate::sql;

/// A statement with its parameters.
pub(crate) struct Statement<'a> {
    sql: &'static str,
    params: Vec<(Box<dyn ToSql + Sync + Send + 'a>, Type)>,
    /// What it means if the statement violates a unique index or its guard.
    refusal: Option<Refusal>,
}

impl fmt::Debug for Statement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Statement").field(&self.sql).finish()
    }
}

impl<'a> Statement<'a> {
    pub(crate) fn new(sql: &'static str) -> Self {
        Self {
            sql,
            params: Vec::new(),
            refusal: None,
        }
    }

    /// Adds the next parameter.
    pub(crate) fn with(mut self, value: impl ToSql + Sync + Send + 'a, of: Type) -> Self {
        self.params.push((Box::new(value), of));
        self
    }

    /// Says what it means if the statement violates a unique index or its guard.
    pub(crate) fn or(mut self, refusal: Refusal) -> Self {
        self.refusal = Some(refusal);
        self
    }

    /// Returns what an error of the statement means.
    fn failure(&self, error: Error, answered: Answered) -> Failure {
        let is_refused = error.code().is_some_and(|code| {
            [SqlState::UNIQUE_VIOLATION, SqlState::DIVISION_BY_ZERO].contains(code)
        });
        match self.refusal {
            Some(refusal) if is_refused => refusal.into(),
            _ => Failure::of(error, answered),
        }
    }
}

/// A change, which may be made more than once until it succeeds.
pub(crate) trait Change: Sync {
    /// What the caller wants to know of the change.
    type Made: Send;

    /// Returns the number of changes that are made together.
    fn len(&self) -> usize {
        1
    }

    /// Makes the change in a transaction and commits it, or refuses it.
    fn make(
        &self,
        transaction: &mut Transaction,
    ) -> impl Future<Output = Result<Self::Made, Failure>> + Send;
}

/// The database.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) pool: Pool<Connector>,
    pub(crate) patience: Duration,
    pub(crate) recorder: Arc<dyn StoreRecorder>,
}

/// How often a change is made that loses to others.
const ATTEMPTS: u32 = 6;

/// The longest pause before the second attempt. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

impl Database {
    /// Makes a change. If nothing has changed because another transaction came first, or because a
    /// connection was lost before its `COMMIT` was sent, it is made again.
    pub(crate) async fn make<C: Change>(&self, change: &C) -> Result<C::Made, LedgerError> {
        Ok(self.try_to_make(change).await?)
    }

    /// As [`Database::make`], with the failure as it is.
    pub(crate) async fn try_to_make<C: Change>(&self, change: &C) -> Result<C::Made, Failure> {
        let mut attempt = 0;
        loop {
            let began = Instant::now();
            match self.attempt(change).await {
                Err(Failure::Again(_)) if attempt + 1 < ATTEMPTS => {
                    tokio::time::sleep(pause(attempt)).await;
                    attempt += 1;
                }
                Ok(made) => {
                    self.recorder.committed(began.elapsed(), change.len());
                    return Ok(made);
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    async fn attempt<C: Change>(&self, change: &C) -> Result<C::Made, Failure> {
        let mut transaction = self.begin().await?;
        let made = change.make(&mut transaction).await;
        transaction.end().await;
        made
    }

    /// Begins a transaction. Nothing is sent before its first statement.
    pub(crate) async fn begin(&self) -> Result<Transaction, Failure> {
        Ok(Transaction {
            connection: Some(self.connection().await?),
            patience: self.patience,
            state: State::NotBegun,
        })
    }

    /// Runs one statement that changes nothing.
    pub(crate) async fn read(&self, statement: Statement<'_>) -> Result<Vec<Row>, Failure> {
        match self.run(&statement, Answered::Statement).await {
            // The connection had been lost without notice.
            Err(Failure::Again(_)) => self.run(&statement, Answered::Statement).await,
            read => read,
        }
    }

    /// Runs one statement that changes something and commits it.
    pub(crate) async fn change(&self, statement: Statement<'_>) -> Result<Vec<Row>, Failure> {
        let mut attempt = 0;
        loop {
            match self.run(&statement, Answered::Commit).await {
                Err(Failure::Again(_)) if attempt + 1 < ATTEMPTS => {
                    tokio::time::sleep(pause(attempt)).await;
                    attempt += 1;
                }
                made => return made,
            }
        }
    }

    async fn run(
        &self,
        statement: &Statement<'_>,
        answered: Answered,
    ) -> Result<Vec<Row>, Failure> {
        let mut transaction = self.begin().await?;
        let statements = std::slice::from_ref(statement);
        let mut rows = transaction.run(Framing::None, statements, answered).await?;
        transaction.end().await;
        Ok(rows.pop().unwrap_or_default())
    }

    async fn connection(&self) -> Result<Object<Connector>, Failure> {
        let timeouts = Timeouts {
            wait: Some(self.patience),
            create: Some(self.patience),
            recycle: Some(self.patience),
        };
        let connection = self.pool.timeout_get(&timeouts).await;
        connection.map_err(|error| Failure::Unavailable(Arc::new(error)))
    }
}

/// Returns a random pause, so that two transactions that stand in each other's way do not meet
/// again.
fn pause(attempt: u32) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(1 << attempt.min(8));
    let random = getrandom::u32().unwrap_or(u32::MAX);
    longest.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// A transaction on a connection of its own.
///
/// A transaction that is dropped before it has ended closes its connection: a statement or a
/// `COMMIT` may still be on its way.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// `None` once it was closed or returned.
    connection: Option<Object<Connector>>,
    patience: Duration,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The connection is as the pool has given it.
    NotBegun,
    /// Rows may be locked.
    Begun,
    /// Statements are on their way.
    Running,
}

/// What is sent before and after the statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    None,
    Begin(&'static str),
    BeginAndCommit(&'static str),
    Commit,
}

impl Framing {
    fn begin(self) -> Option<&'static str> {
        match self {
            Self::Begin(begin) | Self::BeginAndCommit(begin) => Some(begin),
            Self::None | Self::Commit => None,
        }
    }

    fn commits(self) -> bool {
        matches!(self, Self::BeginAndCommit(_) | Self::Commit)
    }
}

impl Transaction {
    /// Runs statements that lock and read rows. Returns the rows of each.
    pub(crate) async fn read(
        &mut self,
        statements: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>, Failure> {
        let framing = match self.state {
            State::NotBegun => Framing::Begin(sql::BEGIN),
            State::Begun | State::Running => Framing::None,
        };
        self.run(framing, statements, Answered::Statement).await
    }

    /// Runs statements that change rows, and commits. Returns the rows of each.
    pub(crate) async fn commit(
        &mut self,
        statements: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>, Failure> {
        let framing = match self.state {
            State::NotBegun => Framing::BeginAndCommit(sql::BEGIN),
            State::Begun | State::Running => Framing::Commit,
        };
        self.run(framing, statements, Answered::BeforeCommit).await
    }

    /// Rolls back what was not committed, and returns the connection to the pool.
    async fn end(mut self) {
        if self.state == State::Begun
            && let Some(connection) = &self.connection
        {
            let rollback = connection.client.batch_execute("ROLLBACK");
            let ended = tokio::time::timeout(self.patience, rollback).await;
            if !matches!(ended, Ok(Ok(()))) {
                return;
            }
            self.state = State::NotBegun;
        }
    }

    async fn run(
        &mut self,
        framing: Framing,
        statements: &[Statement<'_>],
        answered: Answered,
    ) -> Result<Vec<Vec<Row>>, Failure> {
        let connection = self.connection.as_ref();
        let connection = connection.expect("it has one until it is dropped");
        drop(connection.take_warning());
        let before = std::mem::replace(&mut self.state, State::Running);
        if connection.client.is_closed() {
            // Nothing has been sent.
            return Err(Failure::of_lost_connection());
        }
        let answers = pipeline(&connection.client, framing, statements, answered);
        let Ok(answers) = tokio::time::timeout(self.patience, answers).await else {
            return Err(Failure::timed_out(answered));
        };
        let warning = connection.take_warning();
        let mut rows = Vec::with_capacity(statements.len());
        let mut failed = None;
        for (answer, part) in answers {
            match (answer, part) {
                (Ok(of_statement), Part::Statement(_)) => rows.push(of_statement),
                (Ok(_), Part::Frame(_)) => {}
                // The errors after the first one are consequences.
                (Err(error), _) if failed.is_some() => drop(error),
                (Err(error), part) => failed = Some((error, part)),
            }
        }
        if let Some((error, part)) = failed {
            if Failure::leaves_connection(&error) {
                // A transaction that has failed is rolled back by its `COMMIT`, too.
                let is_open = !framing.commits() && framing != Framing::None
                    || framing == Framing::None && before == State::Begun;
                self.state = if is_open {
                    State::Begun
                } else {
                    State::NotBegun
                };
            }
            return Err(match part {
                Part::Statement(statement) => statement.failure(error, answered),
                Part::Frame(of_frame) => Failure::of(error, of_frame),
            });
        }
        self.state = match framing {
            Framing::None => before,
            Framing::Begin(_) => State::Begun,
            Framing::Commit | Framing::BeginAndCommit(_) => State::NotBegun,
        };
        match warning {
            Some(warning) if answered != Answered::Statement => {
                Err(Failure::Unknown(Arc::new(CommittedWithWarning(warning))))
            }
            _ => Ok(rows),
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.state != State::NotBegun
            && let Some(connection) = self.connection.take()
        {
            drop(Object::take(connection));
        }
    }
}

/// What an answer is for.
#[derive(Debug, Clone, Copy)]
enum Part<'a, 'b> {
    /// `BEGIN` or `COMMIT`.
    Frame(Answered),
    Statement(&'a Statement<'b>),
}

type Answer = Result<Vec<Row>, Error>;

/// Sends all statements at once, and waits for all answers.
async fn pipeline<'a, 'b>(
    client: &Client,
    framing: Framing,
    statements: &'a [Statement<'b>],
    answered: Answered,
) -> Vec<(Answer, Part<'a, 'b>)> {
    let params: Vec<Vec<(&(dyn ToSql + Sync), Type)>> = statements
        .iter()
        .map(|statement| {
            let params = statement.params.iter();
            params
                .map(|(value, of)| (&**value as &(dyn ToSql + Sync), of.clone()))
                .collect()
        })
        .collect();
    let frame = async |sql: &'static str| client.batch_execute(sql).await.map(|()| Vec::new());
    let mut parts: Vec<Part<'a, 'b>> = Vec::with_capacity(statements.len() + 2);
    let mut futures: Vec<Pin<Box<dyn Future<Output = Answer> + Send + '_>>> = Vec::new();
    if let Some(begin) = framing.begin() {
        futures.push(Box::pin(frame(begin)));
        parts.push(Part::Frame(answered));
    }
    for (statement, params) in statements.iter().zip(&params) {
        futures.push(Box::pin(client.query_typed(statement.sql, params)));
        parts.push(Part::Statement(statement));
    }
    if framing.commits() {
        futures.push(Box::pin(frame("COMMIT")));
        parts.push(Part::Frame(match answered {
            Answered::Statement => Answered::Statement,
            Answered::BeforeCommit | Answered::Commit => Answered::Commit,
        }));
    }
    let mut answers: Vec<Option<Answer>> = futures.iter().map(|_| None).collect();
    // A future sends its statement when it is polled first, so the statements are sent in order.
    poll_fn(|context| {
        let mut is_done = true;
        for (future, answer) in futures.iter_mut().zip(&mut answers) {
            if answer.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(ready) => *answer = Some(ready),
                    Poll::Pending => is_done = false,
                }
            }
        }
        if is_done {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    let answers = answers.into_iter().flatten();
    answers.zip(parts).collect()
}
