use super::*;

#[test]
fn start_without_framing_has_empty_metadata() {
    let head = start(&[]).expect("it starts a session");
    assert_eq!(head.length, BodyLength::Exact(0));
    assert_eq!((head.content_type, head.content_length), (None, None));
}

#[test]
fn declared_size_is_digits_or_absent() {
    let bad = || Err(invalid("X-Upload-Content-Length"));
    let table = [
        ("2000000", Ok((Some(2_000_000), Some(2_000_000)))),
        (" 5 ", Ok((Some(5), Some(5)))),
        ("0", Ok((Some(0), None))),
        ("", Ok((None, None))),
        ("-1", bad()),
        ("+1", bad()),
        ("1e6", bad()),
        ("1, 2", bad()),
        ("18446744073709551616", bad()),
    ];
    for (value, expected) in table {
        let head = start(&[("x-upload-content-length", value)]);
        let found = head.map(|head| (head.content_length, head.declared_total()));
        assert_eq!(found, expected, "{value:?}");
    }
}

#[test]
fn declared_media_type_is_type_subtype_or_absent() {
    let table = [
        ("image/jpeg", Ok(Some("image/jpeg".to_owned()))),
        ("", Ok(None)),
        ("jpeg", Err(invalid("X-Upload-Content-Type"))),
    ];
    for (value, expected) in table {
        assert_eq!(
            start(&[("x-upload-content-type", value)]).map(|head| head.content_type),
            expected,
            "{value:?}"
        );
    }
}

#[test]
fn content_type_of_metadata_is_ignored() {
    for value in [
        "application/json; charset=UTF-8",
        "text/plain",
        "nonsense",
        "",
    ] {
        let head = start(&[("content-length", "2"), ("content-type", value)]);
        assert_eq!(
            head.map(|head| head.length),
            Ok(BodyLength::Exact(2)),
            "{value:?}"
        );
    }
}

#[test]
fn data_sent_to_the_start_uri_is_refused() {
    let range = ("content-range", "bytes 0-1/2");
    let table: [(&[(&str, &str)], bool); 6] = [
        (
            &[
                range,
                ("content-length", "2"),
                ("content-type", "image/png"),
            ],
            false,
        ),
        (
            &[
                range,
                ("transfer-encoding", "chunked"),
                ("content-type", "image/png"),
            ],
            false,
        ),
        (
            &[
                range,
                ("content-length", "0"),
                ("content-type", "image/png"),
            ],
            true,
        ),
        (&[range, ("content-type", "image/png")], true),
        (
            &[
                range,
                ("content-length", "2"),
                ("content-type", "Application/JSON; charset=UTF-8"),
            ],
            true,
        ),
        (&[range, ("content-length", "2")], true),
    ];
    for (fields, accepted) in table {
        let found = start(fields).map(|_| ());
        assert_eq!(
            found,
            if accepted {
                Ok(())
            } else {
                Err(ProtocolError::DataOnStart)
            },
            "{fields:?}"
        );
    }
}
