//! Media that comes with a change set in addition to the upload's media.

use bytes::Bytes;

use super::super::{Names, finish, one, step};
use super::{
    conflicts, fenced, found, is_garbage, lease, no_lease, session, small, start, unknown,
};
use crate::change_set::{AddedMedia, ChangeSet, MAX_ADDED_MEDIA, ResourceChange};
use crate::ledger::{Ledger, LedgerError};
use crate::records::{Epoch, Lease, MediaId, MediaRef, StoredName};

use ResourceChange::{Delete, Insert};

/// Checks change sets with additional media.
pub(super) async fn check_added_media(ledger: &dyn Ledger) {
    each_media_of_a_change_set_gets_its_resource(ledger).await;
    refused_change_set_stores_none_of_its_media(ledger).await;
    added_media_that_no_resource_takes_is_released(ledger).await;
    added_media_is_released_with_its_resource(ledger).await;
    change_set_with_too_much_media_changes_nothing(ledger).await;
}

/// Returns a change set that finishes session 0. It brings the media 0 of the session in the vault,
/// the media 1 and 2 in the ledger and the media 3 and 4 in the vault. A resource references each.
fn with_five_media(names: Names, held: Lease) -> ChangeSet {
    let resource = |id: &str, media| Insert(names.resource(id, Some(media)));
    ChangeSet {
        resources: vec![
            resource("upload", names.large(0)),
            resource("small", names.small(1)),
            resource("added small", names.small(2)),
            resource("large", names.large(3)),
            resource("added large", names.large(4)),
        ],
        small_media: Some((names.media(1), Bytes::from_static(b"wind"))),
        new_media: Some(StoredName::of(names.media(3))),
        added_media: vec![
            added_small(names.small(2), b"lass"),
            AddedMedia::Vault(StoredName::of(names.media(4))),
        ],
        finish: Some(finish(names.session(0), held, Some(names.large(0)))),
        ..ChangeSet::default()
    }
}

const FIVE: [&str; 5] = ["upload", "small", "added small", "large", "added large"];

/// Starts session 0, with the media 0 in the vault. Returns its lease.
async fn start_upload(ledger: &dyn Ledger, names: Names) -> Lease {
    let id = start(ledger, names.new_session(0)).await.id;
    let held = lease(ledger, id).await.lease;
    let commit = step(0, 10, Some(names.large(0)));
    ledger.commit_offset(id, held, commit).await.unwrap();
    held
}

async fn each_media_of_a_change_set_gets_its_resource(ledger: &dyn Ledger) {
    let names = Names::of("each_media_of_a_change_set_gets_its_resource");
    let held = start_upload(ledger, names).await;
    ledger.apply(with_five_media(names, held)).await.unwrap();
    for id in FIVE {
        assert!(found(ledger, &names, id).await.is_some(), "{id}");
    }
    assert_eq!(stored(ledger, names.media(1)).await, b"wind");
    assert_eq!(stored(ledger, names.media(2)).await, b"lass");
    let large = [0, 3, 4].map(|n| names.media(n));
    for id in large {
        assert!(!is_garbage(ledger, id).await);
    }
    assert_eq!(unknown(ledger, &large).await, []);
}

async fn refused_change_set_stores_none_of_its_media(ledger: &dyn Ledger) {
    let names = Names::of("refused_change_set_stores_none_of_its_media");
    let held = start_upload(ledger, names).await;
    let before = session(ledger, names.session(0)).await;
    let with_last = |last| {
        let mut changes = with_five_media(names, held);
        changes.resources.push(last);
        changes
    };
    let taken = names.resource("upload", None);
    conflicts(ledger.apply(with_last(Insert(taken))).await);
    let foreign = names.resource("late", Some(names.large(9)));
    conflicts(ledger.apply(with_last(Insert(foreign))).await);
    // The media 2 comes in the ledger, and not in the vault.
    let elsewhere = names.resource("late", Some(names.large(2)));
    conflicts(ledger.apply(with_last(Insert(elsewhere))).await);
    fenced(
        ledger
            .apply(with_five_media(names, no_lease(Epoch(0))))
            .await,
    );

    for id in FIVE {
        assert_eq!(found(ledger, &names, id).await, None, "{id}");
    }
    for n in 0..=4 {
        assert_eq!(small(ledger, names.media(n)).await, None);
        assert!(!is_garbage(ledger, names.media(n)).await);
    }
    let added = [3, 4].map(|n| names.media(n));
    assert_eq!(unknown(ledger, &added).await, added);
    assert_eq!(session(ledger, names.session(0)).await, before);
}

async fn added_media_that_no_resource_takes_is_released(ledger: &dyn Ledger) {
    let names = Names::of("added_media_that_no_resource_takes_is_released");
    let changes = ChangeSet {
        small_media: Some((names.media(0), Bytes::from_static(b"wind"))),
        added_media: vec![
            added_small(names.small(1), b"lass"),
            AddedMedia::Vault(StoredName::of(names.media(2))),
            AddedMedia::Vault(StoredName::of(names.media(3))),
        ],
        ..one(Insert(names.resource("picture", Some(names.small(0)))))
    };
    ledger.apply(changes).await.unwrap();
    assert_eq!(stored(ledger, names.media(0)).await, b"wind");
    assert_eq!(small(ledger, names.media(1)).await, None);
    for n in [2, 3] {
        assert!(is_garbage(ledger, names.media(n)).await);
    }
}

async fn added_media_is_released_with_its_resource(ledger: &dyn Ledger) {
    let names = Names::of("added_media_is_released_with_its_resource");
    let held = start_upload(ledger, names).await;
    ledger.apply(with_five_media(names, held)).await.unwrap();
    for id in ["added small", "added large"] {
        let delete = Delete {
            collection: names.collection(),
            id: id.to_owned(),
            expected: 1,
        };
        ledger.apply(one(delete)).await.unwrap();
    }
    assert_eq!(stored(ledger, names.media(1)).await, b"wind");
    assert_eq!(small(ledger, names.media(2)).await, None);
    assert!(!is_garbage(ledger, names.media(3)).await);
    assert!(is_garbage(ledger, names.media(4)).await);
}

async fn change_set_with_too_much_media_changes_nothing(ledger: &dyn Ledger) {
    let names = Names::of("change_set_with_too_much_media_changes_nothing");
    let maximum = u8::try_from(MAX_ADDED_MEDIA).unwrap();
    let with = |count: u8| ChangeSet {
        resources: (0..count)
            .map(|n| Insert(names.resource(&n.to_string(), Some(names.small(n)))))
            .collect(),
        added_media: (0..count)
            .map(|n| added_small(names.small(n), b"wind"))
            .collect(),
        ..ChangeSet::default()
    };
    let refused = ledger.apply(with(maximum + 1)).await;
    assert!(
        matches!(refused, Err(LedgerError::TooMuchMedia)),
        "{refused:?}"
    );
    assert_eq!(found(ledger, &names, "0").await, None);
    assert_eq!(small(ledger, names.media(0)).await, None);
    ledger.apply(with(maximum)).await.unwrap();
    for n in 0..maximum {
        assert_eq!(stored(ledger, names.media(n)).await, b"wind");
    }
}

fn added_small(media: MediaRef, bytes: &'static [u8]) -> AddedMedia {
    AddedMedia::Small {
        id: media.id,
        bytes: Bytes::from_static(bytes),
    }
}

async fn stored(ledger: &dyn Ledger, id: MediaId) -> Vec<u8> {
    let bytes = small(ledger, id).await;
    bytes.expect("the media is stored").into()
}
