use super::*;

#[test]
fn python_separates_lines_with_bare_lf_and_quotes_the_boundary() {
    check(
        "multipart/related; boundary=\"===============0123456789==\"",
        b"--===============0123456789==\nContent-Type: application/json\nMIME-Version: 1.0\n\n{\"name\": \"Llama\"}\n\
          --===============0123456789==\nContent-Type: image/png\nMIME-Version: 1.0\n\
          Content-Transfer-Encoding: binary\n\nme\ndia\r\n\n--===============0123456789==--\n",
        "{\"name\": \"Llama\"}",
        Some("image/png"),
        b"me\ndia\r\n",
    );
}

#[test]
fn python_storage_has_lower_case_headers_and_no_last_line_end() {
    check(
        "multipart/related; boundary=\"===============42==\"",
        b"--===============42==\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n{\"name\":\"x\"}\r\n\
          --===============42==\r\ncontent-type: text/plain\r\n\r\nmedia\r\n--===============42==--",
        "{\"name\":\"x\"}",
        Some("text/plain"),
        b"media",
    );
}

#[test]
fn apitools_puts_the_boundary_in_single_quotes() {
    check(
        "multipart/related; boundary='===============42=='",
        b"--===============42==\nContent-Type: application/json\nMIME-Version: 1.0\n\n{}\n\
          --===============42==\nContent-Type: application/octet-stream\nMIME-Version: 1.0\n\
          Content-Transfer-Encoding: binary\n\nmedia\n--===============42==--\n",
        "{}",
        Some("application/octet-stream"),
        b"media",
    );
}

#[test]
fn go_may_leave_out_every_header_of_the_media() {
    check(
        "multipart/related; boundary=0a1b2c",
        b"--0a1b2c\r\nContent-Type: application/json\r\n\r\n{}\n\r\n--0a1b2c\r\n\r\nmedia\r\n--0a1b2c--\r\n",
        "{}\n",
        None,
        b"media",
    );
}

#[test]
fn java_states_the_length_of_each_part() {
    check(
        "multipart/related; boundary=__END_OF_PART__6d1c__",
        b"--__END_OF_PART__6d1c__\r\nContent-Length: 2\r\nContent-Type: application/json; charset=UTF-8\r\n\
          content-transfer-encoding: binary\r\n\r\n{}\r\n--__END_OF_PART__6d1c__\r\nContent-Length: 5\r\n\
          Content-Type: image/jpeg\r\ncontent-transfer-encoding: binary\r\n\r\nmedia\r\n\
          --__END_OF_PART__6d1c__--\r\n",
        "{}",
        Some("image/jpeg"),
        b"media",
    );
}

#[test]
fn node_separates_with_a_uuid() {
    check(
        "multipart/related; boundary=7f0b5c1e-9a7e-4b57-8c39-6b8a5a2d2f10",
        b"--7f0b5c1e-9a7e-4b57-8c39-6b8a5a2d2f10\r\ncontent-type: application/json\r\n\r\n{}\r\n\
          --7f0b5c1e-9a7e-4b57-8c39-6b8a5a2d2f10\r\ncontent-type: text/plain\r\n\r\nmedia\r\n\
          --7f0b5c1e-9a7e-4b57-8c39-6b8a5a2d2f10--",
        "{}",
        Some("text/plain"),
        b"media",
    );
}

#[test]
fn php_sends_base64_and_null() {
    check(
        "multipart/related; boundary=1804289383",
        b"--1804289383\r\nContent-Type: application/json; charset=UTF-8\r\n\r\nnull\r\n\
          --1804289383\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\n\
          bWVkaWEgd2l0aCBhIHRhaWw=\r\n--1804289383--",
        "null",
        Some("image/png"),
        b"media with a tail",
    );
}

#[test]
fn ruby_ends_with_an_empty_line() {
    check(
        "multipart/related; boundary=RubyApiBatchUpload",
        b"--RubyApiBatchUpload\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
          Content-Transfer-Encoding: binary\r\n\r\n{}\r\n--RubyApiBatchUpload\r\nContent-Type: text/plain\r\n\
          Content-Length: 5\r\nContent-Transfer-Encoding: binary\r\n\r\nmedia\r\n--RubyApiBatchUpload--\r\n\r\n",
        "{}",
        Some("text/plain"),
        b"media",
    );
}

#[test]
fn byron_begins_with_an_empty_line_and_leaves_no_space_before_the_boundary() {
    check(
        "multipart/related;boundary=MDuXWGyeE33QFXGchb2VFWc4Z7945d",
        b"\r\n--MDuXWGyeE33QFXGchb2VFWc4Z7945d\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}\r\n\
          --MDuXWGyeE33QFXGchb2VFWc4Z7945d\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nmedia\r\n\
          --MDuXWGyeE33QFXGchb2VFWc4Z7945d--",
        "{}",
        Some("text/plain"),
        b"media",
    );
}

#[test]
fn rust_storage_adds_checksums_behind_the_media() {
    let body = b"--f00-ba5\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\
          Content-Type: application/json; charset=UTF-8\r\n\r\n{}\r\n\
          --f00-ba5\r\nContent-Disposition: form-data; name=\"media\"\r\n\r\nmedia\r\n\
          --f00-ba5\r\nContent-Disposition: form-data; name=\"checksums\"\r\nContent-Type: application/json\r\n\r\n\
          {\"crc32c\":\"AAAAAA==\"}\r\n--f00-ba5--\r\n";
    let expected = Split {
        metadata: Some(b"{}".to_vec()),
        content_type: None,
        media: b"media".to_vec(),
        complete: true,
        checksums: Some(br#"{"crc32c":"AAAAAA=="}"#.to_vec()),
    };
    assert_eq!(
        split_every_way(&boundary("multipart/related; boundary=f00-ba5"), body),
        Ok(expected)
    );
}
