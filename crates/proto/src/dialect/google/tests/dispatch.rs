use super::*;

#[test]
fn upload_type_selects_the_command_without_an_upload_id() {
    for method in [Method::POST, Method::PUT, Method::PATCH] {
        let length = ("content-length", "5");
        let simple = read(&method, "uploadType=media", &[length]);
        assert!(matches!(simple, Ok(Command::Simple(_))), "{simple:?}");
        let multipart = read(
            &method,
            "uploadType=multipart",
            &[length, ("content-type", "multipart/related; boundary=b")],
        );
        assert!(
            matches!(multipart, Ok(Command::Multipart(_))),
            "{multipart:?}"
        );
        let start = read(&method, "uploadType=resumable", &[length]);
        assert!(matches!(start, Ok(Command::Start(_))), "{start:?}");
    }
}

#[test]
fn upload_id_addresses_a_session_whatever_the_upload_type() {
    for query in [
        "upload_id=u",
        "uploadType=media&upload_id=u",
        "uploadType=x&upload_id=u",
    ] {
        for method in [Method::PUT, Method::POST] {
            let command = read(&method, query, &[("content-length", "0")]);
            assert!(
                matches!(&command, Ok(Command::Session(head)) if head.upload_id.as_str() == "u"),
                "{command:?}"
            );
        }
        let command = read(&Method::DELETE, query, &[]);
        assert_eq!(
            command,
            Ok(Command::Cancel {
                upload_id: UploadId::from("u")
            })
        );
    }
}

#[test]
fn other_methods_are_refused_with_the_allowed_ones() {
    for method in [Method::GET, Method::HEAD, Method::DELETE, Method::OPTIONS] {
        let error = read(&method, "uploadType=media", &[]).expect_err("it is not allowed");
        assert_eq!(
            error.to_string(),
            "The request method is not allowed here; allowed are POST, PUT, PATCH."
        );
    }
    for method in [Method::GET, Method::HEAD, Method::PATCH] {
        let error = read(&method, "upload_id=u", &[]).expect_err("it is not allowed");
        assert_eq!(
            error,
            ProtocolError::MethodNotAllowed {
                allowed: SESSION_METHODS
            }
        );
    }
}

#[test]
fn without_an_upload_type_the_content_type_selects_the_command() {
    let length = ("content-length", "5");
    for content_type in [
        "multipart/related; boundary=b",
        "multipart/form-data; boundary=b",
    ] {
        let command = read(&Method::POST, "", &[length, ("content-type", content_type)]);
        assert!(matches!(command, Ok(Command::Multipart(_))), "{command:?}");
    }
    for content_type in [
        "image/png",
        "multipart/related",
        "multipart/mixed; boundary=b",
    ] {
        let command = read(&Method::POST, "", &[length, ("content-type", content_type)]);
        assert!(matches!(command, Ok(Command::Simple(_))), "{command:?}");
    }
    let untyped = read(&Method::POST, "alt=json", &[length]);
    assert!(matches!(untyped, Ok(Command::Simple(_))), "{untyped:?}");
}

#[test]
fn unknown_upload_type_is_refused() {
    let unknown = read(&Method::POST, "uploadType=x", &[("content-length", "5")]);
    assert_eq!(
        unknown,
        Err(UnknownUploadType {
            value: "x".to_owned()
        }
        .into())
    );
}

#[test]
fn post_with_method_override_stands_for_that_method() {
    let table = [
        (Method::POST, "PATCH", Ok(Method::PATCH)),
        (Method::POST, "put", Ok(Method::PUT)),
        (Method::POST, "", Ok(Method::POST)),
        (Method::PUT, "PATCH", Ok(Method::PUT)),
        (Method::GET, "DELETE", Ok(Method::GET)),
        (
            Method::POST,
            "not a method",
            Err(invalid("X-HTTP-Method-Override")),
        ),
    ];
    for (method, wanted, expected) in table {
        let found = effective_method(&method, &headers(&[("X-HTTP-Method-Override", wanted)]));
        assert_eq!(found, expected, "{method} {wanted:?}");
    }
    assert_eq!(
        effective_method(&Method::POST, &HeaderMap::new()),
        Ok(Method::POST)
    );
}

#[test]
fn post_overridden_as_delete_cancels_a_session() {
    let command = read(
        &Method::POST,
        "upload_id=u",
        &[("x-http-method-override", "DELETE")],
    );
    assert!(matches!(command, Ok(Command::Cancel { .. })), "{command:?}");
}
