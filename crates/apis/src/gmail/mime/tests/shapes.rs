//! The shapes that mail comes in.

use super::*;

const MIXED: &str = "From: a\r\nContent-Type: multipart/mixed; boundary=out\r\n\r\npreamble\r\n";

#[test]
fn a_message_without_parts_is_its_root() {
    check_tree("From: a\r\n\r\nHello\r\n", &["- text/plain inline 7"]);
    check_tree("From: a\r\n\r\n", &["- text/plain inline 0"]);
    check_tree("From: a", &["- text/plain inline 0"]);
    let pdf = "From: a\nContent-Type: application/pdf; name=x.pdf\nContent-Transfer-Encoding: base64\n\naGk=\n";
    check_tree(pdf, &["- application/pdf file 2 x.pdf"]);
}

#[test]
fn parts_are_numbered_as_gmail_does() {
    let raw = format!(
        "{MIXED}--out\r\nContent-Type: multipart/alternative; boundary=\"in\"\r\n\r\n\
         --in\r\n\r\nplain\r\n--in\r\nContent-Type: text/html\r\n\r\n<p>html</p>\r\n--in--\r\n\
         --out\r\nContent-Type: image/png\r\nContent-Disposition: attachment; filename=a.png\r\n\r\n1\r\n\
         --out--\r\nepilogue\r\n"
    );
    let expected = [
        "- multipart/mixed parts 0",
        "0 multipart/alternative parts 0",
        "0.0 text/plain inline 5",
        "0.1 text/html inline 11",
        "1 image/png file 1 a.png",
    ];
    check_tree(&raw, &expected);
    check_tree(raw.replace("\r\n", "\n"), &expected);
    check_data(&raw, "0.0", "plain");
    check_data(&raw, "0.1", "<p>html</p>");
}

#[test]
fn the_line_end_before_a_delimiter_is_no_part_of_the_body() {
    let body = |end: &str| format!("{MIXED}--out\r\n\r\na{end}--out--");
    check_data(body("\r\n"), "0", "a");
    check_data(body("\n"), "0", "a");
    check_data(body("\r\n\r\n"), "0", "a\r\n");
    check_data(body("\n\r\n"), "0", "a\n");
}

#[test]
fn parts_may_be_empty() {
    let expected = [
        "- multipart/mixed parts 0",
        "0 text/plain inline 0",
        "1 text/html inline 0",
        "2 text/plain inline 0",
        "3 text/plain inline 0",
    ];
    let raw = format!("{MIXED}--out\n\n--out\nContent-Type: text/html\n--out\n--out\n\n\n--out--");
    check_tree(raw, &expected);
}

#[test]
fn an_attached_message_has_its_root_as_its_child() {
    let attached = "Content-Type: message/rfc822\r\n\r\nSubject: inner\r\n\
                    Content-Type: multipart/mixed; boundary=in\r\n\r\n--in\r\n\r\nx\r\n--in--\r\n";
    let raw = format!("{MIXED}--out\r\n{attached}--out\r\n\r\nafter\r\n--out--\r\n");
    let message = check_tree(
        &raw,
        &[
            "- multipart/mixed parts 0",
            "0 message/rfc822 file 79",
            "0.0 multipart/mixed parts 0",
            "0.0.0 text/plain inline 1",
            "1 text/plain inline 5",
        ],
    );
    assert_eq!(message.part("0.0").unwrap().headers()[0].value, "inner");
    let bytes = data(&message, raw.as_bytes(), "0");
    assert!(bytes.starts_with(b"Subject: inner") && bytes.ends_with(b"--in--"));
}

#[test]
fn an_attached_message_that_is_encoded_is_only_a_file() {
    let raw =
        "Content-Type: message/rfc822; name=a.eml\nContent-Transfer-Encoding: base64\n\nQTogYg==";
    check_tree(raw, &["- message/rfc822 file 4 a.eml"]);
}

#[test]
fn a_digest_holds_messages_unless_it_says_otherwise() {
    let raw = "Content-Type: multipart/digest; boundary=d\n\n--d\n\nSubject: one\n\n1\n\
               --d\nContent-Type: text/plain\n\n2\n--d--\n";
    let expected = [
        "- multipart/digest parts 0",
        "0 message/rfc822 file 15",
        "0.0 text/plain inline 1",
        "1 text/plain inline 1",
    ];
    check_tree(raw, &expected);
}

#[test]
fn reports_signatures_and_invitations_are_parts_like_others() {
    let raw = "Content-Type: multipart/signed; protocol=\"application/pkcs7-signature\";\n\
               \tmicalg=sha-256; boundary=\"----=_Part\"\n\n\
               ------=_Part\nContent-Type: text/calendar; method=REQUEST; charset=utf-8\n\nBEGIN:VCALENDAR\n\
               ------=_Part\nContent-Type: message/delivery-status\n\nStatus: 5.1.1\n\
               ------=_Part\nContent-Type: application/pkcs7-signature; name=\"smime.p7s\"\n\
               Content-Transfer-Encoding: base64\nContent-Disposition: attachment; filename=\"smime.p7s\"\n\n\
               MIIB\n------=_Part--\n";
    let expected = [
        "- multipart/signed parts 0",
        "0 text/calendar inline 15",
        "1 message/delivery-status inline 13",
        "2 application/pkcs7-signature file 3 smime.p7s",
    ];
    check_tree(raw, &expected);
    let enveloped = "Content-Type: application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m\n\
                     Content-Transfer-Encoding: base64\n\nMIIB\n";
    check_tree(enveloped, &["- application/pkcs7-mime file 3 smime.p7m"]);
}

#[test]
fn part_with_attachment_disposition_or_name_is_a_file() {
    let part = |header: &str| format!("{MIXED}--out\n{header}\n\nx\n--out--");
    let cases = [
        ("Content-Type: image/png", "0 image/png inline 1"),
        ("Content-Disposition: attachment", "0 text/plain file 1"),
        (
            "Content-Disposition: ATTACHMENT; x=y",
            "0 text/plain file 1",
        ),
        ("Content-Disposition: inline", "0 text/plain inline 1"),
        (
            "Content-Disposition: inline; filename=a.txt",
            "0 text/plain file 1 a.txt",
        ),
        (
            "Content-Type: text/plain; name=b.txt",
            "0 text/plain file 1 b.txt",
        ),
        (
            "Content-Type: text/plain; name=b.txt\nContent-Disposition: attachment; filename=a.txt",
            "0 text/plain file 1 a.txt",
        ),
        (
            "Content-Type: text/plain; name=b.txt\nContent-Disposition: attachment; filename=\"\"",
            "0 text/plain file 1 b.txt",
        ),
        (
            "Content-Disposition: attachment;\n filename*0*=utf-8''%C3%A9t;\n filename*1*=%C3%A9.txt",
            "0 text/plain file 1 été.txt",
        ),
        (
            "Content-Disposition: attachment; filename=\"=?koi8-r?B?8NLJ18XU?=.txt\"",
            "0 text/plain file 1 Привет.txt",
        ),
        ("Content-Type: nonsense", "0 text/plain inline 1"),
        ("Content-Type: TEXT/HTML", "0 text/html inline 1"),
        ("Content-Type: text/plain/x", "0 text/plain inline 1"),
    ];
    for (header, expected) in cases {
        check_tree(part(header), &["- multipart/mixed parts 0", expected]);
    }
}

#[test]
fn inline_text_is_converted_to_utf_8() {
    let part = |charset: &str, body: &[u8]| {
        let head = format!("Content-Type: text/plain; charset={charset}\n\n");
        [head.as_bytes(), body].concat()
    };
    check_data(part("windows-1251", b"\xcf\xf0\xe8"), "", "При");
    check_data(part("koi8-r", b"\xf0\xd2\xc9"), "", "При");
    check_data(part("\"ISO-2022-JP\"", b"\x1b$B$3$s\x1b(B"), "", "こん");
    check_data(part("gb18030", b"\xc4\xe3\xba\xc3"), "", "你好");
    check_data(part("utf-8", b"\xff\xc3\xa9"), "", b"\xff\xc3\xa9");
    check_data(part("klingon", b"\xff"), "", b"\xff");
    check_data(part("us-ascii", b"\xff"), "", b"\xff");
    check_data(b"A: b\n\n\xff", "", b"\xff");
}

#[test]
fn files_keep_their_bytes() {
    let raw = b"Content-Type: text/plain; charset=koi8-r; name=a.txt\n\n\xf0\xd2";
    check_data(raw, "", b"\xf0\xd2");
    let json = b"Content-Type: application/json; charset=koi8-r\n\n\xf0";
    check_data(json, "", b"\xf0");
}

#[test]
fn encoded_text_is_decoded_and_then_converted() {
    let raw =
        "Content-Type: text/plain; charset=koi8-r\nContent-Transfer-Encoding: base64\n\n8NLJ18XU\n";
    check_data(raw, "", "Привет");
    let raw = "Content-Transfer-Encoding: Quoted-Printable\n\ncaf=C3=A9=\n!";
    check_data(raw, "", "café!");
}

#[test]
fn bodies_are_within_those_around_them() {
    // The line end before a delimiter belongs to it, and here also ends the header of the message
    // inside.
    let raw = "Content-Type: multipart/digest; boundary=d\n\n--d\n\nFrom: a\n\n--d--\n";
    let message = check_tree(
        raw,
        &[
            "- multipart/digest parts 0",
            "0 message/rfc822 file 8",
            "0.0 text/plain inline 0",
        ],
    );
    let range = |id| message.part(id).unwrap().range();
    let (outer, inner) = (range("0"), range("0.0"));
    assert!(
        outer.start <= inner.start && inner.end <= outer.end,
        "{inner:?} in {outer:?}"
    );
}
