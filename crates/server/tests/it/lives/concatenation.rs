//! Every call to a store fails while an upload is concatenated from partial uploads.
//!
//! In the first process a client makes two partial uploads, one of them small, and concatenates
//! them. After the crash it repeats what was not acknowledged. There is one file then, or two if the
//! first reply was lost, each with all bytes, and nothing else is left.

use std::sync::Arc;

use windlass_store::fault::{Faults, InjectedFault, Trigger};
use windlass_testkit::farm::UPLOADS;
use windlass_testkit::media::Media;
use windlass_testkit::test_scale::is_long;

use super::{in_process, in_trouble, promises, sweep};
use crate::power::{LocalStores, MemoryStores, ObjectStores, PoweredStores, Survivors};
use crate::world::{Peer as _, Reply, World};

const MEDIA: Media = Media::new(3, 60);

/// The small one stays in the ledger.
const PARTS: [std::ops::Range<u64>; 2] = [0..50, 50..60];

const VERSION: (&str, &str) = ("tus-resumable", "1.0.0");

/// The partial uploads that a client knows to be complete, and the number of its requests for the
/// concatenation without and with a reply.
#[derive(Debug, Default)]
struct Client {
    partials: Vec<String>,
    unanswered: usize,
    made: usize,
}

impl Client {
    /// Does what is left to be done, until the server fails.
    async fn work(&mut self, world: &World) {
        for range in PARTS.into_iter().skip(self.partials.len()) {
            let length = (range.end - range.start).to_string();
            let headers = [
                VERSION,
                ("upload-concat", "partial"),
                ("upload-length", &*length),
                ("content-type", "application/offset+octet-stream"),
            ];
            let bytes = MEDIA.bytes(range);
            let created = world.try_send("POST", UPLOADS, &headers, bytes).await;
            if !is_made(&created) || created.headers["upload-offset"] != length {
                return;
            }
            self.partials
                .push(created.location(World::ORIGIN).to_owned());
        }
        if self.made == 0 {
            let list = format!("final;{}", self.partials.join(" "));
            let headers = [VERSION, ("upload-concat", &*list)];
            let made = world.try_send("POST", UPLOADS, &headers, "").await;
            let count = if is_made(&made) {
                &mut self.made
            } else {
                &mut self.unanswered
            };
            *count += 1;
        }
    }

    async fn check(&self, world: &World) {
        let ids = world.ids().await;
        let most = self.made + self.unanswered;
        assert!((self.made..=most).contains(&ids.len()), "{self:?}: {ids:?}");
        for id in ids {
            let media = world.download(&id).await;
            assert!(media.body == MEDIA.whole(), "{self:?}: {media:?}");
        }
        for (target, range) in self.partials.iter().zip(PARTS) {
            let asked = world.send("HEAD", target, &[VERSION], "").await;
            assert_eq!(asked.status, 200, "{self:?}: {asked:?}");
            let offset = (range.end - range.start).to_string();
            assert_eq!(asked.headers["upload-offset"], offset);
            assert_eq!(asked.headers["upload-concat"], "partial");
        }
    }
}

/// Whether a creation has succeeded. A server with faults may refuse it, with statuses of its own.
fn is_made(created: &Reply) -> bool {
    let is_refused = created.status == 503 || created.status == 500;
    assert!(created.status == 201 || is_refused, "{created:?}");
    created.status == 201
}

/// Lives with these faults. Returns the names of the calls in the first process.
fn live<S: PoweredStores>(faults: Faults) -> Vec<&'static str> {
    let (mut stores, clock) = (S::new(), Arc::default());
    let (mut client, faults) = (Client::default(), Arc::new(faults));
    let in_first = in_trouble(stores.stores(), &faults);
    in_process(&in_first, &clock, async |world, stores| {
        client.work(world).await;
        sweep(stores, world).await;
    });
    drop(in_first);
    stores.crash(Survivors::None);
    in_process(&stores.stores(), &clock, async |world, _| {
        client.check(world).await;
        client.work(world).await;
        assert_eq!(client.made, 1, "{client:?}");
    });
    stores.crash(Survivors::None);
    in_process(&stores.stores(), &clock, async |world, stores| {
        client.check(world).await;
        promises::check_media(world, stores).await;
        promises::check_events(stores).await;
    });
    faults.names()
}

/// Each call fails once; with `and_from`, also each call from then on.
fn fail_each_call<S: PoweredStores>(and_from: bool) {
    let calls = live::<S>(Faults::new(Trigger::Never, InjectedFault::Fault));
    assert!(calls.contains(&"concat") && calls.contains(&"apply"));
    for fault in [
        InjectedFault::Fault,
        InjectedFault::LateFault,
        InjectedFault::Lost,
        InjectedFault::Unavailable,
        InjectedFault::NoSpace,
    ] {
        for nth in 1..=calls.len() as u64 {
            live::<S>(Faults::new(Trigger::Once(nth), fault));
            if and_from {
                live::<S>(Faults::new(Trigger::From(nth), fault));
            }
        }
    }
}

#[test]
fn concatenation_survives_each_fault_over_memory() {
    fail_each_call::<MemoryStores>(true);
}

#[test]
fn concatenation_survives_each_fault_over_objects() {
    fail_each_call::<ObjectStores<16>>(true);
}

#[test]
fn concatenation_survives_each_fault_over_the_local_store() {
    fail_each_call::<LocalStores>(is_long());
}
