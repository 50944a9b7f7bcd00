//! The invariants, which must hold in every state.

use crate::bytes::Bytes;
use crate::event::Labels;
use crate::ledger::Status;
use crate::replica::Step;
use crate::rules::Configuration;
use crate::state::State;
use crate::store::{Extent, NameId, Place, Upload};

/// A broken invariant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Violation {
    /// A live session was ended because its media was not found.
    LiveSessionLost,
    /// One session has made two resources.
    TwoResources,
    /// The session or its resource does not have the acknowledged bytes.
    AcknowledgedBytesLost { acknowledged: Bytes, now: Bytes },
    /// The resource lacks bytes.
    ShortMedia,
    /// An upload was completed without parts that the row names: the session cannot be sealed.
    CompletedWithoutParts { upload: NameId },
    /// An upload was completed with parts that the row does not name.
    CompletedWithMore { upload: NameId },
    /// The store lacks bytes that the row names.
    MissingExtent(Extent),
    /// The store does not have the media of the resource.
    MissingMedia { media: NameId, bytes: Bytes },
    /// The row does not have a name that a commit has named. Only a listing of the store finds it.
    Leaked(NameId),
}

impl Violation {
    /// Describes the broken invariant to a reader.
    pub(crate) fn describe(self, labels: &Labels) -> String {
        match self {
            Self::LiveSessionLost => "a live session was ended as lost (410)".to_owned(),
            Self::TwoResources => "one session has made two resources".to_owned(),
            Self::AcknowledgedBytesLost { acknowledged, now } => {
                format!("{acknowledged} was acknowledged, and the media has {now}")
            }
            Self::ShortMedia => "the media of the resource is too short".to_owned(),
            Self::CompletedWithoutParts { upload } => {
                let upload = labels.of(upload);
                format!("{upload} was completed without parts that the row names")
            }
            Self::CompletedWithMore { upload } => {
                let upload = labels.of(upload);
                format!("{upload} was completed with parts that the row does not name")
            }
            Self::MissingExtent(extent) => {
                let extent = labels.extent(extent);
                format!("the row names {extent}, which the store does not have")
            }
            Self::MissingMedia { media, bytes } => {
                let media = labels.of(media);
                format!("the resource is {media} with {bytes}, which the store does not have")
            }
            Self::Leaked(name) => {
                let name = labels.of(name);
                format!("{name} leaked: a commit has named it, and now nothing knows it")
            }
        }
    }
}

/// Returns the first invariant that a state breaks.
pub(crate) fn violation(configuration: &Configuration, state: &State) -> Option<Violation> {
    if state.row.status == Status::Lost {
        return Some(Violation::LiveSessionLost);
    }
    if state.resources_made > 1 {
        return Some(Violation::TwoResources);
    }
    broken_promise(configuration, state)
        .or_else(|| missing_extent(configuration, state))
        .or_else(|| missing_media(state))
        .or_else(|| leak(state))
}

/// The session or its resource has the acknowledged bytes, and a resource has all bytes.
fn broken_promise(configuration: &Configuration, state: &State) -> Option<Violation> {
    let row = &state.row;
    let resource = row.resource.filter(|_| row.status == Status::Finished);
    if resource.is_none() && !row.is_open() {
        return None;
    }
    let now = resource.map_or_else(|| row.body(), |resource| resource.bytes);
    let acknowledged = state.acknowledged;
    if !now.starts_with(acknowledged) {
        return Some(Violation::AcknowledgedBytesLost { acknowledged, now });
    }
    let is_short = resource.is_some() && now.len() != configuration.total;
    is_short.then_some(Violation::ShortMedia)
}

/// The store has all extents that the row of an open session names, so that the session can be
/// sealed.
fn missing_extent(configuration: &Configuration, state: &State) -> Option<Violation> {
    let extents = state.row.extents.iter();
    let mut extents = extents.filter(|_| state.row.is_open());
    extents.find_map(|extent| {
        let name = state.store.name(extent.name);
        let is_there = match (extent.place, name.upload) {
            (Place::Object, _) => name.object == extent.bytes,
            (Place::Part(cell), Upload::Open) => name.part(cell) == extent.bytes,
            (Place::Part(_), Upload::Completed) => {
                return missing_part(configuration, state, *extent);
            }
            (Place::Part(_), Upload::None | Upload::Aborted) => false,
        };
        (!is_there).then_some(Violation::MissingExtent(*extent))
    })
}

/// A completed upload has exactly the parts that the row names. After a failover that lost a commit
/// it may have more parts; then the named range of its object is used.
fn missing_part(configuration: &Configuration, state: &State, extent: Extent) -> Option<Violation> {
    let upload = extent.name;
    let object = state.store.name(upload).object;
    let extents = state.row.extents.iter();
    let named = extents.filter(|other| other.name == upload);
    let named = Bytes::concat(named.map(|extent| extent.bytes));
    if object.len() < named.len() && !object.is_empty() {
        return Some(Violation::CompletedWithoutParts { upload });
    }
    if object.len() > named.len() && !configuration.loses_last_write {
        return Some(Violation::CompletedWithMore { upload });
    }
    (!object.starts_with(named)).then_some(Violation::MissingExtent(extent))
}

fn missing_media(state: &State) -> Option<Violation> {
    let resource = state.row.resource?;
    let (media, bytes) = (resource.media, resource.bytes);
    let is_there = state.store.name(media).object == bytes;
    (!is_there).then_some(Violation::MissingMedia { media, bytes })
}

/// A name that a commit has named is still named, is garbage, or is gone. While the standby lacks a
/// write, or while an operation on the name is under way, the ledger may still come to know it.
fn leak(state: &State) -> Option<Violation> {
    if state.standby.is_some() {
        return None;
    }
    let is_being_deleted = |id: NameId| {
        let mut holders = state.replicas.iter().flatten();
        holders.any(|it| matches!(&it.step, Step::DeleteDropped(names) if names.contains(&id)))
    };
    let mut named = state.store.ids();
    let leaked = named.find(|(id, name)| {
        let is_stored = name.was_named && name.exists();
        let is_known = state.row.references(*id) || state.is_write_under_way(*id);
        is_stored && !is_known && !is_being_deleted(*id)
    });
    leaked.map(|(id, _)| Violation::Leaked(id))
}
