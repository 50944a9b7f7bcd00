use super::*;

const LIMITED: Rules = Rules {
    kind: UploadKind::Whole,
    chunks: ChunkRule::Strict,
    max_size: Some(10),
};
const TOO_LARGE: SessionError = SessionError::TooLarge { limit: 10 };

#[test]
fn size_stated_above_the_limit_is_refused_before_the_body() {
    for (range, body) in [
        ("bytes 0-10/11", BodyLength::Exact(11)),
        ("bytes 0-262143/*", BodyLength::Unknown),
        ("bytes 0-0/11", BodyLength::Exact(1)),
        ("bytes 0-*/11", BodyLength::Unknown),
        ("bytes 0-*/*", BodyLength::Exact(11)),
    ] {
        assert_eq!(
            step(&active(0, None), &LIMITED, &request(range, body)),
            Err(TOO_LARGE),
            "{range}"
        );
    }
    assert!(TOO_LARGE.ends_session());
}

#[test]
fn media_that_exceeds_the_limit_is_refused_at_that_byte() {
    let mut filter = filter(step(
        &active(0, None),
        &LIMITED,
        &unranged(BodyLength::Unknown),
    ));
    assert_eq!(
        filter
            .accept(Bytes::from_static(b"0123456789"))
            .map(|stored| stored.len()),
        Ok(10)
    );
    assert_eq!(filter.accept(Bytes::from_static(b"x")), Err(TOO_LARGE));
}

#[test]
fn media_as_large_as_the_limit_is_accepted() {
    let filter = filter(step(
        &active(0, None),
        &LIMITED,
        &request("bytes 0-9/10", BodyLength::Exact(10)),
    ));
    assert_eq!(send(filter, 10), (10, Ok(Outcome::Finished { total: 10 })));
}

#[test]
fn single_request_body_is_the_whole_media_within_the_limit() {
    for length in [BodyLength::Exact(10), BodyLength::Unknown] {
        let filter = BodyFilter::single_request(Some(10), length).expect("it fits");
        assert_eq!(send(filter, 10), (10, Ok(Outcome::Finished { total: 10 })));
    }
    assert_eq!(
        BodyFilter::single_request(Some(10), BodyLength::Exact(11)),
        Err(TOO_LARGE)
    );
    let unknown = BodyFilter::single_request(Some(10), BodyLength::Unknown).expect("it may fit");
    assert_eq!(send(unknown, 11), (0, Err(TOO_LARGE)));
}
