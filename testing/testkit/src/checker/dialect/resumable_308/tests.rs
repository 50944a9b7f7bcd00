use super::*;

const MEDIA: Media = Media::new(1, 100);

fn answer(status: u16, headers: &[(&str, &str)]) -> Answer {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let reply = Reply {
        version: "HTTP/1.1".to_owned(),
        status,
        reason: String::new(),
        headers: headers.iter().map(own).collect(),
        body: b"{}".to_vec(),
    };
    Resumable308::at("/files").answer(&reply, MEDIA)
}

#[test]
fn a_start_names_the_upload_and_a_final_reply_does_not() {
    let started = Answer::Started("/files?upload_id=a1".to_owned());
    for scheme in ["http:", ""] {
        let location = format!("{scheme}//farm.example/files?upload_id=a1");
        assert_eq!(answer(201, &[("Location", &location)]), started);
        assert_eq!(answer(200, &[("Location", &location)]), started);
    }
    assert_eq!(answer(200, &[]), Answer::Finished(Vec::new()));
}

#[test]
fn a_range_is_what_is_committed_even_when_that_is_nothing() {
    let range = |range| answer(308, &[("Range", range)]);
    assert_eq!(range("bytes=0-41"), Answer::Committed(42));
    assert_eq!(range("bytes=0-0"), Answer::Committed(1));
    assert_eq!(range("bytes=0--1"), Answer::Committed(0));
    assert_eq!(answer(308, &[]), Answer::Committed(0));
    for strange in ["bytes=1-2", "bytes=0-NaN", "bytes=0--2"] {
        assert!(matches!(range(strange), Answer::Strange(_)), "{strange}");
    }
}

#[test]
fn a_deletion_is_told_from_an_unknown_upload() {
    assert_eq!(answer(204, &[]), Answer::Cancelled);
    assert_eq!(answer(404, &[]), Answer::Unknown);
    assert_eq!(answer(410, &[]), Answer::Unknown);
}

#[test]
fn conflicts_and_refusals_say_nothing() {
    for status in [409, 500, 503] {
        assert_eq!(answer(status, &[]), Answer::NotNow(status));
    }
    assert!(matches!(answer(403, &[]), Answer::Strange(_)));
}

#[test]
fn an_append_of_nothing_repeats_the_last_byte() {
    let wire = |range: Range<u64>| {
        let request = Resumable308::at("/files").append("/files?upload_id=a1", MEDIA, range);
        let head = String::from_utf8(request.head_bytes()).unwrap();
        (head, request.to_bytes())
    };
    let (head, all) = wire(40..60);
    assert!(
        head.contains("Content-Range: bytes 40-59/100\r\n"),
        "{head}"
    );
    assert!(all.ends_with(&MEDIA.bytes(40..60)));
    let (head, all) = wire(100..100);
    assert!(
        head.contains("Content-Range: bytes 99-99/100\r\n"),
        "{head}"
    );
    assert!(all.ends_with(&MEDIA.bytes(99..100)));
}
