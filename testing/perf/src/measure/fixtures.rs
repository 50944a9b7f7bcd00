//! The data before a measurement. It is made once over the wire, as clients would leave it, and
//! copied for each round.
//!
//! The store's own interface would make a million items sooner. Over the wire, the same code serves
//! every server, and this program needs no knowledge of any of them. It takes minutes, once per
//! run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::data_dirs::DataDirs;
use crate::load::{self, Load, LoadTarget, Operation, Shape};
use crate::scenario::{Fixture, Part};

use super::Site;

/// Connections that make it. A server that commits in groups is quicker with many.
const CONNECTIONS: usize = 128;

/// How long it may take. Who is slower cannot take part.
const LIMIT: Duration = Duration::from_secs(600);

/// The fixtures made so far, by contestant.
#[derive(Debug, Default)]
pub(crate) struct Fixtures {
    made: BTreeMap<(String, Fixture), PathBuf>,
}

impl Fixtures {
    /// Returns a new data directory that contains the fixture.
    ///
    /// # Errors
    /// The directory cannot be made, or the disk is full.
    pub(crate) fn data_dir(
        &mut self,
        site: &Site,
        part: &Part<'_>,
        data_dirs: &mut DataDirs,
    ) -> anyhow::Result<PathBuf> {
        if part.fixture.is_empty() {
            return data_dirs.new_dir(part.footprint());
        }
        let fixture = self.of(site, part, data_dirs)?;
        if part.leaves_fixture_unchanged() {
            return Ok(fixture);
        }
        let directory = data_dirs.new_dir(part.footprint())?;
        copy(&fixture, &directory)?;
        data_dirs.settle()?;
        Ok(directory)
    }

    fn of(
        &mut self,
        site: &Site,
        part: &Part<'_>,
        data_dirs: &DataDirs,
    ) -> anyhow::Result<PathBuf> {
        let key = (part.contestant.name.clone(), part.fixture);
        if let Some(made) = self.made.get(&key) {
            return Ok(made.clone());
        }
        let place = data_dirs.file_store(&format!("stock-{}", self.made.len()))?;
        make(site, part, &place).context("what has to be there")?;
        data_dirs.settle()?;
        self.made.insert(key, place.clone());
        Ok(place)
    }
}

fn make(site: &Site, part: &Part<'_>, place: &Path) -> anyhow::Result<()> {
    let server = site.start(part, place)?;
    let load_target = site.load_target(part, &server);
    let load = |count, operation, shape| {
        let load = Load {
            count,
            connections: CONNECTIONS,
            limit: LIMIT,
            ..Load::of_size(Fixture::MEDIA)
        };
        let tally = load::carry_out(
            LoadTarget {
                shape,
                ..load_target
            },
            &load,
            operation,
        )?;
        let done = tally.done;
        ensure!(done == count, "only {done} of {count} within {LIMIT:?}");
        Ok(())
    };
    let session = match part.shape {
        Shape::Tus | Shape::TusChunks => part.shape,
        _ => Shape::Session,
    };
    load(part.fixture.sessions, Operation::Begin, session)?;
    load(part.fixture.resources, Operation::Upload, Shape::Simple)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("cp");
    command.args(["--recursive", "--reflink=auto"]);
    let status = command.arg(from.join(".")).arg(to).status()?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
