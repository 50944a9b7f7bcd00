use super::*;

const MEDIA: Media = Media::new(1, 100);

fn answer(status: u16, headers: &[(&str, &str)]) -> Answer {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let reply = Reply {
        version: "HTTP/1.1".to_owned(),
        status,
        reason: String::new(),
        headers: headers.iter().map(own).collect(),
        body: Vec::new(),
    };
    Tus::at("/files").answer(&reply, MEDIA)
}

#[test]
fn a_creation_names_the_upload() {
    let location = [("Location", "http://farm.example/files/a1")];
    assert_eq!(
        answer(201, &location),
        Answer::Started("/files/a1".to_owned())
    );
    assert!(matches!(answer(201, &[]), Answer::Strange(_)));
}

#[test]
fn an_offset_is_what_is_committed_until_it_is_the_length() {
    for status in [200, 204] {
        let at = |offset| answer(status, &[("Upload-Offset", offset)]);
        assert_eq!(at("0"), Answer::Committed(0));
        assert_eq!(at("99"), Answer::Committed(99));
        assert_eq!(at("100"), Answer::Finished(Vec::new()));
        // The rules say that this is more than was sent.
        assert_eq!(at("101"), Answer::Committed(101));
    }
}

#[test]
fn a_termination_has_no_offset() {
    assert_eq!(answer(204, &[]), Answer::Cancelled);
    assert_eq!(answer(404, &[]), Answer::Unknown);
    assert_eq!(answer(410, &[]), Answer::Unknown);
}

#[test]
fn conflicts_and_refusals_say_nothing() {
    for status in [409, 423, 500, 503] {
        assert_eq!(answer(status, &[]), Answer::NotNow(status));
    }
    assert!(matches!(answer(200, &[]), Answer::Strange(_)));
    assert!(matches!(answer(412, &[]), Answer::Strange(_)));
}

#[test]
fn requests_say_length_offset_and_version() {
    let tus = Tus::at("/files");
    let head = |request: Request| String::from_utf8(request.head_bytes()).unwrap();
    let start = head(tus.start("a b", MEDIA));
    assert!(start.starts_with("POST /files HTTP/1.1\r\n"), "{start}");
    assert!(start.contains("\r\nUpload-Length: 100\r\n"), "{start}");
    assert!(start.contains("filename YSBi,filetype "), "{start}");
    let append = tus.append("/files/a1", MEDIA, 40..60);
    assert!(append.to_bytes().ends_with(&MEDIA.bytes(40..60)));
    let append = head(append);
    assert!(append.contains("\r\nUpload-Offset: 40\r\n"), "{append}");
    assert!(append.contains("\r\nTus-Resumable: 1.0.0\r\n"), "{append}");
}
