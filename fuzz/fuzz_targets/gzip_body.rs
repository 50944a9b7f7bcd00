//! A gzip body is decoded as another decoder does it, however it is cut into packets, and never to
//! more bytes than its ratio allows.
//!
//! The input is two bytes, the size of a packet and the kind of the rest. With an even kind, the
//! rest is a body as it is sent. Otherwise the rest is compressed first, as several members and
//! with header fields that few senders use.

#![no_main]

use std::cell::LazyCell;
use std::io::{Read, Write};

use bytes::Bytes;
use flate2::{Compression, GzBuilder, bufread::MultiGzDecoder};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};
use windlass_server::fuzzing::{Decoded, GZIP_GRACE, gunzip};

/// Limit on the compression ratio. It is low, so that inputs can reach it.
const RATIO: u64 = 20;

thread_local! {
    static RUNTIME: LazyCell<Runtime> = LazyCell::new(|| {
        let mut builder = Builder::new_current_thread();
        builder.enable_time().build().expect("a thread has a runtime")
    });
}

fuzz_target!(|input: &[u8]| {
    let [packet, form, rest @ ..] = input else {
        return;
    };
    let packet = usize::from(*packet).max(1);
    if form.is_multiple_of(2) {
        sent(rest, packet);
    } else {
        compressed(rest, packet, *form);
    }
});

fn sent(body: &[u8], packet: usize) {
    let decoded = decode(body, packet);
    same(&decode(body, body.len().max(1)), &decoded);
    let most = GZIP_GRACE.max((RATIO + 1) * body.len() as u64);
    assert!(decoded.bytes.len() as u64 <= most);
    if !decoded.is_whole || body.is_empty() {
        return;
    }
    let mut expected = Vec::new();
    let read = MultiGzDecoder::new(body).read_to_end(&mut expected);
    if read.is_err() && has_reserved_flags(body) {
        return;
    }
    read.expect("both decoders take it");
    assert_eq!(decoded.bytes, expected);
}

/// Whether a member may have reserved flags (RFC 1952, section 2.3.1.2). The reference decoder
/// refuses them. The server's decoder ignores them: if an unknown field followed them, the checksum
/// would be wrong.
fn has_reserved_flags(body: &[u8]) -> bool {
    let mut heads = body.windows(4);
    heads.any(|head| head.starts_with(&[0x1f, 0x8b, 8]) && head[3] & 0xe0 != 0)
}

/// How many bytes come before an error depends on the packets, and so does the ratio in the middle
/// of a body.
fn same(one: &Decoded, other: &Decoded) {
    let shorter = one.bytes.len().min(other.bytes.len());
    assert_eq!(one.bytes[..shorter], other.bytes[..shorter]);
    if one.bytes.len().max(other.bytes.len()) as u64 <= GZIP_GRACE {
        assert_eq!(one.is_whole, other.is_whole);
    }
    if one.is_whole && other.is_whole {
        assert_eq!(one.bytes.len(), other.bytes.len());
    }
}

fn compressed(media: &[u8], packet: usize, form: u8) {
    let mut body = Vec::new();
    let (first, second) = media.split_at(media.len() / 2);
    for member in [first, second] {
        let mut header = GzBuilder::new().mtime(1);
        if form & 2 != 0 {
            header = header.filename("a").comment("b");
        }
        if form & 4 != 0 {
            header = header.extra([0; 4]);
        }
        let level = Compression::new(u32::from(form >> 4).min(9));
        let mut encoder = header.write(&mut body, level);
        encoder.write_all(member).expect("memory can be written");
        encoder.finish().expect("memory can be written");
    }
    let decoded = decode(&body, packet);
    assert!(decoded.is_whole);
    assert_eq!(decoded.bytes, media);
    // A missing byte at the end is noticed: the last eight bytes are the checksum and the length.
    body.pop();
    assert!(!decode(&body, packet).is_whole);
}

fn decode(body: &[u8], packet: usize) -> Decoded {
    let packets = body.chunks(packet).map(Bytes::copy_from_slice).collect();
    RUNTIME.with(|runtime| runtime.block_on(gunzip(packets, RATIO)))
}
