//! A network with the faults of a test: a proxy between a real client and the real server.
//!
//! The proxy parses only the parts of HTTP/1.1 that it needs to find the ends of requests and
//! replies, and passes their bytes on unchanged. A [`Plan`] chooses the [`Fault`] of each request.
//! Each request and its outcome are recorded as an [`Exchange`]. TLS, HTTP/2 and upgrades are
//! absent.
//!
//! ```no_run
//! use windlass_testkit::fault_proxy::{Fault, FaultProxy, Plan};
//!
//! let proxy = FaultProxy::start("127.0.0.1:8080".parse().unwrap());
//! proxy.set_plan(Plan::once(1, Fault::LoseReply));
//! // A client uploads to `proxy.base_url()` ...
//! let lost = proxy.exchanges().into_iter().find(|exchange| !exchange.delivered);
//! assert_eq!(lost.unwrap().fault, Some(Fault::LoseReply));
//! ```

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

mod answer;
mod connection;
mod fault;
mod framing;
mod head;
mod plan;
mod pump;
#[cfg(test)]
mod tests;
mod wire;

pub use fault::Fault;
pub use plan::{Plan, RequestHead};

/// How long the proxy waits for either side. Only a hanging connection takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The pause after a failed accept, which happens when descriptors run out.
const ACCEPT_AGAIN: Duration = Duration::from_millis(10);

/// A proxy on a free port. When it is dropped, it cuts its connections and ends.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// A request that the proxy received, and its progress.
///
/// It is updated before the client can see a reply, so after a reply its status and bytes are here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Its place among all requests, from 0.
    pub index: usize,
    /// The method.
    pub verb: String,
    /// Path and query.
    pub target: String,
    /// `Content-Range` as it was sent.
    pub content_range: Option<String>,
    /// `Content-Length`; chunked bodies have none.
    pub content_length: Option<u64>,
    /// How many bytes of the body came from the client, without transfer coding; whether they were
    /// passed on or not.
    pub body_bytes_received: u64,
    /// How many of them were handed to the upstream's socket.
    pub body_bytes_forwarded: u64,
    /// The final status that the upstream answered, whether the client saw it or not.
    pub status: Option<u16>,
    /// The committed bytes according to the upstream's 308 (or the 200 in its place). Without a
    /// `Range` they are 0.
    pub committed: Option<u64>,
    /// Whether all of the upstream's reply was handed to the client's socket. Replies of the
    /// proxy's own do not count.
    pub delivered: bool,
    /// The fault that the plan chose.
    pub fault: Option<Fault>,
}

impl Exchange {
    /// Where the body of a data request begins in the media. `None` for any other request.
    pub fn first_byte(&self) -> Option<u64> {
        let range = self.content_range.as_deref()?.strip_prefix("bytes ")?;
        let (first, _) = range.split_once('-')?;
        first.parse().ok()
    }
}

/// The shared state of the proxy's threads.
#[derive(Debug)]
struct Shared {
    /// Separate from the state, because a plan runs the code of a test, which may be slow.
    plan: Mutex<Plan>,
    state: Mutex<State>,
    stopping: Condvar,
}

#[derive(Debug)]
struct State {
    upstream: SocketAddr,
    exchanges: Vec<Exchange>,
    /// All sockets, so that a stop can wake anyone who waits for them. Weak, because a fault must
    /// be able to close its socket by dropping it.
    sockets: Vec<Weak<TcpStream>>,
    stopped: bool,
}

/// One exchange's place in the list.
#[derive(Debug, Clone, Copy)]
struct Record<'a> {
    shared: &'a Shared,
    index: usize,
}

impl FaultProxy {
    /// Starts a proxy to `upstream` without faults.
    pub fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("a bound socket has a name");
        let shared = Arc::new(Shared::new(upstream));
        let acceptor = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || accept(&listener, &shared))
        };
        Self {
            address,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as the beginning of URLs, without a slash at its end.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the upstream for all further requests, for a server that starts again on another port.
    /// This includes requests of open connections. Requests on their way are not moved.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        self.shared.state().upstream = upstream;
    }

    /// Sets the plan for all further requests.
    pub fn set_plan(&self, plan: Plan) {
        *lock(&self.shared.plan) = plan;
    }

    /// The exchanges so far, in the order of their requests.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.shared.state().exchanges.clone()
    }
}

impl Drop for FaultProxy {
    /// # Panics
    /// When a thread of the proxy has panicked, which is most likely an assertion of the plan.
    fn drop(&mut self) {
        self.shared.stop();
        // Wakes the acceptor. If that is impossible, the acceptor is not waited for.
        let woken = TcpStream::connect_timeout(&self.address, PATIENCE).is_ok();
        if let Some(acceptor) = self.acceptor.take().filter(|_| woken) {
            let ended = acceptor.join();
            assert!(
                ended.is_ok() || thread::panicking(),
                "the plan, or the proxy itself, has panicked"
            );
        }
    }
}

impl Shared {
    fn new(upstream: SocketAddr) -> Self {
        Self {
            plan: Mutex::new(Plan::none()),
            state: Mutex::new(State {
                upstream,
                exchanges: Vec::new(),
                sockets: Vec::new(),
                stopped: false,
            }),
            stopping: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Writes the request down and asks the plan about it.
    fn begin(&self, head: &head::Head) -> (Record<'_>, Option<Fault>) {
        let index = {
            let mut state = self.state();
            let index = state.exchanges.len();
            state.exchanges.push(Exchange::of(index, head));
            index
        };
        let record = Record {
            shared: self,
            index,
        };
        let fault = lock(&self.plan).choose(&RequestHead::of(index, head));
        record.update(|exchange| exchange.fault = fault);
        (record, fault)
    }

    /// Lets a stop reach this socket. `false` when it is too late for that.
    fn register(&self, socket: &Arc<TcpStream>) -> bool {
        let mut state = self.state();
        state.sockets.retain(|socket| socket.strong_count() > 0);
        state.sockets.push(Arc::downgrade(socket));
        !state.stopped
    }

    /// Sleeps, but not beyond a stop.
    fn sleep(&self, time: Duration) {
        let state = self.state();
        let woken = self
            .stopping
            .wait_timeout_while(state, time, |state| !state.stopped);
        drop(woken);
    }

    fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        for socket in state.sockets.drain(..).filter_map(|weak| weak.upgrade()) {
            socket.shutdown(Shutdown::Both).ok();
        }
        self.stopping.notify_all();
    }
}

impl Exchange {
    fn of(index: usize, head: &head::Head) -> Self {
        Self {
            index,
            verb: head.verb().to_owned(),
            target: head.target().to_owned(),
            content_range: head.field("content-range").map(str::to_owned),
            content_length: head.content_length(),
            body_bytes_received: 0,
            body_bytes_forwarded: 0,
            status: None,
            committed: None,
            delivered: false,
            fault: None,
        }
    }
}

impl Record<'_> {
    fn update(self, change: impl FnOnce(&mut Exchange)) {
        change(&mut self.shared.state().exchanges[self.index]);
    }
}

/// The state is valid between any two statements, so a panic of another thread leaves it valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves each connection in a separate thread. Ends when the proxy is stopped and all connections
/// have ended.
fn accept(listener: &TcpListener, shared: &Shared) {
    thread::scope(|scope| {
        loop {
            let accepted = listener.accept();
            if shared.state().stopped {
                return;
            }
            match accepted {
                Ok((client, _)) => {
                    scope.spawn(move || connection::serve(shared, client));
                }
                Err(_) => shared.sleep(ACCEPT_AGAIN),
            }
        }
    });
}
