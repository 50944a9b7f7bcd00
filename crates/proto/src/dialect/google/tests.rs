use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderName, Version};
use proptest::prelude::*;
use windlass_digest::{Crc32c, ExpectedDigests, ExpectedDigestsError, Md5};

use super::*;
use crate::command::{ContentCoding, MultipartHead, SimpleHead, effective_method};
use crate::dialect::head::invalid;
use crate::parameters::Parameters;
use crate::upload_type::UnknownUploadType;

mod dispatch;
mod framing;
mod multipart;
mod on_a_session;
mod replies;
mod simple;
mod start;

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let field = |(name, value): &(&str, &str)| {
        (
            HeaderName::try_from(*name).expect("a name"),
            HeaderValue::from_str(value).expect("a value"),
        )
    };
    fields
        .iter()
        .map(field)
        .fold(HeaderMap::new(), |mut headers, (name, value)| {
            headers.append(name, value);
            headers
        })
}

/// Parses an HTTP/1.1 request.
fn read(method: &Method, query: &str, fields: &[(&str, &str)]) -> Result<Command, ProtocolError> {
    let headers = headers(fields);
    let framing = Framing::of(Version::HTTP_11, &headers, false)?;
    Google.command(&RequestHead {
        http_method: &effective_method(method, &headers)?,
        parameters: &Parameters::parse(Some(query)).unwrap(),
        headers: &headers,
        framing,
    })
}

fn simple(fields: &[(&str, &str)]) -> Result<SimpleHead, ProtocolError> {
    read(&Method::POST, "uploadType=media", fields).map(|command| match command {
        Command::Simple(head) => head,
        other => panic!("{other:?}"),
    })
}

fn start(fields: &[(&str, &str)]) -> Result<StartHead, ProtocolError> {
    read(&Method::POST, "uploadType=resumable", fields).map(|command| match command {
        Command::Start(head) => head,
        other => panic!("{other:?}"),
    })
}

fn session(fields: &[(&str, &str)]) -> Result<SessionHead, ProtocolError> {
    read(&Method::PUT, "uploadType=resumable&upload_id=u", fields).map(|command| match command {
        Command::Session(head) => head,
        other => panic!("{other:?}"),
    })
}

const QUERIES: [&str; 4] = [
    "uploadType=media",
    "uploadType=multipart",
    "uploadType=resumable",
    "upload_id=u",
];

proptest! {
    #[test]
    fn any_head_is_parsed_without_panic(
        query in proptest::sample::select(&QUERIES),
        values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..24), 10),
    ) {
        let names = [
            CONTENT_TYPE, CONTENT_RANGE, CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING, X_UPLOAD_CONTENT_LENGTH,
            X_UPLOAD_CONTENT_TYPE, X_GUPLOADER_NO_308, crate::header::X_GOOG_HASH, crate::header::CONTENT_MD5,
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in names.into_iter().zip(values) {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(name, value);
            }
        }
        let _ = Framing::of(Version::HTTP_11, &headers, false);
        let _ = effective_method(&Method::POST, &headers);
        let parameters = Parameters::parse(Some(query)).unwrap();
        let _ = Google.command(&RequestHead { http_method: &Method::POST, parameters: &parameters, headers: &headers, framing: Framing::Length(3) });
    }
}
