//! The servers that the tests talk to.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use windlass_testkit::process::{Launch, ServerProcess};

/// A server of the Farm API with its default settings. All tests that need no other share it.
pub(crate) fn farm() -> SocketAddr {
    static SERVER: OnceLock<ServerProcess> = OnceLock::new();
    SERVER.get_or_init(|| own(&[])).address()
}

/// A server of the Pond API: small pictures only, every digest, 200 for whatever is created. Notes
/// have no media.
pub(crate) fn pond() -> SocketAddr {
    static SERVER: OnceLock<ServerProcess> = OnceLock::new();
    let api = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/pond.toml");
    SERVER.get_or_init(|| own(&["--api", api])).address()
}

/// A server of the Shelf API: media of every type.
pub(crate) fn shelf() -> SocketAddr {
    static SERVER: OnceLock<ServerProcess> = OnceLock::new();
    let api = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/shelf.toml");
    SERVER.get_or_init(|| own(&["--api", api])).address()
}

/// A server of one test's own.
pub(crate) fn own(arguments: &[&str]) -> ServerProcess {
    with_environment(arguments, Vec::new())
}

/// A server of one test's own with these variables in its environment.
pub(crate) fn with_environment(
    arguments: &[&str],
    environment: Vec<(&'static str, String)>,
) -> ServerProcess {
    ServerProcess::start(Launch {
        binary: program(),
        scratch: scratch(),
        arguments: arguments.iter().map(ToString::to_string).collect(),
        environment,
    })
}

/// A server of one test's own with this configuration file, which is gone once it has started.
pub(crate) fn with_configuration(settings: &str) -> ServerProcess {
    let directory = tempfile::tempdir_in(scratch()).expect("it is writable");
    let config = directory.path().join("windlass.toml");
    std::fs::write(&config, settings).expect("it is writable");
    own(&["--config", config.to_str().expect("it is UTF-8")])
}

/// Puts a FIFO in the place of a file. Nobody writes to it.
pub(crate) fn replace_by_fifo(path: &Path) {
    std::fs::remove_file(path).expect("it is there");
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.is_ok_and(|status| status.success()), "no FIFO");
}

/// The tested program. It is Cargo's build, or the program that `PROGRAM_UNDER_TEST` names, such as
/// a release. (The server would warn of a variable that begins with its own prefix.)
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        std::env::var_os("PROGRAM_UNDER_TEST")
            .unwrap_or_else(|| env!("CARGO_BIN_EXE_windlass").into())
            .into()
    })
}

/// The directory in which tests may make directories.
pub(crate) fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}
