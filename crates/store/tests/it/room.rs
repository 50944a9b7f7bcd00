//! Which changes make space.

use bytes::Bytes;
use windlass_store::{
    AddedMedia, ChangeSet, MediaId, Resource, ResourceChange, StoredName, Timestamp,
};

fn resource(id: &str, version: u64, len: usize) -> Resource {
    Resource {
        collection: "c".to_owned(),
        id: id.to_owned(),
        version,
        body: vec![0; len].into(),
        media: None,
        created: Timestamp::from_millis(0),
        updated: Timestamp::from_millis(0),
        due: None,
        claimed_by: None,
        owner: None,
    }
}

fn insert(id: &str, len: usize) -> ResourceChange {
    ResourceChange::Insert(resource(id, 1, len))
}

fn delete(id: &str) -> ResourceChange {
    ResourceChange::Delete {
        collection: "c".to_owned(),
        id: id.to_owned(),
        expected: 1,
    }
}

#[test]
fn change_set_makes_space_when_it_deletes_more_than_it_inserts() {
    let replace = |len| ResourceChange::Replace {
        resource: resource("r", 2, len),
        expected: 1,
    };
    let cases = [
        (vec![], false),
        (vec![insert("a", 1)], false),
        (vec![replace(1)], false),
        (vec![delete("a")], true),
        (vec![delete("a"), insert("b", 1)], true),
        (vec![delete("a"), insert("b", 1), replace(1)], false),
        (
            vec![delete("a"), delete("b"), insert("c", 1), replace(1)],
            true,
        ),
        (vec![delete("a"), insert("b", 1), insert("c", 1)], false),
        (vec![delete("a"), insert("b", 100 << 10)], false),
        (vec![delete("a"), replace(100 << 10)], false),
    ];
    for (number, (resources, expected)) in cases.into_iter().enumerate() {
        let mut changes = ChangeSet {
            resources,
            ..ChangeSet::default()
        };
        assert_eq!(changes.makes_space(), expected, "case {number}");
        let id = MediaId::from_bytes([1; 16]);
        changes.added_media = vec![AddedMedia::Vault(StoredName::of(id))];
        assert_eq!(changes.makes_space(), expected, "case {number}, in vault");
        let bytes = Bytes::new();
        changes.added_media = vec![AddedMedia::Small { id, bytes }];
        assert!(!changes.makes_space(), "case {number}, with added media");
        changes.added_media.clear();
        changes.small_media = Some((id, Bytes::new()));
        assert!(!changes.makes_space(), "case {number}, with media");
    }
}

#[test]
fn all_small_media_of_a_change_set_counts() {
    let id = |n| MediaId::from_bytes([n; 16]);
    let small = |n, bytes: &'static [u8]| AddedMedia::Small {
        id: id(n),
        bytes: Bytes::from_static(bytes),
    };
    let changes = ChangeSet {
        small_media: Some((id(1), Bytes::from_static(b"wind"))),
        new_media: Some(StoredName::of(id(2))),
        added_media: vec![
            small(3, b"lass"),
            AddedMedia::Vault(StoredName::of(id(4))),
            small(5, b"mill"),
        ],
        ..ChangeSet::default()
    };
    assert_eq!((changes.rows(), changes.payload()), (3, 12));
}
