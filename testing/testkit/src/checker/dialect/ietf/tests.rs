use super::*;

const MEDIA: Media = Media::new(1, 100);

fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let reply = Reply {
        status,
        headers: headers.iter().map(own).collect(),
        body: body.into(),
        ..Reply::default()
    };
    Ietf::farm().answer(&reply, MEDIA)
}

#[test]
fn interim_replies_name_the_upload_and_acknowledge_bytes() {
    let started = Answer::Started("/u?upload_id=1".to_owned());
    let location = ("Location", "http://farm.example/u?upload_id=1");
    assert_eq!(answer(104, &[location], ""), started);
    assert_eq!(
        answer(201, &[location, ("Upload-Complete", "?0")], ""),
        started
    );
    let progress = [("Upload-Offset", "7")];
    assert_eq!(answer(104, &progress, ""), Answer::Committed(7));
}

#[test]
fn flag_tells_whether_the_upload_is_finished() {
    let state = |flag| {
        answer(
            204,
            &[("Upload-Complete", flag), ("Upload-Offset", "100")],
            "",
        )
    };
    assert_eq!(state("?0"), Answer::Committed(100));
    assert_eq!(state("?1"), Answer::Finished(Vec::new()));
    let body = r#"{"size":"100"}"#;
    let last = answer(201, &[("Upload-Complete", "?1")], body);
    assert_eq!(last, Answer::Finished(body.into()));
    let other = answer(201, &[("Upload-Complete", "?1")], r#"{"size":"99"}"#);
    assert!(matches!(other, Answer::Strange(_)));
}

#[test]
fn refusals_say_nothing_of_the_upload() {
    assert_eq!(answer(204, &[], ""), Answer::Cancelled);
    for status in [404, 410] {
        assert_eq!(answer(status, &[], ""), Answer::Unknown);
    }
    let conflict = [("Upload-Complete", "?0"), ("Upload-Offset", "7")];
    assert_eq!(answer(409, &conflict, ""), Answer::NotNow(409));
    assert_eq!(answer(503, &[], ""), Answer::NotNow(503));
    assert!(matches!(answer(400, &[], ""), Answer::Strange(_)));
}
