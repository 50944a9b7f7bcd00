//! The state that calls of the APIs share: the APIs, their stores, and the limits on their replies.

use std::net::IpAddr;
use std::sync::Arc;

use windlass_discovery::Access;
use windlass_engine::identifiers::Clock;
use windlass_engine::locks::{KeyedGuard, KeyedMutex};
use windlass_engine::{Error as EngineError, Importance};
use windlass_rest::handler::{ApiHandler, Call, ReplyMemoryPermit, StoreHandles};
use windlass_rest::namespace::{Namespace, separate_owner};
use windlass_rest::outbox::Outbox;
use windlass_rest::principal::{Principal, caller};
use windlass_rest::registry::{Registry, ServedApi};

use crate::audit::Audit;
use crate::auth::Authorize;
use crate::callers::AddressLimits;
use crate::capacity::Capacity;
use crate::config::Settings;
use crate::dialects::Dialects;
use crate::error::Error;
use crate::metrics::Recorder;

/// The state that calls of the APIs share. It gives uploads their meaning.
pub(crate) struct Calls {
    pub(crate) settings: Arc<Settings>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) dialects: Arc<Dialects>,
    pub(crate) authorize: Arc<dyn Authorize>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) audit: Audit,
    /// Counts the server's work.
    pub(crate) metrics: Arc<Recorder>,
    /// Limits on the resources that clients can make the server hold.
    pub(crate) capacity: Capacity,
    /// Limits on the connections of each address.
    pub(crate) address_limits: AddressLimits,
    /// The topics of the events that handlers commit for later delivery.
    pub(crate) outbox: Arc<Outbox>,
    /// The stores as handlers see them.
    pub(crate) store_handles: StoreHandles,
    /// Serialises calls of one [lock key](ApiHandler::lock_key).
    pub(crate) keyed_mutex: Arc<KeyedMutex>,
}

impl Calls {
    /// Returns a permit for the memory of one reply to this client. It counts no bytes yet.
    pub(crate) fn reply_memory(
        &self,
        principal: Option<&Principal>,
        client: Option<IpAddr>,
    ) -> ReplyMemoryPermit {
        let importance = || self.address_limits.importance_to(client, Importance::Query);
        ReplyMemoryPermit::new(
            &self.capacity.replies,
            caller(principal, client),
            importance,
        )
    }

    /// Returns the principal if its resources are separate from other principals' resources in an
    /// API with this access.
    pub(crate) fn separate_owner<'a>(
        &self,
        access: Access,
        principal: Option<&'a Principal>,
    ) -> Option<&'a Principal> {
        let unowned = self.settings.unowned_principal.as_deref();
        separate_owner(access, unowned, principal)
    }

    /// Returns the owner of the resources that a call of the API may see, and the namespace of the
    /// call. The owner is `None` if the call sees all resources. If the handler limits its calls
    /// itself, they are in the root namespace.
    pub(crate) fn ownership<'a>(
        &self,
        served_api: &ServedApi,
        principal: Option<&'a Principal>,
    ) -> (Option<&'a Principal>, Namespace) {
        let access = served_api.api.settings().access;
        let owner = self.separate_owner(access, principal);
        let in_namespace = owner.filter(|_| !served_api.handler.separates_owners());
        (owner, Namespace::of(in_namespace.map(Principal::id)))
    }

    /// Waits for the lock of the call's [lock key](ApiHandler::lock_key); `None` if the handler
    /// names no key.
    ///
    /// # Errors
    /// [`EngineError::Crowded`] after
    /// [`Limits::takeover_timeout`](crate::config::Limits::takeover_timeout).
    pub(crate) async fn lock_for(
        &self,
        handler: &dyn ApiHandler,
        call: &Call<'_>,
    ) -> Result<Option<KeyedGuard>, Error> {
        self.lock(handler.lock_key(call), call).await
    }

    /// As [`Calls::lock_for`], with a key that the handler has given for the call.
    pub(crate) async fn lock(
        &self,
        key: Option<String>,
        call: &Call<'_>,
    ) -> Result<Option<KeyedGuard>, Error> {
        let Some(key) = key else {
            return Ok(None);
        };
        // This lock is unrelated to takeovers of sessions. Only the limit on the wait is the same.
        let timeout = self.settings.limits.takeover_timeout;
        let key = call.lookup.namespace().qualified(&key).into_owned();
        let guard = self.keyed_mutex.take(key, timeout).await;
        Ok(Some(guard.map_err(|_| EngineError::Crowded)?))
    }
}
