use super::super::tests::{MB, disks};
use super::*;

/// Disks with this much room above the soft limit, on one disk or on two.
fn with_room(room: u64, is_shared: bool) -> Arc<Disks> {
    let free = room + 256 * MB;
    Arc::new(disks(free, free, is_shared))
}

fn space_of(disks: &Arc<Disks>, name: &str) -> MediaSpace {
    let caller = Caller::Principal(name.to_owned());
    MediaSpace::new(Arc::clone(disks), Some(caller))
}

/// Sets bytes aside for a new upload; `None` if they do not fit.
fn begin(disks: &Arc<Disks>, name: &str, bytes: u64) -> Option<MediaSpace> {
    let space = space_of(disks, name);
    let done = space.set_aside(bytes, Leaving::Soft);
    done.is_ok().then_some(space)
}

#[test]
fn only_the_uploads_that_fit_together_are_admitted() {
    for is_shared in [false, true] {
        let disks = with_room(628 * MB, is_shared);
        let admitted: Vec<_> = (0..24)
            .filter_map(|_| begin(&disks, "alice", 60 * MB))
            .collect();
        assert_eq!(admitted.len(), 10);
        assert_eq!(disks.set_aside(), 600 * MB);
        for space in &admitted {
            let written = space.admit_write(60 << 20);
            drop(written.expect("it is set aside"));
        }
        assert_eq!(disks.set_aside(), 0, "all is written");
        assert_eq!(disks.vault.available(), (256 + 28) * MB);
    }
}

#[test]
fn space_is_set_aside_until_it_is_written_or_given_up() {
    let disks = with_room(500 * MB, true);
    let copy = begin(&disks, "alice", 200 * MB).unwrap();
    assert!(begin(&disks, "alice", 301 * MB).is_none());
    assert!(begin(&disks, "alice", u64::MAX).is_none());
    drop(copy.count_write(150 * MB));
    assert_eq!(disks.set_aside(), 50 * MB);
    assert_eq!(disks.ledger.available(), (256 + 350) * MB);
    drop(copy.count_write(60 * MB));
    assert!(!copy.holds_bytes(), "it was longer than declared");
    drop(copy);
    let copy = begin(&disks, "alice", 100 * MB).unwrap();
    drop(copy);
    assert_eq!(disks.set_aside(), 0);
    assert!(disks.set_aside.lock().callers.is_empty());
}

#[test]
fn fuller_of_two_files_on_one_disk_counts() {
    for (is_shared, fits) in [(true, false), (false, true)] {
        let disks = Arc::new(disks(300 * MB, 500 * MB, is_shared));
        assert_eq!(begin(&disks, "alice", 100 * MB).is_some(), fits);
    }
}

#[test]
fn claim_can_be_replaced_by_a_smaller_or_larger_one() {
    let disks = with_room(100 * MB, true);
    let space = begin(&disks, "alice", 60 * MB).unwrap();
    space.set_aside(100 * MB, Leaving::Soft).unwrap();
    assert!(space.set_aside(101 * MB, Leaving::Soft).is_err());
    assert_eq!(disks.set_aside(), 100 * MB, "it is as it was");
    space.set_aside(290 * MB, Leaving::Hard).unwrap();
    space.set_aside(10 * MB, Leaving::Soft).unwrap();
    assert_eq!(disks.set_aside(), 10 * MB);
}

#[test]
fn nothing_can_be_set_aside_where_all_is_claimed() {
    let disks = with_room(100 * MB, true);
    let claim = space_of(&disks, "alice");
    claim.set_aside(200 * MB, Leaving::Hard).unwrap();
    assert!(begin(&disks, "alice", 1).is_none());
    assert!(begin(&disks, "alice", 0).is_some());
    claim.set_aside(0, Leaving::Soft).expect("it is given up");
}

#[test]
fn claims_of_one_caller_leave_room_to_others() {
    let disks = with_room(400 * MB, true);
    let claims: Vec<_> = (0..4)
        .filter_map(|_| begin(&disks, "alice", 100 * MB))
        .collect();
    assert_eq!(claims.len(), 4);
    assert!(begin(&disks, "alice", MB).is_none(), "she has it all");
    let bobs = begin(&disks, "bob", 300 * MB).expect("a quarter of the room counts");
    assert!(begin(&disks, "bob", MB).is_none());
    let carols = begin(&disks, "carol", 200 * MB);
    assert!(
        carols.is_some(),
        "neither keeps more than a quarter from her"
    );
    drop((claims, bobs, carols));
    assert_eq!(disks.set_aside(), 0);
}

#[test]
fn claims_of_many_callers_leave_half_of_the_room() {
    let disks = with_room(400 * MB, true);
    let claims: Vec<_> = ["a", "b", "c", "d", "e", "f"]
        .iter()
        .filter_map(|name| begin(&disks, name, 100 * MB))
        .collect();
    assert_eq!(claims.len(), 6);
    let other = begin(&disks, "other", 200 * MB).expect("half of the room is left");
    assert!(
        begin(&disks, "other", MB).is_none(),
        "its own count in full"
    );
    let chunked = begin(&disks, "chunked", 0).expect("it begins");
    let written = chunked.admit_write(1 << 20);
    drop(written.expect("half of the room is left"));
    drop((claims, other, chunked));
    assert_eq!(disks.set_aside(), 0);
}

#[test]
fn media_of_unknown_length_leaves_what_is_set_aside() {
    let disks = with_room(100 * MB, true);
    let declared = begin(&disks, "alice", 100 * MB).unwrap();
    let chunked = begin(&disks, "alice", 0).expect("it begins");
    // Above the hard limit are 292 MB, and 100 MB of them are set aside.
    let written = (0..400)
        .take_while(|_| chunked.admit_write(1 << 20).is_ok())
        .count();
    assert_eq!(written, 193, "the last write begins above the limit");
    for _ in 0..99 {
        drop(declared.admit_write(1 << 20).expect("it is set aside"));
    }
    assert!(chunked.admit_write(1).is_err());
    assert!(chunked.admit_write(0).is_ok(), "there is nothing to write");
}
