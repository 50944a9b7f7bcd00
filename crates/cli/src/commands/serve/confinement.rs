//! Gives up access that the process does not need before it serves: to other files, and to core
//! dumps.
//!
//! **Files.** Landlock, a part of the Linux kernel, refuses to open any file that no rule names.
//! This holds for processes of root too. A thread is confined together with all threads that it
//! starts later, so this happens before the runtime starts its threads. Files that are open already
//! stay open. A rule applies to an existing file, not to a name. A file that is replaced by a
//! rename is therefore covered only by a rule for its directory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, setrlimit};

use super::reload::Reloadable;
use crate::settings::Settings;

/// The files and ports that a confined server can still open.
#[derive(Debug, Default)]
struct Allowed {
    /// Directories in which files can be read and changed.
    data: BTreeSet<PathBuf>,
    /// Files and directories that can be read.
    read: BTreeSet<PathBuf>,
    /// Files that can be written to, and directories in which files can be made and written to.
    append: BTreeSet<PathBuf>,
    /// The ports that can be listened on.
    ports: BTreeSet<u16>,
}

/// Whether the process is confined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Confined {
    /// Not confined: `landlock = false`.
    ByNothing,
    /// By Landlock of this version.
    ByLandlock(i32),
    /// The kernel has no Landlock, or it is turned off.
    Unsupported,
    /// The confinement failed for this reason.
    Failed(String),
}

/// Files that every process reads: the limits of its control group, the mounts, random numbers.
const OF_THE_PROCESS: [&str; 4] = ["/proc/self", "/sys/fs/cgroup", "/dev/urandom", "/dev/null"];

/// Files for name resolution and certificate verification: their settings, root certificates, and
/// the libraries that the C library loads for them.
const OF_REQUESTS: [&str; 10] = [
    "/etc",
    "/usr",
    "/lib",
    "/lib64",
    "/nix/store",
    "/gnu/store",
    "/var/lib/ca-certificates",
    "/run/systemd/resolve",
    "/run/NetworkManager",
    "/run/resolvconf",
];

/// Variables that name roots in other places.
const ROOTS: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

impl Allowed {
    /// Returns the access that a server with these settings needs. The data directory must exist.
    fn new(settings: &Settings, reloadable: &Reloadable) -> Self {
        let mut allowed = Self::default();
        allowed.allow_data(&settings.data);
        allowed.read.extend(OF_THE_PROCESS.map(PathBuf::from));
        for file in reloadable.files() {
            allowed.read.extend(places(file));
        }
        if let Some(audit) = &settings.audit_file {
            allowed.append.extend(places(audit));
        }
        if sends_requests(settings) {
            allowed.allow_requests();
        }
        let listeners = [Some(settings.listen), settings.metrics_listen];
        let ports = listeners.into_iter().flatten();
        allowed.ports.extend(ports.map(|address| address.port()));
        allowed
    }

    /// Allows the data directory and the targets of its links: the vault may be on another disk.
    fn allow_data(&mut self, data: &Path) {
        self.data.insert(data.to_owned());
        let entries = data.read_dir().into_iter().flatten().flatten();
        for entry in entries {
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            let Some(target) = is_link.then(|| entry.path().canonicalize().ok()).flatten() else {
                continue;
            };
            let directory = if target.is_dir() {
                Some(&*target)
            } else {
                target.parent()
            };
            self.data.extend(directory.map(Path::to_owned));
        }
    }

    fn allow_requests(&mut self) {
        self.read.extend(OF_REQUESTS.map(PathBuf::from));
        self.read.extend(places(Path::new("/etc/resolv.conf")));
        for variable in ROOTS {
            if let Some(path) = std::env::var_os(variable) {
                let path = PathBuf::from(path);
                self.read.extend(places(&path));
                self.read.insert(path);
            }
        }
    }
}

/// Whether the server itself may have to send requests.
fn sends_requests(settings: &Settings) -> bool {
    #[cfg(feature = "gmail")]
    let relays = settings.options.gmail.relay.is_some();
    #[cfg(not(feature = "gmail"))]
    let relays = false;
    // The file of credentials may name issuers of tokens, now or when it is read again.
    settings.acme.is_wanted()
        || settings.backend_secret.is_some()
        || settings.auth_file.is_some()
        || relays
}

/// Returns the directory of a file and, if the file is a link, the directory of its target. For a
/// file in the root directory the file itself is returned, because its directory contains
/// everything.
fn places(file: &Path) -> impl Iterator<Item = PathBuf> {
    let target = file.canonicalize().ok();
    let of = |path: &Path| match path.parent() {
        Some(parent) if parent == Path::new("") => PathBuf::from("."),
        Some(parent) if parent != Path::new("/") => parent.to_owned(),
        _ => path.to_owned(),
    };
    let places = [Some(of(file)), target.as_deref().map(of)];
    places.into_iter().flatten()
}

/// Keeps the kernel from writing the memory of this process to a file when it crashes, and other
/// processes of its user from reading it.
pub(super) fn forbid_core_dumps() {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    // To lower a limit is always allowed. A program that is handed dumps need not keep to the
    // limit.
    setrlimit(Resource::Core, none).ok();
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).ok();
}

/// Confines this thread and all threads that it will start, if the settings ask for it.
pub(super) fn confine(settings: &Settings, reloadable: &Reloadable) -> Confined {
    if !settings.landlock {
        return Confined::ByNothing;
    }
    landlock::restrict(&Allowed::new(settings, reloadable))
        .unwrap_or_else(|error| Confined::Failed(error.to_string()))
}

impl Confined {
    /// Logs whether the process is confined.
    pub(super) fn log(&self) {
        match self {
            Self::ByNothing => {}
            Self::ByLandlock(abi) => tracing::info!(
                abi,
                "Landlock confines the server to its data and the files that it reads again"
            ),
            Self::Unsupported => tracing::info!(
                "this kernel has no Landlock, or it is turned off: the server can open all files of its user"
            ),
            Self::Failed(error) => {
                tracing::warn!(%error, "Landlock does not confine the server");
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod landlock {
    use ::landlock::{
        ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _,
        LandlockStatus, NetPort, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError,
        RulesetStatus, Scope, make_bitflags, path_beneath_rules,
    };

    use super::{Allowed, Confined};

    /// The newest version with rights that this code uses. An older kernel enforces the rights it
    /// knows.
    const KNOWN: ABI = ABI::V6;

    const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});

    const APPEND: BitFlags<AccessFs> = make_bitflags!(AccessFs::{WriteFile | MakeReg});

    const CHANGE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
        ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeDir | RemoveFile | RemoveDir | Refer
    });

    /// Confines this thread and all threads that it will start. Outgoing connections stay allowed.
    pub(super) fn restrict(allowed: &Allowed) -> Result<Confined, RulesetError> {
        let ports = allowed.ports.iter();
        let ports = ports.map(|port| Ok(NetPort::new(*port, AccessNet::BindTcp)));
        let status = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(KNOWN))?
            .handle_access(AccessNet::BindTcp)?
            .scope(Scope::from_all(KNOWN))?
            .create()?
            .add_rules(path_beneath_rules(&allowed.data, CHANGE))?
            .add_rules(path_beneath_rules(&allowed.read, READ))?
            .add_rules(path_beneath_rules(&allowed.append, APPEND))?
            .add_rules(ports.collect::<Vec<Result<_, RulesetError>>>())?
            .restrict_self()?;
        Ok(match (status.ruleset, status.landlock) {
            (RulesetStatus::NotEnforced, _) => Confined::Unsupported,
            (
                _,
                LandlockStatus::Available {
                    effective_abi,
                    kernel_abi,
                },
            ) => Confined::ByLandlock(kernel_abi.unwrap_or(effective_abi as i32)),
            _ => Confined::Unsupported,
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod landlock {
    use super::{Allowed, Confined};

    /// Does nothing: Landlock is a part of Linux.
    pub(super) fn restrict(_: &Allowed) -> Result<Confined, std::convert::Infallible> {
        Ok(Confined::Unsupported)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
