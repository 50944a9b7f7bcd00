use bytes::Bytes;
use proptest::prelude::*;

use super::*;

mod at_length;
mod chunk;
mod explicit_end;
mod kinds;
mod life;
mod model;
mod query;
mod size_limit;
mod to_the_end;

const Q: u64 = CHUNK_GRANULARITY;

fn active(offset: u64, total: Option<u64>) -> Snapshot {
    Snapshot {
        state: State::Active,
        offset,
        total,
    }
}

fn request(range: &str, body: BodyLength) -> SessionRequest {
    SessionRequest {
        action: SessionAction::Ranged(ContentRange::parse(range.as_bytes()).map(Some)),
        body,
    }
}

fn unranged(body: BodyLength) -> SessionRequest {
    SessionRequest {
        action: SessionAction::Ranged(Ok(None)),
        body,
    }
}

/// Appends from an offset, and skips what is committed.
fn append_at(first: u64, end: End) -> SessionAction {
    SessionAction::AppendAt {
        first,
        overlap: Overlap::Skip,
        end,
        length: None,
    }
}

/// Steps with a range and a body of unknown length, so that only the header is checked.
fn ranged(snapshot: Snapshot, range: &str) -> Result<Step, SessionError> {
    step(
        &snapshot,
        &Rules::default(),
        &request(range, BodyLength::Unknown),
    )
}

#[track_caller]
fn filter(step: Result<Step, SessionError>) -> BodyFilter {
    match step {
        Ok(Step::Append(filter)) => filter,
        other => panic!("{other:?} takes no bytes"),
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("a body fits into memory")
}

/// Filters a body of `len` bytes. Returns the stored offsets and the result of the request.
fn send(mut filter: BodyFilter, len: u64) -> (u64, Result<Outcome, SessionError>) {
    let body = Bytes::from(vec![0; index(len)]);
    match filter.accept(body) {
        Ok(stored) => (stored.len() as u64, filter.end(Ending::Complete)),
        Err(error) => (0, Err(error)),
    }
}
