//! Names of assets, which are unique by advertiser.
//!
//! A name that is taken gets a number. The row of the first asset of a name counts how many there
//! are, so that the next number need not be searched.

use bytes::Bytes;
use serde_json::json;
use windlass_server::handler::{Call, Rejection, first_version};
use windlass_store::{Resource, ResourceChange};

use super::super::identifier::AssetName;

/// How many numbers are tried. More than one are needed only where somebody took such a name itself.
const TRIES: u64 = 100;

/// A name that is free, and what makes it taken.
pub(super) struct Taken {
    pub(super) name: AssetName,
    pub(super) changes: Vec<ResourceChange>,
}

/// The collection of an advertiser's names.
pub(super) fn collection(advertiser: i64) -> String {
    format!("dfareporting/{advertiser}/names")
}

/// Takes the name, or the next one that is made from it.
pub(super) async fn take(
    call: &Call<'_>,
    advertiser: i64,
    name: &AssetName,
) -> Result<Taken, Rejection> {
    let collection = collection(advertiser);
    let Some(first) = call.lookup.resource(&collection, name.as_str()).await? else {
        return Ok(Taken {
            name: name.clone(),
            changes: vec![ResourceChange::Insert(row(call, collection, name, 1))],
        });
    };
    let count = count(&first);
    // After so many that somebody took itself, the time is a number that nobody has.
    let numbers = (count + 1..=count + TRIES).chain([call.now.as_millis()]);
    for number in numbers {
        let copy = name.copy(number);
        if call
            .lookup
            .resource(&collection, copy.as_str())
            .await?
            .is_none()
        {
            let taken = row(call, collection, &copy, 1);
            let changes = vec![ResourceChange::Insert(taken), counted(call, first, number)];
            return Ok(Taken {
                name: copy,
                changes,
            });
        }
    }
    Err(Rejection::AlreadyExists {
        what: "asset".to_owned(),
        id: name.as_str().to_owned(),
    })
}

fn row(call: &Call<'_>, collection: String, name: &AssetName, count: u64) -> Resource {
    Resource {
        collection,
        id: name.as_str().to_owned(),
        version: first_version(),
        body: body(count),
        media: None,
        created: call.now,
        updated: call.now,
    }
}

fn counted(call: &Call<'_>, first: Resource, count: u64) -> ResourceChange {
    let expected = first.version;
    ResourceChange::Replace {
        resource: Resource {
            version: expected + 1,
            body: body(count),
            updated: call.now,
            ..first
        },
        expected,
    }
}

fn body(count: u64) -> Bytes {
    Bytes::from(json!({"count": count}).to_string())
}

fn count(row: &Resource) -> u64 {
    let body: serde_json::Value = serde_json::from_slice(&row.body).unwrap_or_default();
    body["count"].as_u64().unwrap_or(1)
}
