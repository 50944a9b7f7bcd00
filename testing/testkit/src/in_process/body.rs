//! The body of a request.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};

use crate::media::Media;

/// The body of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// All of it comes.
    Whole(Vec<u8>),
    /// The connection breaks after these bytes.
    Broken(Vec<u8>),
    /// All of it comes, with a trailer section.
    Trailed(Vec<u8>, HeaderMap),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let body = self.get_mut();
        let (Self::Whole(bytes) | Self::Broken(bytes) | Self::Trailed(bytes, _)) = body;
        if !bytes.is_empty() {
            let bytes = std::mem::take(bytes);
            return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
        }
        Poll::Ready(match body {
            Self::Whole(_) => None,
            Self::Broken(_) => Some(Err(io::ErrorKind::ConnectionReset.into())),
            Self::Trailed(_, trailers) => {
                let trailers = std::mem::take(trailers);
                (!trailers.is_empty()).then(|| Ok(Frame::trailers(trailers)))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Broken(_) | Self::Trailed(..) => SizeHint::default(),
        }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Whole(bytes)
    }
}

impl From<&[u8]> for Body {
    fn from(bytes: &[u8]) -> Self {
        Self::Whole(bytes.to_vec())
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::Whole(text.into())
    }
}

impl From<&str> for Body {
    fn from(text: &str) -> Self {
        Self::Whole(text.into())
    }
}

impl From<Media> for Body {
    fn from(media: Media) -> Self {
        Self::Whole(media.whole())
    }
}
