//! Each case confines only its own thread.

use std::fs::{self, OpenOptions};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::thread;

use tempfile::TempDir;
use windlass_testkit::skip::skipped;

use super::*;

/// Runs `then` in a thread that is confined, unless the kernel cannot.
fn confined(allowed: Allowed, then: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(move || match landlock::restrict(&allowed) {
        Ok(Confined::ByLandlock(abi)) => {
            assert!(abi > 0);
            then();
        }
        Ok(Confined::Unsupported) => skipped("this kernel has no Landlock"),
        other => panic!("{other:?}"),
    });
    thread.join().expect("it does not panic");
}

#[track_caller]
fn is_refused<T>(result: io::Result<T>) {
    let error = result.map(drop).expect_err("it must be refused");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn only_what_is_allowed_can_be_opened() {
    let root = directory();
    let path = |name: &str| root.path().join(name);
    for name in ["data", "read", "log", "other"] {
        fs::create_dir(path(name)).expect("a directory");
        fs::write(path(name).join("file"), name).expect("a file");
    }
    let allowed = Allowed {
        data: [path("data")].into(),
        read: [path("read")].into(),
        append: [path("log")].into(),
        ..Allowed::default()
    };
    let root = root.path().to_owned();
    confined(allowed, move || {
        let path = |name: &str| root.join(name);
        fs::write(path("data/new"), "new").expect("the data can be changed");
        fs::rename(path("data/new"), path("data/file")).expect("and renamed");
        assert_eq!(fs::read(path("data/file")).expect("and read"), b"new");
        fs::remove_file(path("data/file")).expect("and removed");
        fs::read(path("read/file")).expect("it can be read");
        is_refused(fs::write(path("read/file"), "new"));
        is_refused(fs::write(path("read/new"), "new"));
        let mut append = OpenOptions::new();
        append.append(true).create(true);
        append.open(path("log/file")).expect("it can be written to");
        append.open(path("log/new")).expect("it can be made");
        is_refused(fs::read(path("log/file")));
        is_refused(fs::remove_file(path("log/file")));
        is_refused(fs::read(path("other/file")));
        is_refused(fs::read("/etc/passwd"));
        is_refused(fs::create_dir(path("new")));
    });
}

#[test]
fn file_that_is_replaced_or_linked_can_be_read() {
    let root = directory();
    let path = |name: &str| root.path().join(name);
    for name in ["live", "archive"] {
        fs::create_dir(path(name)).expect("a directory");
    }
    fs::write(path("archive/1"), "1").expect("a file");
    symlink(path("archive/1"), path("live/key")).expect("a link");
    let allowed = Allowed {
        read: places(&path("live/key")).collect(),
        ..Allowed::default()
    };
    fs::write(path("archive/2"), "2").expect("a file");
    symlink(path("archive/2"), path("live/new")).expect("a link");
    fs::rename(path("live/new"), path("live/key")).expect("it is replaced");
    let key = path("live/key");
    confined(allowed, move || {
        assert_eq!(fs::read(key).expect("it is allowed"), b"2");
    });
}

#[test]
fn only_the_ports_of_the_server_can_be_listened_on() {
    let free = || TcpListener::bind("127.0.0.1:0").expect("a port");
    let (listener, allowed_one) = (free(), free());
    let listening = listener.local_addr().expect("an address");
    let allowed_address = allowed_one.local_addr().expect("an address");
    drop(allowed_one);
    let allowed = Allowed {
        ports: [allowed_address.port()].into(),
        ..Allowed::default()
    };
    confined(allowed, move || {
        is_refused(TcpListener::bind("127.0.0.1:0"));
        TcpListener::bind(allowed_address).expect("it is the server's");
        TcpStream::connect(listening).expect("connections are free");
    });
}

#[test]
fn directory_of_a_file_is_never_the_root_directory() {
    let of = |path: &str| places(Path::new(path)).collect::<Vec<_>>();
    assert_eq!(of("/no-token"), [PathBuf::from("/no-token")]);
    assert_eq!(of("no-token"), [PathBuf::from(".")]);
    assert_eq!(
        of("/etc/windlass/no-token"),
        [PathBuf::from("/etc/windlass")]
    );
}

/// Runs in a separate process, because both settings apply to the whole process.
#[test]
fn process_leaves_no_core_dump_and_cannot_be_read_by_others() {
    use rustix::process::{DumpableBehavior, dumpable_behavior, getrlimit};

    const ALONE: &str = "TEST_OF_CORE_DUMPS";
    if std::env::var_os(ALONE).is_some() {
        forbid_core_dumps();
        let limit = getrlimit(Resource::Core);
        assert_eq!((limit.current, limit.maximum), (Some(0), Some(0)));
        let behavior = dumpable_behavior().expect("it is known");
        assert_eq!(behavior, DumpableBehavior::NotDumpable);
        return;
    }
    let name = "commands::serve::confinement::tests::process_leaves_no_core_dump_and_cannot_be_read_by_others";
    windlass_testkit::alone::run(name, ALONE);
}
