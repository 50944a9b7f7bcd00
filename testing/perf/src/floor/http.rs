//! The floor on the HTTP stack of the server: hyper, with a large read buffer.

mod download;
mod upload;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use bytes::Bytes;
use http::header::{CONTENT_RANGE, LOCATION, RANGE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::file_store::FileStore;
use super::{LISTEN, listening};

use download::Download;
use upload::{Span, store};

/// The most that is read from a socket at once.
const READ_BUFFER: usize = 4 << 20;

type Reply = Response<Either<Full<Bytes>, Download>>;

/// Serves until the process is killed.
pub(super) fn serve(file_store: FileStore) -> anyhow::Result<()> {
    let floor = Arc::new(Floor {
        file_store,
        sessions: AtomicU64::new(0),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(LISTEN).await?;
        listening("http", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await.context("accept")?;
            stream.set_nodelay(true)?;
            tokio::spawn(connection(stream, Arc::clone(&floor)));
        }
    })
}

async fn connection(stream: TcpStream, floor: Arc<Floor>) {
    let service = service_fn(move |request| {
        let floor = Arc::clone(&floor);
        async move { Ok::<_, Infallible>(floor.answer(request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.max_buf_size(READ_BUFFER);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    // A client that goes away is no concern of a floor.
    connection.await.ok();
}

struct Floor {
    file_store: FileStore,
    sessions: AtomicU64,
}

impl Floor {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        let name = request.uri().path().trim_start_matches('/').to_owned();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !name.bytes().all(is_name) {
            return bare(StatusCode::NOT_FOUND);
        }
        match *request.method() {
            Method::PUT => self.put(&name, request).await,
            Method::POST => self.begin(),
            Method::GET => self.show(&name),
            _ => bare(StatusCode::METHOD_NOT_ALLOWED),
        }
    }

    /// Opens a session, which is no more than a name.
    fn begin(&self) -> Reply {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        let mut reply = bare(StatusCode::OK);
        let location = format!("/session-{number}").parse();
        let location = location.expect("digits fit into a header");
        reply.headers_mut().insert(LOCATION, location);
        reply
    }

    async fn put(&self, name: &str, request: Request<Incoming>) -> Reply {
        let span = match request.headers().get(CONTENT_RANGE).map(Span::parse) {
            None => Span::WHOLE,
            Some(Some(span)) => span,
            Some(None) => return bare(StatusCode::BAD_REQUEST),
        };
        let Ok(end) = store(&self.file_store, name, span.first, request.into_body()).await else {
            return bare(StatusCode::INTERNAL_SERVER_ERROR);
        };
        if span.total.is_none_or(|total| end >= total) {
            return bare(StatusCode::OK);
        }
        let mut reply = bare(StatusCode::PERMANENT_REDIRECT);
        let range = format!("bytes=0-{}", end.saturating_sub(1)).parse();
        let range = range.expect("digits fit into a header");
        reply.headers_mut().insert(RANGE, range);
        reply
    }

    fn show(&self, name: &str) -> Reply {
        if name.is_empty() {
            return bare(StatusCode::NOT_FOUND);
        }
        match self.file_store.open_to_read(name).and_then(Download::new) {
            Ok(download) => Response::new(Either::Right(download)),
            Err(_) => bare(StatusCode::NOT_FOUND),
        }
    }
}

fn bare(status: StatusCode) -> Reply {
    let mut reply = Response::new(Either::Left(Full::default()));
    *reply.status_mut() = status;
    reply
}
