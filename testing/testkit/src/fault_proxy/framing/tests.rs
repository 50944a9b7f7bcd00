use super::*;

#[test]
fn a_chunked_body_ends_at_the_same_byte_in_whatever_pieces_it_comes() {
    let wire = b"5\r\nabcde\r\nA ;x=\"y\"\r\n0123456789\r\n00;z\r\nT: u\r\nV:\r\n\r\nPUT";
    let end = wire.len() - 3;
    for piece in 1..wire.len() {
        let mut framing = Framing::Chunked(Chunked::Size(0));
        let mut total = Stretch::default();
        for bytes in wire.chunks(piece) {
            let stretch = framing.advance(bytes, u64::MAX).unwrap();
            total.wire += stretch.wire;
            total.body += stretch.body;
        }
        assert_eq!((total.wire, total.body), (end, 15), "{piece}");
        assert!(framing.is_complete());
    }
    let mut framing = Framing::Chunked(Chunked::Size(0));
    assert!(framing.advance(b"x\r\n", u64::MAX).is_err());
}
