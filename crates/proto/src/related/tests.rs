use proptest::prelude::*;

use super::*;

mod boundaries;
mod clients;
mod delimiters;
mod faults;
mod reference;
mod transfer_encodings;

/// The content of a body, with the media in one piece.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Split {
    metadata: Option<Vec<u8>>,
    content_type: Option<String>,
    media: Vec<u8>,
    complete: bool,
    checksums: Option<Vec<u8>>,
}

fn boundary(content_type: &str) -> Boundary {
    Boundary::from_content_type(content_type.as_bytes()).expect("it has a boundary")
}

fn splitter(boundary: &Boundary) -> Splitter {
    Splitter::new(
        boundary.clone(),
        RelatedLimits::default(),
        ThirdPart::Checksums,
    )
}

fn split<'a>(
    mut splitter: Splitter,
    body: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Split, RelatedError> {
    let mut pieces = Vec::new();
    for data in body {
        splitter.push(Bytes::copy_from_slice(data), &mut pieces)?;
    }
    let checksums = splitter.finish()?;
    Ok(pieces.into_iter().fold(
        Split {
            checksums,
            ..Split::default()
        },
        add,
    ))
}

fn add(split: Split, piece: Piece) -> Split {
    match piece {
        Piece::Metadata(metadata) => Split {
            metadata: Some(metadata),
            ..split
        },
        Piece::MediaStart { content_type } => Split {
            content_type,
            ..split
        },
        Piece::Media(media) => {
            assert!(!media.is_empty(), "a piece of media is never empty");
            Split {
                media: [split.media.as_slice(), &media].concat(),
                ..split
            }
        }
        Piece::MediaEnd => Split {
            complete: true,
            ..split
        },
    }
}

/// Splits a body whole, in two pieces at every position, and byte by byte.
#[track_caller]
fn split_every_way(boundary: &Boundary, body: &[u8]) -> Result<Split, RelatedError> {
    let whole = split(splitter(boundary), [body]);
    for at in 0..=body.len() {
        assert_eq!(
            split(splitter(boundary), [&body[..at], &body[at..]]),
            whole,
            "cut at {at}"
        );
    }
    assert_eq!(
        split(splitter(boundary), body.chunks(1)),
        whole,
        "byte by byte"
    );
    whole
}

#[track_caller]
fn check(content_type: &str, body: &[u8], metadata: &str, media_type: Option<&str>, media: &[u8]) {
    let expected = Split {
        metadata: Some(metadata.into()),
        content_type: media_type.map(str::to_owned),
        media: media.to_vec(),
        complete: true,
        checksums: None,
    };
    assert_eq!(split_every_way(&boundary(content_type), body), Ok(expected));
}

#[track_caller]
fn refused(body: &[u8], expected: &RelatedError) {
    assert_eq!(
        split_every_way(&boundary("multipart/related; boundary=b"), body),
        Err(expected.clone())
    );
}

/// Media with near misses of a delimiter for the boundary `b`.
const TRICKY: &[u8] =
    b"\r\n--\r\n-b\r\n--bX\r\n--b-\r\n--B\r\n--b \tx\n--b\rX--b--\r\r\n\n\r\n--a\r\n --b\r\n\r";
