//! No `multipart/related` body makes the splitter panic, and the way in which a body is cut into
//! packets makes no difference to its parts.
//!
//! The input is one byte with the size of a packet, a `Content-Type` up to the first line feed, and
//! the body.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use windlass_fuzz::first_line;
use windlass_proto::related::{Boundary, Piece, RelatedError, RelatedLimits, Splitter, ThirdPart};

/// Media types and contents of the parts.
#[derive(Debug, Default, PartialEq)]
struct Parts {
    metadata: Option<Vec<u8>>,
    content_type: Option<String>,
    media: Vec<u8>,
    checksums: Option<Vec<u8>>,
}

fuzz_target!(|input: &[u8]| {
    let Some((packet, input)) = input.split_first() else {
        return;
    };
    let (content_type, body) = first_line(input);
    let Ok(boundary) = Boundary::from_content_type(content_type) else {
        return;
    };
    let packet = usize::from(*packet).max(1);
    assert_eq!(
        split(&boundary, [body]),
        split(&boundary, body.chunks(packet))
    );
});

fn split<'a>(
    boundary: &Boundary,
    packets: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Parts, RelatedError> {
    let limits = RelatedLimits::default();
    let mut splitter = Splitter::new(boundary.clone(), limits, ThirdPart::Checksums);
    let mut pieces = Vec::new();
    for packet in packets {
        splitter.push(Bytes::copy_from_slice(packet), &mut pieces)?;
    }
    let mut parts = Parts {
        checksums: splitter.finish()?,
        ..Parts::default()
    };
    for piece in pieces {
        match piece {
            Piece::Metadata(metadata) => parts.metadata = Some(metadata),
            Piece::MediaStart { content_type } => parts.content_type = content_type,
            Piece::Media(bytes) => parts.media.extend_from_slice(&bytes),
            Piece::MediaEnd => {}
        }
    }
    Ok(parts)
}
