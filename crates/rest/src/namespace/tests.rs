use bytes::Bytes;
use windlass_store::Timestamp;

use super::*;

fn resource(collection: &str) -> Resource {
    Resource {
        collection: collection.to_owned(),
        id: "1".to_owned(),
        version: 7,
        body: Bytes::from_static(b"{}"),
        media: None,
        created: Timestamp::from_millis(1),
        updated: Timestamp::from_millis(1),
        due: None,
        claimed_by: None,
        owner: None,
    }
}

#[test]
fn names_get_the_encoded_owner_and_lose_it_again() {
    let table = [
        (None, "drive/files"),
        (Some("alice"), ".owner/alice/drive/files"),
        (Some(""), ".owner//drive/files"),
        (Some("a@b.c"), ".owner/a%40b%2Ec/drive/files"),
        (Some("a/b"), ".owner/a%2Fb/drive/files"),
        (Some(".."), ".owner/%2E%2E/drive/files"),
        (Some("é%"), ".owner/%C3%A9%25/drive/files"),
    ];
    for (owner, expected) in table {
        let namespace = Namespace::of(owner);
        assert_eq!(namespace.qualified("drive/files"), expected);
        let seen = namespace.to_handler(resource(expected));
        assert_eq!(seen, resource("drive/files"));
    }
}

#[test]
fn every_name_in_changes_is_qualified() {
    let inserted = resource("a");
    let changes = |name: &str| {
        [
            ResourceChange::Insert(resource(name)),
            ResourceChange::Replace {
                resource: resource(name),
                expected: 6,
            },
            ResourceChange::Delete {
                collection: name.to_owned(),
                id: "1".to_owned(),
                expected: 7,
            },
        ]
    };
    let namespace = Namespace::of(Some("alice"));
    let mut qualified = changes("a");
    namespace.qualify_changes(&mut qualified);
    let expected = changes(".owner/alice/a");
    assert_eq!(format!("{qualified:?}"), format!("{expected:?}"));
    let mut expected = [Expected::unchanged(&inserted)];
    namespace.qualify_expected(&mut expected);
    assert_eq!(expected[0].collection, ".owner/alice/a");
}

#[test]
fn owner_is_separate_where_access_is_owner_and_resources_without_owner_are_not_theirs() {
    let (alice, token) = (Principal::new("alice"), Principal::new("token"));
    let table = [
        (Access::Shared, None, None),
        (Access::Shared, Some(&alice), None),
        (Access::Owner, None, None),
        (Access::Owner, Some(&alice), Some("alice")),
        (Access::Owner, Some(&token), None),
    ];
    for (access, principal, expected) in table {
        let owner = separate_owner(access, Some("token"), principal).map(Principal::id);
        assert_eq!(owner, expected, "{access} {principal:?}");
    }
    for (unowned, separate) in [
        (Some("alice"), [None, Some(&token)]),
        (None, [Some(&alice), Some(&token)]),
    ] {
        let owner = |principal| separate_owner(Access::Owner, unowned, Some(principal));
        assert_eq!([owner(&alice), owner(&token)], separate);
    }
}
