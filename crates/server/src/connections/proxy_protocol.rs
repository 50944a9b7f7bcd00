//! The header of the PROXY protocol, in which a proxy states the client's addresses for a
//! connection that it forwards.
//!
//! Source: "The PROXY protocol, versions 1 & 2" of `HAProxy`.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use proxy_header::{Error, ParseConfig, Protocol, ProxyHeader};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::streams::RewindStream;

/// Maximum length of a header in bytes. A header holds the addresses, and may hold further data of
/// the proxy, such as the host name that the client asked for.
const MAX_LEN: usize = 4096;

/// Maximum length of a header of version 1 in bytes, including the line end.
const MAX_LINE_LEN: usize = 107;

/// Number of bytes that are read at once. Most headers are shorter.
const READ: usize = 512;

const FORMAT: ParseConfig = ParseConfig {
    include_tlvs: true,
    allow_v1: true,
    allow_v2: true,
};

/// A connection of a client to the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Proxied {
    pub(crate) client: SocketAddr,
    /// The address that the client has connected to.
    pub(crate) server: SocketAddr,
    /// Whether it is under TLS that the proxy has taken away.
    pub(crate) is_encrypted: bool,
}

/// Reads the header at the beginning of a stream. Returns the addresses in the header, and the
/// stream after it. The addresses are `None` if the proxy checks the server's health over its own
/// connection, or does not know the client.
///
/// # Errors
/// [`InvalidData`](ErrorKind::InvalidData) if the stream does not begin with a header,
/// [`UnexpectedEof`](ErrorKind::UnexpectedEof) if the stream ends inside of the header.
pub(crate) async fn read<S: AsyncRead + Unpin>(
    mut stream: S,
) -> io::Result<(Option<Proxied>, RewindStream<S>)> {
    let mut begun = Vec::new();
    loop {
        match ProxyHeader::parse(&begun, FORMAT) {
            // The crate refuses a longer line only if it has not arrived as a whole.
            Ok((_, length)) if begun.starts_with(b"P") && length > MAX_LINE_LEN => {
                return Err(ErrorKind::InvalidData.into());
            }
            Ok((header, length)) => {
                let proxied = proxied(&header);
                begun.drain(..length);
                return Ok((proxied, RewindStream::after(begun, stream)));
            }
            Err(Error::BufferTooShort) if begun.len() < MAX_LEN => {}
            Err(error) => return Err(io::Error::new(ErrorKind::InvalidData, error)),
        }
        let most = READ.min(MAX_LEN - begun.len());
        let read = (&mut stream).take(most as u64).read_buf(&mut begun).await?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
}

fn proxied(header: &ProxyHeader<'_>) -> Option<Proxied> {
    let addresses = header.proxied_address()?;
    let is_stream = addresses.protocol == Protocol::Stream;
    is_stream.then(|| Proxied {
        client: addresses.source,
        server: addresses.destination,
        is_encrypted: header.ssl().is_some_and(|ssl| ssl.client_ssl()),
    })
}

#[cfg(test)]
mod tests {
    use proxy_header::{ProxiedAddress, SslInfo, Tlv};
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    const V4: [&str; 2] = ["192.0.2.1:4711", "198.51.100.1:443"];
    const V6: [&str; 2] = ["[2001:db8::1]:4711", "[2001:db8::2]:443"];

    fn header(addresses: [&str; 2]) -> ProxyHeader<'static> {
        let [source, destination] = addresses.map(|address| address.parse().unwrap());
        ProxyHeader::with_address(ProxiedAddress::stream(source, destination))
    }

    fn v1(header: &ProxyHeader<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        header.encode_v1(&mut bytes).unwrap();
        bytes
    }

    fn v2(header: &ProxyHeader<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        header.encode_v2(&mut bytes).unwrap();
        bytes
    }

    /// Reads a header from bytes that arrive in pieces of this length. Returns the result and the
    /// rest of the stream.
    async fn read_in_pieces(bytes: &[u8], piece: usize) -> io::Result<(Option<Proxied>, Vec<u8>)> {
        let (mut proxy, stream) = tokio::io::duplex(piece);
        let bytes = bytes.to_vec();
        tokio::spawn(async move { proxy.write_all(&bytes).await });
        let (proxied, mut rest) = read(stream).await?;
        let mut left = Vec::new();
        rest.read_to_end(&mut left).await?;
        Ok((proxied, left))
    }

    #[tokio::test]
    async fn client_is_read_from_both_versions_and_what_follows_is_left() {
        for addresses in [V4, V6] {
            let header = header(addresses);
            for begin in [v1(&header), v2(&header)] {
                for piece in [1, 7, 10_000] {
                    let bytes = [&begin[..], b"GET / HTTP/1.1\r\n"].concat();
                    let (proxied, left) = read_in_pieces(&bytes, piece).await.unwrap();
                    let proxied = proxied.expect("it is a client's");
                    assert_eq!(proxied.client.to_string(), addresses[0]);
                    assert_eq!(proxied.server.to_string(), addresses[1]);
                    assert!(!proxied.is_encrypted);
                    assert_eq!(left, b"GET / HTTP/1.1\r\n");
                }
            }
        }
    }

    #[tokio::test]
    async fn tls_that_the_proxy_has_taken_away_is_known() {
        let mut header = header(V4);
        header.append_tlv(Tlv::Ssl(SslInfo::new(true, false, false, 0)));
        let (proxied, _) = read_in_pieces(&v2(&header), 10_000).await.unwrap();
        assert!(proxied.is_some_and(|it| it.is_encrypted));
    }

    #[tokio::test]
    async fn connection_of_the_proxy_itself_has_no_client() {
        for begin in [&b"PROXY UNKNOWN\r\n"[..], &v2(&ProxyHeader::with_local())] {
            let bytes = [begin, b"rest"].concat();
            let read = read_in_pieces(&bytes, 10_000).await.unwrap();
            assert_eq!(read, (None, b"rest".to_vec()));
        }
    }

    #[tokio::test]
    async fn stream_without_a_header_is_refused() {
        let long = [&b"PROXY TCP4 "[..], &[b'1'; 200]].concat();
        let long_line = [&b"PROXY UNKNOWN"[..], &[b' '; 93], b"\r\n"].concat();
        let mut too_long = header(V4);
        too_long.append_tlv(Tlv::UniqueId(vec![0; MAX_LEN].into()));
        for bytes in [
            b"GET / HTTP/1.1\r\nHost: farm.localhost\r\n\r\n",
            &b"PROXY TCP4 192.0.2.1 198.51.100.1 4711\r\nGET / HTTP/1.1\r\n"[..],
            b"PROXY TCP4 192.0.2.256 198.51.100.1 4711 443\r\n",
            b"\r\n\r\n\0\r\nQUIT\n\x11\x11\0\x0c123456789012",
            &long,
            &long_line,
            &v2(&too_long),
        ] {
            let error = read_in_pieces(bytes, 10_000).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{bytes:?}");
        }
        let error = read_in_pieces(b"PROXY TCP4 192", 10_000).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }
}
