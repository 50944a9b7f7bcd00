//! The places of connections, and which are given up for the connections that wait in the kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderValue;
use http::header::CONNECTION;

use crate::callers::AddressShare;
use crate::capacity::{Permit, Pool};
use crate::reply::Reply;

/// The places of the connections of one listener.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// Those of all listeners.
    pool: Pool,
    /// Whether the listener waits for a place, and connections may wait for the listener.
    is_full: Arc<AtomicBool>,
}

impl Places {
    pub(super) fn new(pool: Pool) -> Self {
        Self {
            pool,
            is_full: Arc::default(),
        }
    }

    /// Waits for a place for the next connection.
    pub(super) async fn next(&self) -> Permit {
        self.is_full.store(self.pool.is_empty(), Ordering::Relaxed);
        let permit = self.pool.acquire(1).await;
        self.is_full.store(false, Ordering::Relaxed);
        permit
    }

    /// Whether few places are left.
    pub(super) fn are_short(&self) -> bool {
        self.pool.is_short()
    }

    /// Returns the place of a connection. `share` tells of the connections of its address, if they are counted.
    pub(super) fn of_connection(&self, share: Option<AddressShare>) -> Place {
        Place {
            is_full: Arc::clone(&self.is_full),
            share,
        }
    }
}

/// The place of a connection.
#[derive(Debug, Clone)]
pub(super) struct Place {
    is_full: Arc<AtomicBool>,
    share: Option<AddressShare>,
}

impl Place {
    /// Whether it is to be given up, once the requests that have begun are answered: others wait for it, and its
    /// address has not few. Clients that keep connections busy would otherwise keep all others out.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
            && !self.share.as_ref().is_some_and(AddressShare::is_modest)
    }

    /// Ends a connection over HTTP/1 with this reply if its place is wanted.
    pub(super) fn make_room(&self, mut reply: Reply) -> Reply {
        if self.is_wanted() {
            let close = HeaderValue::from_static("close");
            reply.headers_mut().insert(CONNECTION, close);
        }
        reply
    }
}
