//! Who takes part.

use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use windlass_testkit::checker::{Dialect, Google, Resumable308, Tus};

use crate::outcome::Lacking;
use crate::server_under_test::ServerUnderTest;
use crate::tool::run;

/// A server, and how to speak to it.
pub(super) struct Contestant {
    /// Its name in the table.
    pub(super) name: &'static str,
    /// Its packages with their versions, in its own words.
    pub(super) versions: String,
    /// A remark that is needed to read its rows fairly.
    pub(super) note: &'static str,
    pub(super) dialect: Arc<dyn Dialect>,
    pub(super) server_under_test: ServerUnderTest,
    /// Whether it is our server, so that a broken rule is a defect of ours.
    pub(super) is_ours: bool,
}

/// A server of others: name, program, script, note, dialect.
type Peer = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Arc<dyn Dialect>,
);

/// Returns our server, and the servers that are installed in `peers`.
///
/// # Errors
/// [`Lacking`] if the other servers are not installed.
pub(super) fn all(ours: &ServerUnderTest, peers: &Path) -> anyhow::Result<Vec<Contestant>> {
    let mut all = vec![Contestant {
        name: "Windlass",
        versions: run(&ours.binary.to_string_lossy(), ["--version"])?,
        note: "defaults; syncs media and ledger before it acknowledges",
        dialect: Arc::new(Google::farm()),
        server_under_test: ours.clone(),
        is_ours: true,
    }];
    for peer in others() {
        all.push(installed(peer, ours, peers)?);
    }
    Ok(all)
}

fn others() -> [Peer; 3] {
    [
        (
            "tus-node",
            "node",
            "tus.mjs",
            "Server and FileStore as in the README; downloads are read off the disk, since its own GET ends the process when a client closes early",
            Arc::new(Tus::at("/files")),
        ),
        (
            "uploadx",
            "node",
            "uploadx.mjs",
            "uploadDir as in the README; chunks do not overlap, since the protocol does not speak of that; downloads are read off the disk",
            Arc::new(Resumable308::at("/files")),
        ),
        (
            "tuspyserver",
            "venv/bin/python",
            "tuspyserver_app.py",
            "router as in the README, one uvicorn worker; downloads are read off the disk",
            Arc::new(Tus::at("/files")),
        ),
    ]
}

fn installed(peer: Peer, ours: &ServerUnderTest, peers: &Path) -> anyhow::Result<Contestant> {
    let (name, program, script, note, dialect) = peer;
    if !peers.join(script).is_file() {
        bail!(Lacking(format!(
            "{name} is not installed in {}: run testing/chaos/peers/install",
            peers.display()
        )));
    }
    let program = if program.contains('/') {
        peers.join(program).into_os_string()
    } else {
        program.into()
    };
    let script = peers.join(script).into_os_string();
    let versions = run(&program.to_string_lossy(), [&script, &"--version".into()])?;
    Ok(Contestant {
        name,
        versions,
        note,
        dialect,
        server_under_test: ServerUnderTest {
            instead: Some(vec![program, script]),
            arguments: Vec::<String>::new(),
            ..ours.clone()
        },
        is_ours: false,
    })
}
