//! The permits of connections. On a full listener, some connections give up their permits for
//! connections that wait in the kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderValue;
use http::header::CONNECTION;
use windlass_engine::{Permit, Pool};

use crate::callers::AddressShare;
use crate::reply::Reply;

/// The permits for connections of one listener.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// The pool of all listeners.
    pool: Pool,
    /// Whether the listener waits for a permit. Connections may then be waiting for the listener.
    is_full: Arc<AtomicBool>,
}

impl Places {
    pub(super) fn new(pool: Pool) -> Self {
        Self {
            pool,
            is_full: Arc::default(),
        }
    }

    /// Waits for a permit for the next connection.
    pub(super) async fn next(&self) -> Permit {
        // Relaxed: the flag is a hint, and no other memory depends on it.
        self.is_full.store(self.pool.is_empty(), Ordering::Relaxed);
        let permit = self.pool.acquire(1).await;
        self.is_full.store(false, Ordering::Relaxed);
        permit
    }

    /// Whether few permits are left.
    pub(super) fn are_short(&self) -> bool {
        self.pool.is_short()
    }

    /// Returns the place of a connection. `share` counts the connections of its address; `None` if
    /// they are not counted.
    pub(super) fn of_connection(&self, share: Option<AddressShare>) -> Place {
        Place {
            is_full: Arc::clone(&self.is_full),
            share,
        }
    }
}

/// The place of one connection on its listener.
#[derive(Debug, Clone)]
pub(super) struct Place {
    is_full: Arc<AtomicBool>,
    share: Option<AddressShare>,
}

impl Place {
    /// Whether the connection should end once its running requests are answered. It should if other
    /// connections are waiting and its own address does not have few. Otherwise clients with busy
    /// connections would keep all other clients out.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
            && !self.share.as_ref().is_some_and(AddressShare::is_modest)
    }

    /// Adds `Connection: close` to the reply if the place is wanted. This ends an HTTP/1
    /// connection.
    pub(super) fn make_room(&self, mut reply: Reply) -> Reply {
        if self.is_wanted() {
            let close = HeaderValue::from_static("close");
            reply.headers_mut().insert(CONNECTION, close);
        }
        reply
    }
}
