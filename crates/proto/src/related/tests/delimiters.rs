use super::*;

fn body(media: &[u8]) -> Vec<u8> {
    [b"--b\r\n\r\n{}\r\n--b\r\n\r\n", media, b"\r\n--b--"].concat()
}

#[track_caller]
fn media(media: &[u8]) {
    check(
        "multipart/related; boundary=b",
        &body(media),
        "{}",
        None,
        media,
    );
}

#[test]
fn text_resembling_a_delimiter_is_media() {
    media(TRICKY);
    media(b"--bb");
    media(b"x--b\r\n");
    media(b"\r\n");
    media(b"\r");
    media(b"\n");
    media(b"");
    media(b"\r\n--b\x0b\r\n");
}

#[test]
fn carriage_return_before_a_bare_line_feed_is_media() {
    for media in [
        &b"media\r"[..],
        b"\r",
        b"media\r\r",
        b"a\r\n--bb\r",
        b"\r\n",
    ] {
        let body = [b"--b\n\n{}\n--b\n\n", media, b"\n--b--"].concat();
        check("multipart/related; boundary=b", &body, "{}", None, media);
    }
}

#[test]
fn white_space_after_a_delimiter_is_padding() {
    let body = b"--b \t \r\n\r\n{}\r\n--b\t\r\n\r\nmedia\r\n--b-- \t\r\n";
    check("multipart/related; boundary=b", body, "{}", None, b"media");
}

#[test]
fn padding_over_the_limit_is_media() {
    media(format!("\r\n--b{}\r\n", " ".repeat(1000)).as_bytes());
}

#[test]
fn preamble_and_epilogue_are_ignored() {
    let body = b"This is a multipart\r\n --b\r\n--bb\r\n--b\r\n\r\n{}\r\n--b\r\n\r\nmedia\r\n--b--\r\nThe end\r\n--b\r\n";
    check("multipart/related; boundary=b", body, "{}", None, b"media");
}

#[test]
fn folded_headers_are_unfolded() {
    let body = b"--b\n\n{}\n--b\nContent-Type: text/plain;\n charset=utf-8\nX: y\n\nmedia\n--b--";
    check(
        "multipart/related; boundary=b",
        body,
        "{}",
        Some("text/plain; charset=utf-8"),
        b"media",
    );
}

#[test]
fn part_without_an_empty_line_has_no_content() {
    for body in [
        &b"--b\r\n--b\r\nContent-Type: text/plain\r\n--b--"[..],
        b"--b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\n--b--",
        b"--b\n--b\nContent-Type: text/plain\n--b--",
    ] {
        check(
            "multipart/related; boundary=b",
            body,
            "",
            Some("text/plain"),
            b"",
        );
    }
}

#[test]
fn media_is_not_copied() {
    let boundary = boundary("multipart/related; boundary=b");
    let data = Bytes::from(body(b"a long stretch of media"));
    let mut pieces = Vec::new();
    splitter(&boundary)
        .push(data.clone(), &mut pieces)
        .expect("it is well formed");
    let Piece::Media(media) = &pieces[2] else {
        panic!("{pieces:?}")
    };
    assert!(data.as_ptr_range().contains(&media.as_ptr()));
    assert_eq!(media, "a long stretch of media");
}

#[test]
fn only_a_possible_delimiter_is_buffered() {
    let boundary = boundary("multipart/related; boundary=b");
    let mut splitter = splitter(&boundary);
    let mut pieces = Vec::new();
    splitter
        .push(
            Bytes::from("--b\r\n\r\n{}\r\n--b\r\n\r\nmedia\r\n--b "),
            &mut pieces,
        )
        .expect("it is well formed so far");
    assert_eq!(pieces.last(), Some(&Piece::Media(Bytes::from("media"))));
}
