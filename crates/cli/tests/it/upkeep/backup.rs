//! `windlass backup`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::{Request, exchange};
use windlass_testkit::session::{CHUNK_GRANULARITY, Session};
use windlass_testkit::wait;

use super::{assert_sound, run};
use crate::server::own;

/// Media for the vault.
const LARGE: Media = Media::new(1, 3 * CHUNK_GRANULARITY + 5);

/// Uploads, cancels and deletes until `stop` is set. Returns the number of rounds.
fn load(address: SocketAddr, seed: u64, stop: &AtomicBool) -> u64 {
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        let media = Media::new(seed * 1000 + rounds, CHUNK_GRANULARITY + 1 + rounds % 9);
        let id = farm::id(&farm::upload(address, media));
        let session = farm::begin(address, "load");
        session.append(media, 0..CHUNK_GRANULARITY).expect(308);
        session.cancel().expect(499);
        let delete = Request::new("DELETE", farm::animal(&id)).body("");
        exchange(address, &delete).expect(204);
        rounds += 1;
    }
    rounds
}

/// Uploads that were acknowledged before a backup: finished uploads with their sessions, and an
/// open upload.
struct Acknowledged {
    finished: Vec<(Media, Session)>,
    open: Session,
}

impl Acknowledged {
    fn upload(address: SocketAddr) -> Self {
        let sizes = [40_000, LARGE.len(), 9 * CHUNK_GRANULARITY];
        let finished = (50..).zip(sizes).map(|(seed, len)| {
            let media = Media::new(seed, len);
            let session = farm::begin(address, "before");
            session.append(media, 0..len).expect(201);
            (media, session)
        });
        let finished = finished.collect();
        let open = farm::begin(address, "open");
        open.append(LARGE, 0..CHUNK_GRANULARITY).expect(308);
        Self { finished, open }
    }

    #[track_caller]
    fn check(&self, address: SocketAddr) {
        for (media, session) in &self.finished {
            let reply = session.moved_to(address).query().expect(201);
            let download = exchange(address, &farm::download(&farm::id(&reply))).expect(200);
            assert!(
                download.body == media.whole(),
                "a finished upload lost bytes"
            );
        }
        let open = self.open.moved_to(address);
        assert_eq!(open.query().expect(308).committed(), CHUNK_GRANULARITY);
        open.append(LARGE, CHUNK_GRANULARITY..LARGE.len())
            .expect(201);
    }
}

#[test]
fn a_backup_made_under_load_is_served_with_all_that_was_acknowledged_before() {
    let mut server = own(&[]);
    let address = server.address();
    let target = server.beside_data("backup");
    let acknowledged = Acknowledged::upload(address);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let loads: Vec<_> = (1..5)
            .map(|seed| {
                scope.spawn({
                    let stop = &stop;
                    move || load(address, seed, stop)
                })
            })
            .collect();
        for _ in 0..4 {
            let ran = run(
                "backup",
                &server.data(),
                &[target.to_str().unwrap(), "--json"],
            );
            assert_eq!(ran.code, Some(0), "{ran:?}");
            assert_eq!(ran.summary()["damage"], 0);
            assert_eq!(assert_sound(&target), 0);
        }
        stop.store(true, Ordering::Relaxed);
        for load in loads {
            assert!(load.join().unwrap() > 0, "there was no load");
        }
    });
    server.terminate();
    assert_sound(&server.data());
    server.replace_data(&target);
    server.start_again();
    acknowledged.check(server.address());
    server.terminate();
    assert_sound(&server.data());
}

#[test]
fn media_kept_for_a_backup_is_deleted_afterwards() {
    let mut server = own(&[]);
    let address = server.address();
    let id = farm::id(&farm::upload(address, LARGE));
    let hold = std::fs::File::create(server.data().join("hold")).unwrap();
    hold.lock_shared().unwrap();
    exchange(address, &Request::new("DELETE", farm::animal(&id)).body("")).expect(204);
    let target = server.beside_data("backup");
    let ran = run("backup", &server.data(), &[target.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    drop(hold);
    server.terminate();
    let mut repair = None;
    // A process that another test starts has the hold, too, until it runs its program.
    wait::until("the hold is given back", || {
        let ran = run("verify", &server.data(), &["--repair", "--json"]);
        let is_held = ran.stderr.contains("is being backed up");
        repair = Some(ran);
        !is_held
    });
    let ran = repair.unwrap();
    assert_eq!(ran.events()[0]["fault"], "garbage", "{ran:?}");
    assert_eq!(assert_sound(&server.data()), 0);
}

#[test]
fn destination_that_is_not_a_backup_is_refused() {
    let server = own(&[]);
    let target = server.beside_data("letters");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("letter"), "mine").unwrap();
    let ran = run("backup", &server.data(), &[target.to_str().unwrap()]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(
        ran.stderr.contains("is neither empty nor a backup\nhint: "),
        "{ran:?}"
    );
    assert_eq!(target.read_dir().unwrap().count(), 1);
}

#[test]
fn an_incomplete_backup_is_not_served() {
    let mut server = own(&[]);
    server.terminate();
    let target = server.beside_data("backup");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("backup.incomplete"), "").unwrap();
    let ran = run(
        "serve",
        &target,
        &["--listen", "127.0.0.1:0", "--allow-unsafe-filesystem"],
    );
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(
        ran.stderr
            .contains("is a backup that was not completed\nhint: "),
        "{ran:?}"
    );
}
