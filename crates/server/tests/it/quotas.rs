//! Quotas of one principal.

use std::sync::Arc;

use http::Request;
use serde_json::json;
use windlass_discovery::Api;
use windlass_server::{Principal, ServedApi, Stores};
use windlass_store::Ledger as _;
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_testkit::farm;
use windlass_testkit::in_process::{Body, Peer, Reply};

use crate::world::{World, limits};

/// Requests of Alice.
struct Alice {
    world: World,
    ledger: Arc<MemoryLedger>,
}

impl Alice {
    /// A server with this quota in bytes. 0 is no limit.
    fn with_quota(bytes_per_principal: u64) -> Self {
        let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
        let ledger = Arc::new(MemoryLedger::new());
        let stores = Stores {
            ledger: ledger.clone(),
            vault: Arc::new(MemoryVault::new()),
        };
        let mut limits = limits();
        limits.bytes_per_principal = bytes_per_principal;
        let farm = ServedApi::with_default_handler(farm);
        let world = World::limited(farm, stores, Arc::default(), limits);
        Self { world, ledger }
    }

    /// Starts an upload of three bytes, with fields that take nearly as much as fields may.
    async fn start(&self) -> String {
        let uri = "/upload/farm/v1/animals?uploadType=resumable";
        let fields = json!({"description": "a".repeat(900_000)}).to_string();
        let headers = [
            ("content-type", "application/json"),
            ("x-upload-content-length", "3"),
        ];
        let reply = self.send("POST", uri, &headers, fields).await;
        reply.location(World::ORIGIN).to_owned()
    }

    async fn bytes(&self) -> u64 {
        self.ledger
            .usage("alice")
            .await
            .expect("it is memory")
            .bytes
    }
}

impl Peer for Alice {
    const ORIGIN: &'static str = World::ORIGIN;

    async fn try_exchange(&self, mut request: Request<Body>) -> Reply {
        request.extensions_mut().insert(Principal::new("alice"));
        self.world.try_exchange(request).await
    }
}

/// The resource has the fields of the start once more, and so has the reply.
#[tokio::test]
async fn session_at_its_quota_ends_however_long_its_fields_are() {
    let unlimited = Alice::with_quota(0);
    unlimited.start().await;
    let quota = unlimited.bytes().await;

    let alice = Alice::with_quota(quota);
    let session = alice.start().await;
    assert_eq!(alice.bytes().await, quota, "it is at its quota");
    let last = [("content-range", "bytes 0-2/3")];
    let reply = alice.send("PUT", &session, &last, "abc").await;
    assert_eq!(reply.status, 201, "{reply:?}");
    assert!(
        alice.bytes().await > quota + 512 * 1024,
        "it grew by its fields"
    );
    let refused = alice.send("POST", farm::ANIMALS, &[], "{}").await;
    assert_eq!(refused.status, 429);
}
