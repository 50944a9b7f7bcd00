//! The JSON for clients, and the summary for mailboxes.

use serde_json::json;

use super::*;
use crate::gmail::mime::{Address, Header, Malformed, Summary};

const MESSAGE: &str = "From: \"Ann, A.\" <ann@example.com>\r\n\
    To: =?utf-8?q?Ren=C3=A9?= <rene@example.com>, Team: bob@example.com, <eve@example.com>;\r\n\
    To: more@example.com\r\nCc: plain@example.com (Carl)\r\nBcc: hidden@example.com\r\n\
    Subject: =?utf-8?b?UmU6IGNhZsOp?=\r\n =?utf-8?q?_noir?=\r\n\
    Date: Tue, 14 Nov 2023 23:13:20 +0100 (CET)\r\n\
    Message-ID: <3@example.com>\r\nIn-Reply-To: <2@example.com>\r\n\
    References: <1@example.com>\r\n <2@example.com>\r\nList-Id: Cafes <cafe.example.com>\r\n\
    Received: by x;\r\n        Tue, 14 Nov 2023\r\nreceived: from y\r\n\
    MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
    --b\r\nContent-Type: text/html; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
    <style>x</style><p>Caf=E9 &lt;ol=E9&gt;</p><p>Noir</p>\r\n\
    --b\r\nContent-Disposition: attachment; filename=\"a.txt\"\r\n\r\nsecret words\r\n--b--\r\n";

fn message() -> Structure {
    parse(MESSAGE.as_bytes()).unwrap()
}

#[test]
fn a_payload_is_the_tree_with_inline_data_and_attachment_ids() {
    let message = parse(
        b"From: a\n\
          Content-Type: multipart/mixed; boundary=b\n\n--b\n\n\xc3\xbb\xef\xbf\xbf\n--b\n\
          Content-Disposition: attachment; filename=f\n\nabc\n--b--",
    );
    let message = message.unwrap();
    let bodies = [
        ("0".to_owned(), b"\xc3\xbb\xef\xbf\xbf".to_vec()),
        ("1".to_owned(), b"abc".to_vec()),
    ]
    .into();
    let payload = message.payload(&bodies, |part| format!("id-of-{}", part.id()));
    let expected = json!({
        "partId": "", "mimeType": "multipart/mixed", "filename": "",
        "headers": [
            {"name": "From", "value": "a"},
            {"name": "Content-Type", "value": "multipart/mixed; boundary=b"},
        ],
        "body": {"size": 0},
        "parts": [
            {
                "partId": "0", "mimeType": "text/plain", "filename": "", "headers": [],
                "body": {"size": 5, "data": "w7vvv78="},
            },
            {
                "partId": "1", "mimeType": "text/plain", "filename": "f",
                "headers": [{"name": "Content-Disposition", "value": "attachment; filename=f"}],
                "body": {"attachmentId": "id-of-1", "size": 3},
            },
        ],
    });
    assert_eq!(payload, expected);
    let without = message.payload(&[].into(), |_| String::new());
    assert_eq!(without["parts"][0]["body"], json!({"size": 5}));
}

#[test]
fn the_bodies_of_a_message_are_those_of_its_inline_parts() {
    let message = message();
    let bodies = message.bodies(MESSAGE.as_bytes());
    assert_eq!(bodies.keys().collect::<Vec<_>>(), ["0"]);
    assert!(bodies["0"].starts_with(b"<style>") && bodies["0"].ends_with(b"</p>"));
}

#[test]
fn metadata_is_the_header_or_the_fields_that_are_asked_for() {
    let message = message();
    let some = message.headers_only(&["SUBJECT", "received", "x-none"]);
    let expected = json!({
        "mimeType": "multipart/mixed",
        "headers": [
            {"name": "Subject", "value": "Re: café noir"},
            {"name": "Received", "value": "by x;        Tue, 14 Nov 2023"},
            {"name": "received", "value": "from y"},
        ],
    });
    assert_eq!(some, expected);
    let all = message.headers_only(&[] as &[&str]);
    assert_eq!(
        all["headers"].as_array().unwrap().len(),
        message.headers().len()
    );
}

#[test]
fn header_fields_keep_their_order_and_their_names() {
    let message = parse(b"b: 1\nA: 2\nB: 3\n\n").unwrap();
    let header = |name: &str, value: &str| Header {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    assert_eq!(
        message.headers(),
        [header("b", "1"), header("A", "2"), header("B", "3")]
    );
    assert_eq!(message.header("B"), Some("1"));
    assert_eq!(message.header("c"), None);
}

#[test]
fn summary_has_the_searchable_properties() {
    let address = |name: &str, address: &str| Address {
        name: name.to_owned(),
        address: address.to_owned(),
    };
    let expected = Summary {
        from: vec![address("Ann, A.", "ann@example.com")],
        to: vec![
            address("René", "rene@example.com"),
            address("", "bob@example.com"),
            address("", "eve@example.com"),
            address("", "more@example.com"),
        ],
        cc: vec![address("Carl", "plain@example.com")],
        bcc: vec![address("", "hidden@example.com")],
        subject: "Re: café noir".to_owned(),
        date: Some(1_700_000_000_000),
        message_id: Some("3@example.com".to_owned()),
        in_reply_to: vec!["2@example.com".to_owned()],
        references: vec!["1@example.com".to_owned(), "2@example.com".to_owned()],
        list_id: Some("cafe.example.com".to_owned()),
        filenames: vec!["a.txt".to_owned()],
        has_attachment: true,
        text: "café olé noir".to_owned(),
        snippet: "Café &lt;olé&gt; Noir".to_owned(),
    };
    assert_eq!(message().summary(MESSAGE.as_bytes()), expected);
}

#[test]
fn summary_of_minimal_message_is_empty() {
    let raw = b"X: y\nDate: soon\nReferences:\nList-Id:\nMessage-ID: broken@example.com\nTo: Nobody:;\n\n";
    let expected = Summary {
        message_id: Some("broken@example.com".to_owned()),
        ..Summary::default()
    };
    assert_eq!(parse(raw).unwrap().summary(raw), expected);
}

#[test]
fn snippet_is_of_the_first_part_with_text() {
    let raw = b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\n \n--b\nContent-Type: text/calendar\n\n\
        BEGIN:VCALENDAR\n--b\nContent-Type: text/html\n\n<b>html</b>\n--b\n\nplain\n--b--";
    let summary = parse(raw).unwrap().summary(raw);
    assert_eq!(summary.snippet, "html");
    assert_eq!(summary.text, "html plain");
}

#[test]
fn errors_state_the_limit() {
    assert_eq!(
        Malformed::TooManyParts.to_string(),
        "the message has more than 1000 parts"
    );
    assert_eq!(Malformed::NoHeader.to_string(), "the message has no header");
}
