//! System calls, sorted by their effect.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use super::counts::Totals;

/// The effect of a system call. Calls with no effect in this list are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Makes data or names durable, and waits for it.
    Sync,
    /// Begins to write data back.
    WriteBack,
    /// Changes a file's length, or reserves room.
    Length,
    /// Writes to a file of the server's data.
    FileWrite,
    /// Reads from one.
    FileRead,
    /// Opens, makes, renames or removes a file or directory.
    Name,
    /// Reads the metadata of a file or directory. Queries of the whole file system are left out,
    /// because they happen at intervals.
    Look,
    /// Locks or unlocks a file.
    Lock,
    /// Reads from a socket.
    SocketRead,
    /// Writes to a socket.
    SocketWrite,
}

/// The part of a call's effect that its name tells.
#[derive(Debug, Clone, Copy)]
enum Verb {
    Does(Class),
    /// It writes or reads, and its descriptor says where.
    Writes,
    Reads,
    /// It locks, if its command says so.
    Controls,
}

/// The traced calls. strace ignores calls that a machine does not have.
const VERBS: [(Verb, &[&str]); 9] = [
    (
        Verb::Does(Class::Sync),
        &["fsync", "fdatasync", "msync", "sync", "syncfs"],
    ),
    (Verb::Does(Class::WriteBack), &["sync_file_range"]),
    (
        Verb::Does(Class::Length),
        &["ftruncate", "truncate", "fallocate"],
    ),
    (
        Verb::Writes,
        &[
            "write", "pwrite64", "writev", "pwritev", "pwritev2", "sendto", "sendmsg",
        ],
    ),
    (
        Verb::Reads,
        &[
            "read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg",
        ],
    ),
    (
        Verb::Does(Class::Name),
        &[
            "open",
            "openat",
            "openat2",
            "creat",
            "mkdir",
            "mkdirat",
            "link",
            "linkat",
            "rename",
            "renameat",
            "renameat2",
            "unlink",
            "unlinkat",
            "rmdir",
        ],
    ),
    (
        Verb::Does(Class::Look),
        &[
            "stat",
            "lstat",
            "fstat",
            "newfstatat",
            "statx",
            "access",
            "faccessat",
            "faccessat2",
            "readlink",
            "readlinkat",
            "getdents64",
        ],
    ),
    (Verb::Does(Class::Lock), &["flock"]),
    (Verb::Controls, &["fcntl"]),
];

/// The names of all calls to be traced.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    VERBS.iter().flat_map(|(_, names)| names.iter().copied())
}

/// How many calls there were, and how many bytes they took or gave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    calls: u64,
    bytes: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.bytes += other.bytes;
    }
}

/// The traced calls, by class.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(BTreeMap<Class, Tally>);

impl Calls {
    /// Adds the trace of one thread by strace. `data` is the directory of the server's data.
    pub(crate) fn read(&mut self, trace: &str, data: &str) {
        for call in trace.lines().filter_map(Call::parse) {
            if let Some(class) = call.class(data) {
                let bytes = call.returned.unwrap_or_default();
                *self.0.entry(class).or_default() += Tally { calls: 1, bytes };
            }
        }
    }

    /// The totals, by the names that README.md explains.
    pub(crate) fn figures(&self) -> Totals {
        let calls = |class| self.of(class).calls;
        let bytes = |class| self.of(class).bytes;
        let copied = [
            Class::SocketRead,
            Class::SocketWrite,
            Class::FileRead,
            Class::FileWrite,
        ];
        Totals::from([
            ("syncs", calls(Class::Sync)),
            ("write-backs", calls(Class::WriteBack)),
            ("lengths", calls(Class::Length)),
            ("file-writes", calls(Class::FileWrite)),
            ("file-reads", calls(Class::FileRead)),
            ("names", calls(Class::Name)),
            ("looks", calls(Class::Look)),
            ("locks", calls(Class::Lock)),
            ("socket-reads", calls(Class::SocketRead)),
            ("socket-writes", calls(Class::SocketWrite)),
            ("bytes-copied", copied.map(bytes).iter().sum()),
        ])
    }

    fn of(&self, class: Class) -> Tally {
        self.0.get(&class).copied().unwrap_or_default()
    }
}

/// A line of strace's.
#[derive(Debug)]
struct Call<'a> {
    verb: Verb,
    arguments: &'a str,
    returned: Option<u64>,
}

impl<'a> Call<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (name, rest) = line.split_once('(')?;
        let (verb, _) = VERBS.iter().find(|(_, names)| names.contains(&name))?;
        let (arguments, result) = rest.rsplit_once(" = ")?;
        let returned = result.split(' ').next()?.parse().ok();
        Some(Self {
            verb: *verb,
            arguments,
            returned,
        })
    }

    fn class(&self, data: &str) -> Option<Class> {
        let (socket, file) = match self.verb {
            Verb::Does(class) => return Some(class),
            Verb::Controls => return self.arguments.contains("SETLK").then_some(Class::Lock),
            Verb::Writes => (Class::SocketWrite, Class::FileWrite),
            Verb::Reads => (Class::SocketRead, Class::FileRead),
        };
        // The descriptor comes first: `7</path>` or `7<socket:[1]>`.
        let (_, target) = self.arguments.split_once('<')?;
        if target.starts_with("socket:") {
            return Some(socket);
        }
        target.starts_with(data).then_some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_by_name_descriptor_and_command() {
        let trace = r#"
recvfrom(24<socket:[11773481]>, ""..., 65536, 0, NULL, NULL) = 4242
recvfrom(24<socket:[11773481]>, 0x7fe11ce665d0, 65536, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)
write(4<anon_inode:[eventfd]>, ""..., 8) = 8
write(2</elsewhere/stderr>, ""..., 69) = 69
pwritev(28</data/vault/61/c9/61c9>, [...], 10, 0) = 300000
pwrite64(13</data/ledger.sqlite-wal>, ""..., 4096, 36864) = 4096
fcntl(11</data/lock>, F_GETFD) = 0x1 (flags FD_CLOEXEC)
fcntl(15</data/ledger.sqlite-shm>, F_SETLK, {l_type=F_UNLCK, l_whence=SEEK_SET, l_start=124, l_len=1}) = 0
fdatasync(28</data/vault/61/c9/61c9>) = 0
statfs("/data/vault", {f_type=EXT2_SUPER_MAGIC, ...}) = 0
+++ exited with 0 +++
"#;
        let mut calls = Calls::default();
        calls.read(trace, "/data/");
        let seen = [
            (Class::SocketRead, 2, 4242),
            (Class::FileWrite, 2, 304_096),
            (Class::Lock, 1, 0),
            (Class::Sync, 1, 0),
        ];
        for (class, count, bytes) in seen {
            let tally = Tally {
                calls: count,
                bytes,
            };
            assert_eq!(calls.of(class), tally, "{class:?}");
        }
        assert_eq!(calls.0.len(), seen.len());
    }
}
