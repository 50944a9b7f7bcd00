//! The state that all requests of a server share.

use std::net::IpAddr;
use std::sync::Arc;

use windlass_engine::disks::CheckedStores;
use windlass_engine::identifiers::Clock;
use windlass_engine::lifecycle::Lifecycle;
use windlass_engine::{Engine, Importance};
use windlass_rest::outbox::Outbox;
use windlass_rest::registry::Registry;

use crate::audit::Audit;
use crate::auth::Authorize;
use crate::callers::{AddressLimits, RateLimits};
use crate::calls::Calls;
use crate::capacity::Capacity;
use crate::config::Settings;
use crate::context::RequestIds;
use crate::dialects::Dialects;
use crate::known_hosts::KnownHosts;
use crate::metrics::Recorder;

/// The state that all requests of a server share.
pub(crate) struct ServerState {
    pub(crate) settings: Arc<Settings>,
    /// Path prefix under which an application mounts the server; empty if it is not mounted.
    pub(crate) mount: String,
    /// The hosts that requests may name.
    pub(crate) known_hosts: KnownHosts,
    pub(crate) authorize: Arc<dyn Authorize>,
    pub(crate) audit: Audit,
    pub(crate) dialects: Arc<Dialects>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) request_ids: RequestIds,
    /// Limits on the resources that clients can make the server hold.
    pub(crate) capacity: Capacity,
    /// Limits on the connections of each address.
    pub(crate) address_limits: AddressLimits,
    pub(crate) rates: RateLimits,
    /// Fail-stop, drain, and work that outlives its request.
    pub(crate) lifecycle: Arc<Lifecycle>,
    /// Counts the server's work.
    pub(crate) metrics: Arc<Recorder>,
    /// The ledger and the vault, with the free space on their disks.
    pub(crate) stores: CheckedStores,
    pub(crate) registry: Arc<Registry>,
    /// The topics of the events that handlers commit for later delivery.
    pub(crate) outbox: Arc<Outbox>,
    /// The uploads. Each is a call of an API.
    pub(crate) engine: Engine<Calls>,
}

impl ServerState {
    /// Returns the state that calls of the APIs share.
    pub(crate) fn calls(&self) -> &Calls {
        self.engine.completion()
    }

    /// Returns the importance of a request of this client.
    pub(crate) fn importance_to(
        &self,
        client: Option<IpAddr>,
        importance: Importance,
    ) -> Importance {
        self.address_limits.importance_to(client, importance)
    }
}
