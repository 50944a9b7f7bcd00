use super::*;

const MEDIA: Media = Media::new(1, 100);

fn reply(status: u16, headers: &[(&str, &str)]) -> Reply {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Reply {
        status,
        headers: headers.iter().map(own).collect(),
        ..Reply::default()
    }
}

/// The target that a reply with these headers starts.
fn started(status: u16, headers: &[(&str, &str)]) -> String {
    match FarmDialects.answer(&reply(status, headers), MEDIA) {
        Answer::Started(target) => target,
        other => panic!("not started: {other:?}"),
    }
}

#[test]
fn names_of_uploads_choose_each_dialect() {
    let names = (0..4).map(|number| format!("client 0, upload {number}"));
    let names: Vec<_> = names.map(|name| of_name(&name).name()).collect();
    for name in ["Google", "X-Goog-Upload", "tus 1.0", "IETF draft"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
}

#[test]
fn session_stays_in_the_dialect_of_the_reply_that_started_it() {
    let location = ("Location", "http://farm.example/u?upload_id=1");
    let google = started(200, &[location]);
    let x_goog = started(
        200,
        &[
            ("X-Goog-Upload-Status", "active"),
            ("X-Goog-Upload-URL", location.1),
        ],
    );
    let tus = started(201, &[location, ("Tus-Resumable", "1.0.0")]);
    let version = ("Upload-Draft-Interop-Version", "10");
    let ietf = started(201, &[location, version, ("Upload-Complete", "?0")]);
    for (target, head, may_overlap) in [
        (google, "PUT /u?upload_id=1 HTTP/1.1\r\n", true),
        (x_goog, "POST /u?upload_id=1 HTTP/1.1\r\n", true),
        (tus, "PATCH /u?upload_id=1 HTTP/1.1\r\n", false),
        (ietf, "PATCH /u?upload_id=1 HTTP/1.1\r\n", false),
    ] {
        let append = FarmDialects.append(&target, MEDIA, 0..50).head_bytes();
        assert!(append.starts_with(head.as_bytes()), "{target}");
        assert_eq!(FarmDialects.may_overlap(&target), may_overlap, "{target}");
    }
}

#[test]
fn parts_of_every_other_media_state_their_digests() {
    for (length, is_digested) in [(100, true), (101, false)] {
        let media = Media::new(1, length);
        for (mark, name) in [(TUS_MARK, "Upload-Checksum"), (IETF_MARK, "Content-Digest")] {
            let append = FarmDialects.append(&format!("{mark}/u"), media, 0..50);
            let head = String::from_utf8(append.head_bytes()).unwrap();
            let digest = media.sha256_of(0..50);
            let stated = head.contains(name) && head.contains(&digest);
            assert_eq!(stated, is_digested, "{head}");
        }
    }
}
