use super::*;

fn body(encoding: &str, media: &str) -> Vec<u8> {
    format!(
        "--b\r\n\r\n{{}}\r\n--b\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n{media}\r\n--b--"
    )
    .into_bytes()
}

#[test]
fn binary_8bit_and_7bit_are_not_decoded() {
    for encoding in ["binary", "BINARY", "8bit", "7bit", ""] {
        check(
            "multipart/related; boundary=b",
            &body(encoding, "bWVk"),
            "{}",
            None,
            b"bWVk",
        );
    }
}

#[test]
fn base64_with_line_breaks_is_decoded() {
    for media in ["bWVkaWE=", "bW\r\nVka\nW E=\r\n", "\r\nbWVkaWE=\r\n"] {
        check(
            "multipart/related; boundary=b",
            &body("Base64", media),
            "{}",
            None,
            b"media",
        );
    }
    check(
        "multipart/related; boundary=b",
        &body("base64", ""),
        "{}",
        None,
        b"",
    );
}

#[test]
fn invalid_base64_is_refused() {
    for media in [
        "bWVkaWE",
        "bWVk!WE=",
        "bWVkaWE=bWVk",
        "bWVkaWE==",
        "b===",
        "bWVkaW==",
        "bWVkaWE=\r\nA",
    ] {
        refused(&body("base64", media), &RelatedError::Base64);
    }
}

#[test]
fn base64_metadata_is_decoded() {
    let body = b"--b\r\nContent-Transfer-Encoding: base64\r\n\r\ne30=\r\n--b\r\n\r\nmedia\r\n--b--";
    check("multipart/related; boundary=b", body, "{}", None, b"media");
}

#[test]
fn other_transfer_encodings_are_refused() {
    for encoding in ["quoted-printable", "x-uuencode", "gzip"] {
        refused(&body(encoding, "media"), &RelatedError::TransferEncoding);
    }
}
