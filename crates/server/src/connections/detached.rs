//! The head of a request, on its own.

use bytes::BytesMut;
use http::{HeaderValue, Request, Uri};

/// Copies what in a request's head is a piece of the connection's buffer. As long as there is such a piece,
/// the HTTP library has to read the body into another buffer; for an upload that takes hours that is one
/// more for hours.
pub(super) fn detach<B>(request: &mut Request<B>) {
    let len = request.headers().values().map(HeaderValue::len).sum();
    let mut copies = BytesMut::with_capacity(len);
    for value in request.headers_mut().values_mut() {
        copies.extend_from_slice(value.as_bytes());
        if let Ok(mut copy) = HeaderValue::from_maybe_shared(copies.split().freeze()) {
            copy.set_sensitive(value.is_sensitive());
            *value = copy;
        }
    }
    if let Ok(copy) = Uri::try_from(request.uri().to_string()) {
        *request.uri_mut() = copy;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_says_the_same() {
        for uri in ["/upload?a=%20b&c", "http://[::1]:80/x", "*", "host:443"] {
            let mut request = Request::post(uri).header("a", "1").header("a", "2");
            let secret = HeaderValue::from_bytes(b"\xfc \t b").unwrap();
            request
                .headers_mut()
                .unwrap()
                .insert("authorization", secret);
            let value = request.headers_mut().unwrap().get_mut("authorization");
            value.unwrap().set_sensitive(true);
            let mut request = request.body(()).unwrap();
            let before = (request.uri().clone(), request.headers().clone());
            detach(&mut request);
            assert_eq!((request.uri(), request.headers()), (&before.0, &before.1));
            assert!(request.headers()["authorization"].is_sensitive());
        }
    }
}
