//! Odd messages, and how they are read.

use super::*;
use crate::gmail::mime::Malformed;

#[test]
fn bytes_without_header_are_refused() {
    assert_eq!(parse(b""), Err(Malformed::Empty));
    let cases: [&[u8]; 7] = [
        b"hello",
        b"\r\n\r\nFrom: a",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"\0\0\0\0",
        b"two words: x\n\nbody",
        b"From somebody Mon Jan 1\n\nbody",
        b" From: a\n\n",
    ];
    for raw in cases {
        assert_eq!(
            parse(raw),
            Err(Malformed::NoHeader),
            "{}",
            raw.escape_ascii()
        );
    }
}

#[test]
fn a_boundary_that_never_ends_ends_with_the_message() {
    let raw = "Content-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--b\n\ntwo\n";
    check_tree(
        raw,
        &[
            "- multipart/mixed parts 0",
            "0 text/plain inline 3",
            "1 text/plain inline 3",
        ],
    );
}

#[test]
fn an_inner_boundary_that_never_ends_ends_with_the_outer_one() {
    let raw = "Content-Type: multipart/mixed; boundary=b\n\n--b\n\
               Content-Type: multipart/mixed; boundary=c\n\n--c\n\none\n--b\n\ntwo\n--b--";
    check_tree(
        raw,
        &[
            "- multipart/mixed parts 0",
            "0 multipart/mixed parts 0",
            "0.0 text/plain inline 3",
            "1 text/plain inline 3",
        ],
    );
}

#[test]
fn missing_boundary_leaves_the_text() {
    for boundary in ["boundary=b", "boundary=", "boundary=\"\"", "x=y"] {
        let raw = format!("Content-Type: multipart/mixed; {boundary}\n\n--c\n--\nHi\n");
        check_tree(raw, &["- multipart/mixed inline 10"]);
    }
}

#[test]
fn a_boundary_takes_its_whole_line() {
    let raw = "Content-Type: multipart/mixed; boundary=b\n\n--b \t\n\nsee --b\n--bc\n--b-\n--b--x\n--b--\t\nlost";
    check_tree(
        raw,
        &["- multipart/mixed parts 0", "0 text/plain inline 24"],
    );
    check_data(raw, "0", "see --b\n--bc\n--b-\n--b--x");
}

#[test]
fn a_boundary_that_begins_like_the_outer_one_is_another() {
    let raw = "Content-Type: multipart/mixed; boundary=b\n\n--b\n\
               Content-Type: multipart/mixed; boundary=bb\n\n--bb\n\none\n--bb--\n--b\n\ntwo\n--b--";
    check_tree(
        raw,
        &[
            "- multipart/mixed parts 0",
            "0 multipart/mixed parts 0",
            "0.0 text/plain inline 3",
            "1 text/plain inline 3",
        ],
    );
}

#[test]
fn a_boundary_used_twice_loses_no_part() {
    let raw = "Content-Type: multipart/mixed; boundary=b\n\n--b\n\
               Content-Type: multipart/alternative; boundary=b\n\n--b\n\none\n--b--\n--b\n\ntwo\n--b--";
    check_tree(
        raw,
        &[
            "- multipart/mixed parts 0",
            "0 multipart/alternative parts 0",
            "0.0 text/plain inline 3",
            "1 text/plain inline 3",
        ],
    );
}

#[test]
fn a_boundary_with_a_colon_is_no_header_field() {
    let raw = "Content-Type: multipart/mixed; boundary=\"b:c\"\n\n--b:c\nA: b\n--b:c\n\n--b:c--";
    check_tree(
        raw,
        &[
            "- multipart/mixed parts 0",
            "0 text/plain inline 0",
            "1 text/plain inline 0",
        ],
    );
}

#[test]
fn a_multipart_is_not_encoded_whatever_it_says() {
    let raw = "Content-Type: multipart/mixed; boundary=b\nContent-Transfer-Encoding: base64\n\n--b\n\none\n--b--";
    check_tree(raw, &["- multipart/mixed parts 0", "0 text/plain inline 3"]);
    let raw = "Content-Type: multipart/mixed\nContent-Transfer-Encoding: base64\n\naGk=\n";
    check_data(raw, "", "aGk=\n");
}

#[test]
fn a_line_without_a_colon_begins_the_body() {
    check_data(
        "Subject: a\nthis is no header\nB: c\n\nd",
        "",
        "this is no header\nB: c\n\nd",
    );
}

#[test]
fn line_ends_may_be_mixed() {
    let raw = "From: a\nContent-Type: multipart/mixed;\r\n boundary=b\r\n\n--b\r\n\nx\n\r\n--b--\n";
    check_data(raw, "0", "x\n");
}

#[test]
fn nuls_and_control_characters_stay_out_of_headers_and_names() {
    let raw = "Subject: a\0b\nContent-Type: text/plain; name*=utf-8''a%00%0D%0Ab.txt\n\n\0";
    let message = check_tree(raw, &["- text/plain file 1 ab.txt"]);
    assert_eq!(message.header("subject"), Some("ab"));
}

#[test]
fn invalid_base64_is_decoded_up_to_the_error() {
    check_data(
        "Content-Transfer-Encoding: base64\n\naGVs*bG8\n",
        "",
        "hello",
    );
    check_data("Content-Transfer-Encoding: base64\n\n!!!\n", "", "");
}
