use super::*;

#[test]
fn chunk_size_is_parsed_with_its_unit() {
    for (text, multiples) in [
        ("262144", 1),
        ("262144B", 1),
        ("256K", 1),
        ("256k", 1),
        ("256KB", 1),
        ("256 KiB", 1),
        (" 1M ", 4),
        ("8MiB", 32),
        ("8mb", 32),
        ("1G", 4096),
        ("1GiB", 4096),
        ("1GB", 4096),
    ] {
        let size: ChunkSize = text.parse().expect(text);
        assert_eq!(size.bytes(), multiples * Q, "{text}");
        assert_eq!(size.to_string(), (multiples * Q).to_string());
    }
}

#[test]
fn malformed_chunk_size_is_refused() {
    for text in [
        "",
        "K",
        "M8",
        "1.5M",
        "-256K",
        "0x40000",
        "256 K B",
        "256T",
        "8 Mbit",
        "99999999999G",
        "18446744073709551616",
        "٢٥٦K",
    ] {
        let size: Result<ChunkSize, _> = text.parse();
        assert_eq!(size, Err(InvalidChunkSize::Syntax), "{text}");
    }
}

#[test]
fn chunk_size_that_is_not_a_multiple_is_refused_with_one_near_it() {
    for (bytes, near) in [
        (0, Q),
        (1, Q),
        (Q - 1, Q),
        (Q + 1, Q),
        (3 * Q + 5, 3 * Q),
        (u64::MAX, u64::MAX - (Q - 1)),
    ] {
        let near = ChunkSize::new(near).expect("a multiple");
        let error = InvalidChunkSize::NotAMultiple { bytes, near };
        assert_eq!(ChunkSize::new(bytes), Err(error));
        let text = error.to_string();
        assert!(text.ends_with(&format!("but {near} is")), "{text}");
    }
    assert_eq!(
        "1000K".parse::<ChunkSize>(),
        ChunkSize::new(1000 * 1024),
        "with a unit too"
    );
}

#[test]
fn only_resumable_uploads_start_sessions() {
    let first = |upload_type| Transfer::start(Plan::new(upload_type, Media::seekable(1))).poll();
    assert_eq!(first(UploadType::Resumable), Action::Send(Request::Start));
    assert_eq!(
        first(UploadType::Media),
        Action::Send(Request::SingleRequest)
    );
    assert_eq!(
        first(UploadType::Multipart),
        Action::Send(Request::SingleRequest)
    );
}
