//! An upstream that records its requests and sends scripted answers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::wait::PATIENCE;

/// More requests than any test sends.
const REQUESTS: usize = 10_000;

/// A request as it came, or the beginning of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) head: String,
    /// With its transfer coding.
    pub(super) body: Vec<u8>,
    pub(super) is_whole: bool,
}

/// The bytes of the reply to a request; none to hang up.
pub(super) type Answer = fn(&Seen) -> Vec<u8>;

pub(super) struct Server {
    pub(super) address: SocketAddr,
    seen: Receiver<Seen>,
    stopped: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, seen) = sync_channel(REQUESTS);
        let stopped = Arc::new(AtomicBool::new(false));
        let acceptor = {
            let stopped = Arc::clone(&stopped);
            thread::spawn(move || accept(&listener, &stopped, &sender, answer))
        };
        Self {
            address,
            seen,
            stopped,
            acceptor: Some(acceptor),
        }
    }

    /// The next request.
    #[track_caller]
    pub(super) fn seen(&self) -> Seen {
        self.seen.recv_timeout(PATIENCE).unwrap()
    }

    pub(super) fn has_seen_nothing(&self) -> bool {
        self.seen.try_recv().is_err()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        TcpStream::connect(self.address).unwrap();
        self.acceptor.take().unwrap().join().ok();
    }
}

/// Serves connections until it is stopped, each in a thread.
fn accept(listener: &TcpListener, stopped: &AtomicBool, sender: &SyncSender<Seen>, answer: Answer) {
    // A stop ends the connections that a longer-lived proxy holds open.
    let streams = Mutex::new(Vec::new());
    thread::scope(|scope| {
        loop {
            let (stream, _) = listener.accept().unwrap();
            if stopped.load(Ordering::Relaxed) {
                for stream in streams.lock().unwrap().drain(..) {
                    TcpStream::shutdown(&stream, Shutdown::Both).ok();
                }
                return;
            }
            streams.lock().unwrap().push(stream.try_clone().unwrap());
            scope.spawn(move || serve(stream, sender, answer));
        }
    });
}

fn serve(mut stream: TcpStream, sender: &SyncSender<Seen>, answer: Answer) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(head) = head(&mut reader) {
        let is_early = head.contains("/early");
        let mut seen = Seen {
            head,
            body: Vec::new(),
            is_whole: false,
        };
        if is_early {
            stream.write_all(&answer(&seen)).unwrap();
        }
        seen.is_whole = read_body(&mut reader, &mut seen);
        let reply = answer(&seen);
        let is_last = !seen.is_whole || reply.is_empty() || reply.starts_with(b"HTTP/1.0");
        let answers = seen.is_whole && !is_early;
        sender.send(seen).ok();
        if answers {
            stream.write_all(&reply).ok();
        }
        if is_last {
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

fn head(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if reader.read_until(b'\n', &mut head).ok()? == 0 {
            return None;
        }
    }
    Some(String::from_utf8(head).unwrap())
}

/// Whether the body has come whole. A chunked body ends at bytes that look like its end.
fn read_body(reader: &mut BufReader<TcpStream>, seen: &mut Seen) -> bool {
    if seen.head.contains("chunked") {
        while !seen.body.ends_with(b"\r\n0\r\n\r\n") {
            if reader.read_until(b'\n', &mut seen.body).unwrap_or(0) == 0 {
                return false;
            }
        }
        return true;
    }
    let length = seen.head.split("Content-Length: ").nth(1);
    let length: u64 = length.map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
    reader.take(length).read_to_end(&mut seen.body).ok();
    seen.body.len() as u64 == length
}
