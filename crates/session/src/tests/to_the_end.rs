use super::*;

#[test]
fn body_to_the_end_finishes_when_it_ends() {
    for (snapshot, range, len, stored) in [
        (active(0, None), "bytes 0-*/*", 0, 0),
        (active(0, None), "bytes 0-*/*", 10, 10),
        (active(4, None), "bytes 4-*/10", 6, 6),
        (active(4, Some(10)), "bytes 0-*/*", 10, 6),
        (active(10, None), "bytes 10-*/10", 0, 0),
    ] {
        for body in [BodyLength::Exact(len), BodyLength::Unknown] {
            let filter = filter(step(&snapshot, &Rules::default(), &request(range, body)));
            let total = snapshot.offset + stored;
            assert_eq!(
                send(filter, len),
                (stored, Ok(Outcome::Finished { total })),
                "{range} with {body:?}"
            );
        }
    }
}

#[test]
fn broken_body_to_the_end_does_not_finish() {
    let mut filter = filter(ranged(active(0, None), "bytes 0-*/*"));
    filter.accept(Bytes::from_static(b"abc")).expect("it fits");
    assert_eq!(filter.end(Ending::Broken), Ok(Outcome::Interrupted));
}

#[test]
fn body_without_range_is_the_whole_media() {
    for body in [BodyLength::Exact(10), BodyLength::Unknown] {
        for (offset, total) in [(0, None), (0, Some(10)), (7, None), (7, Some(10))] {
            let filter = filter(step(
                &active(offset, total),
                &Rules::default(),
                &unranged(body),
            ));
            assert_eq!(
                send(filter, 10),
                (10 - offset, Ok(Outcome::Finished { total: 10 }))
            );
        }
    }
}

#[test]
fn empty_body_without_range_is_empty_media() {
    for body in [BodyLength::Exact(0), BodyLength::Unknown] {
        let filter = filter(step(&active(0, None), &Rules::default(), &unranged(body)));
        assert_eq!(send(filter, 0), (0, Ok(Outcome::Finished { total: 0 })));
    }
}

#[test]
fn empty_body_without_range_does_not_truncate() {
    let declared = SessionError::LengthDisagrees {
        body: 0,
        expected: 10,
        first: 0,
    };
    let committed = SessionError::EndsBeforeCommitted {
        total: 0,
        committed: 5,
    };
    for (snapshot, expected) in [
        (active(0, Some(10)), declared),
        (active(5, Some(10)), declared),
        (active(5, None), committed),
    ] {
        let known = step(
            &snapshot,
            &Rules::default(),
            &unranged(BodyLength::Exact(0)),
        );
        assert_eq!(known, Err(expected), "{snapshot:?}");
        let unknown = filter(step(
            &snapshot,
            &Rules::default(),
            &unranged(BodyLength::Unknown),
        ));
        assert_eq!(send(unknown, 0), (0, Err(expected)), "{snapshot:?}");
        assert!(!expected.ends_session());
    }
}

#[test]
fn body_longer_or_shorter_than_declared_is_refused() {
    for (len, stored) in [(9, 9), (11, 0)] {
        let error = SessionError::LengthDisagrees {
            body: len,
            expected: 10,
            first: 0,
        };
        let known = step(
            &active(0, Some(10)),
            &Rules::default(),
            &request("bytes 0-*/*", BodyLength::Exact(len)),
        );
        assert_eq!(known, Err(error));
        assert_eq!(
            send(filter(ranged(active(0, Some(10)), "bytes 0-*/*")), len),
            (stored, Err(error))
        );
    }
}

#[test]
fn length_over_64_bits_is_refused() {
    let range = format!("bytes {}-*/*", u64::MAX - 1);
    let found = step(
        &active(u64::MAX - 1, None),
        &Rules::default(),
        &request(&range, BodyLength::Exact(2)),
    );
    assert_eq!(found, Err(ContentRangeError::Overflow.into()));
}
