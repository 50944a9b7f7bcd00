use super::*;

#[test]
fn boundary_is_bare_or_quoted() {
    let table = [
        ("multipart/related; boundary=abc", "abc"),
        ("multipart/related;boundary=abc", "abc"),
        ("Multipart/Related ; BOUNDARY=abc ; type=x", "abc"),
        (
            "multipart/related; type=\"application/json; boundary=no\"; boundary=\"a b;c=\"",
            "a b;c=",
        ),
        ("multipart/related; boundary=\"a\\\"b\\\\c\"", "a\"b\\c"),
        ("multipart/related; boundary='abc'", "abc"),
        ("multipart/related; boundary='abc", "'abc"),
        ("multipart/related; boundary=\"'abc'\"", "'abc'"),
        ("multipart/related; flag; boundary=abc", "abc"),
        ("multipart/related; boundary = abc", "abc"),
        ("multipart/related; boundary===42==", "==42=="),
        ("multipart/related; boundary=a; boundary=b", "a"),
    ];
    for (value, expected) in table {
        let found = Boundary::from_content_type(value.as_bytes());
        assert_eq!(
            found.as_ref().map(Boundary::as_str),
            Ok(expected),
            "{value:?}"
        );
    }
}

#[test]
fn missing_or_invalid_boundary_is_refused() {
    let too_long = format!(
        "multipart/related; boundary={}",
        "x".repeat(Boundary::MAX_LEN + 1)
    );
    for value in [
        "multipart/related",
        "multipart/related;",
        "multipart/related; type=x",
        "multipart/related; boundary",
        "multipart/related; boundary=",
        "multipart/related; boundary=\"\"",
        "multipart/related; boundary=''",
        "multipart/related; boundary=\"open",
        "multipart/related; boundary=\"open\\",
        "multipart/related; boundary=\"ends with space \"",
        "multipart/related; boundary=b\u{e9}",
        "multipart/related; boundary=\"a\nb\"",
        &too_long,
    ] {
        assert_eq!(
            Boundary::from_content_type(value.as_bytes()),
            Err(RelatedError::NoBoundary),
            "{value:?}"
        );
    }
}

#[test]
fn boundary_of_a_form_is_accepted() {
    let boundary = Boundary::from_content_type(b"Multipart/Form-Data; boundary=b");
    assert_eq!(boundary.unwrap().as_str(), "b");
}

#[test]
fn other_content_type_is_refused() {
    for value in [
        &b""[..],
        b"multipart/mixed; boundary=b",
        b"related",
        b"\xff",
    ] {
        assert_eq!(
            Boundary::from_content_type(value),
            Err(RelatedError::NotRelated),
            "{}",
            value.escape_ascii()
        );
    }
}

#[test]
fn longest_boundary_is_accepted() {
    let name = "x".repeat(Boundary::MAX_LEN);
    let body = format!(
        "--{name}\r\n\r\n{{}}\r\n--{name}\r\n\r\n\r\n--{}\r\n--{name}--",
        &name[1..]
    );
    let media = format!("\r\n--{}", &name[1..]);
    check(
        &format!("multipart/related; boundary={name}"),
        body.as_bytes(),
        "{}",
        None,
        media.as_bytes(),
    );
}
