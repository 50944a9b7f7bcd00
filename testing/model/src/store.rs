//! The object store: names, each of which is a multipart upload or an object.

use crate::bytes::Bytes;
use crate::rules::{Configuration, Mutation};

/// The largest number of cells of a configuration's media.
pub(crate) const MAX_CELLS: usize = 2;

/// The index of a name in the store. [`crate::state::State::canonical`] changes the indices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct NameId(u8);

impl NameId {
    pub(crate) fn of_index(index: usize) -> Self {
        Self(u8::try_from(index).expect("a state has few names"))
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A lease of the session. Its number stands for an id that is drawn at random.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Lease(pub(crate) u8);

/// Where under its name a range is stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Place {
    /// The part of a multipart upload that has the media's cell of this number.
    Part(u8),
    /// The object with this name: a piece of the tail, or the composed media.
    Object,
}

/// A range of the media, as a row of the ledger names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Extent {
    pub(crate) name: NameId,
    pub(crate) place: Place,
    pub(crate) bytes: Bytes,
}

/// The state of a name's multipart upload. A name that was made for an object has `None`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Upload {
    None,
    Open,
    Completed,
    Aborted,
}

/// The purpose of a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Purpose {
    /// The multipart upload of one lease: a run.
    Run,
    /// A piece of the tail that ends at this offset of the media.
    Piece { end: u8 },
    /// The media that is composed of several runs and pieces.
    Composed,
}

/// The values from which a mutation derives a name. The design draws names at random.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct DerivedName {
    lease: Option<Lease>,
    purpose: Purpose,
}

impl DerivedName {
    /// Rule R1: names are random. Returns `None`, except in a mutation that derives this name.
    fn of(configuration: &Configuration, lease: Lease, purpose: Purpose) -> Option<Self> {
        let is_piece = matches!(purpose, Purpose::Piece { .. });
        let (lease, purpose) = match configuration.mutation? {
            Mutation::EpochReused => (Some(lease), purpose),
            Mutation::NamesReused => (None, purpose),
            Mutation::TailRewritten if is_piece => (None, Purpose::Piece { end: 0 }),
            Mutation::OneNameForComposed if purpose == Purpose::Composed => (None, purpose),
            _ => return None,
        };
        Some(Self { lease, purpose })
    }
}

/// A name in the store, and its content.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Name {
    /// The lease under which the name was made.
    pub(crate) lease: Lease,
    derived: Option<DerivedName>,
    /// Whether a commit has ever named it.
    pub(crate) was_named: bool,
    pub(crate) upload: Upload,
    parts: [Bytes; MAX_CELLS],
    /// Empty without an object.
    pub(crate) object: Bytes,
}

impl Name {
    /// Whether the store keeps anything under this name.
    pub(crate) fn exists(&self) -> bool {
        self.upload == Upload::Open || !self.object.is_empty()
    }

    /// The part with a cell of the media; empty without one.
    pub(crate) fn part(&self, cell: u8) -> Bytes {
        let part = self.parts.get(usize::from(cell));
        part.copied().unwrap_or_default()
    }
}

/// The object store.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Store {
    pub(crate) names: Vec<Name>,
}

impl Store {
    pub(crate) fn name(&self, id: NameId) -> &Name {
        &self.names[id.index()]
    }

    /// All names with their ids.
    pub(crate) fn ids(&self) -> impl Iterator<Item = (NameId, &Name)> {
        let names = self.names.iter().enumerate();
        names.map(|(index, name)| (NameId::of_index(index), name))
    }

    /// Makes a name under a lease. The upload of a run is open at once.
    pub(crate) fn create(
        &mut self,
        configuration: &Configuration,
        lease: Lease,
        purpose: Purpose,
    ) -> NameId {
        let derived = DerivedName::of(configuration, lease, purpose);
        let is_same = |name: &Name| derived.is_some() && name.derived == derived;
        if let Some(index) = self.names.iter().position(is_same) {
            return NameId::of_index(index);
        }
        self.names.push(Name {
            lease,
            derived,
            was_named: false,
            upload: match purpose {
                Purpose::Run => Upload::Open,
                Purpose::Piece { .. } | Purpose::Composed => Upload::None,
            },
            parts: [Bytes::default(); MAX_CELLS],
            object: Bytes::default(),
        });
        NameId::of_index(self.names.len() - 1)
    }

    /// Stores an extent. Returns whether it was stored: a part needs an open upload.
    pub(crate) fn put(&mut self, extent: Extent) -> bool {
        let name = &mut self.names[extent.name.index()];
        match extent.place {
            Place::Object => name.object = extent.bytes,
            Place::Part(_) if name.upload != Upload::Open => return false,
            Place::Part(cell) => name.parts[usize::from(cell)] = extent.bytes,
        }
        true
    }

    /// Completes an upload of the parts with these cells. Returns whether its object has their
    /// bytes.
    ///
    /// Rule R8: an unknown or second Complete is followed by a HEAD. The object may be longer than
    /// the parts if a failover has lost the last commit. Its beginning is the same, because one
    /// lease writes a run.
    pub(crate) fn complete(&mut self, id: NameId, cells: &[u8]) -> bool {
        let name = &mut self.names[id.index()];
        let whole = Bytes::concat(cells.iter().map(|cell| name.part(*cell)));
        if name.upload == Upload::Open {
            name.upload = Upload::Completed;
            name.object = whole;
        }
        name.upload == Upload::Completed && name.object.starts_with(whole)
    }

    /// Aborts the upload, then deletes the object (rule R9). If the object were deleted first, a
    /// Complete before the abort would bring it back.
    pub(crate) fn delete(&mut self, id: NameId) {
        let name = &mut self.names[id.index()];
        if name.upload == Upload::Open {
            name.upload = Upload::Aborted;
        }
        name.object = Bytes::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Version;
    use crate::configurations::designs;

    /// A store with an upload that has one part.
    fn with_upload() -> (Store, NameId, Bytes) {
        let mut store = Store::default();
        let run = store.create(&designs()[0], Lease(1), Purpose::Run);
        let bytes = Bytes::of(2, Version::Original);
        let place = Place::Part(0);
        assert!(store.put(Extent {
            name: run,
            place,
            bytes
        }));
        (store, run, bytes)
    }

    #[test]
    fn completed_upload_takes_no_part() {
        let (mut store, run, bytes) = with_upload();
        assert!(store.complete(run, &[0]));
        assert_eq!(store.name(run).object, bytes);
        let changed = Bytes::of(2, Version::Changed);
        let place = Place::Part(0);
        assert!(!store.put(Extent {
            name: run,
            place,
            bytes: changed
        }));
        assert!(store.complete(run, &[0]), "a second Complete finds it");
    }

    #[test]
    fn deleted_upload_cannot_be_completed() {
        let (mut store, run, _) = with_upload();
        store.delete(run);
        assert!(!store.complete(run, &[0]));
        assert!(!store.name(run).exists());
    }

    #[test]
    fn late_put_brings_a_deleted_object_back() {
        let mut store = Store::default();
        let name = store.create(&designs()[0], Lease(1), Purpose::Piece { end: 1 });
        let bytes = Bytes::of(1, Version::Original);
        let place = Place::Object;
        store.delete(name);
        store.put(Extent { name, place, bytes });
        assert!(store.name(name).exists());
    }

    #[test]
    fn names_are_equal_only_in_a_mutation_that_derives_them() {
        let purpose = Purpose::Piece { end: 1 };
        let make_two = |mutation| {
            let configuration = Configuration {
                mutation,
                ..designs()[0].clone()
            };
            let mut store = Store::default();
            let first = store.create(&configuration, Lease(1), purpose);
            first == store.create(&configuration, Lease(2), purpose)
        };
        assert!(!make_two(None));
        assert!(make_two(Some(Mutation::NamesReused)));
        assert!(!make_two(Some(Mutation::EpochReused)));
    }
}
