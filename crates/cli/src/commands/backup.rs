//! `windlass backup`.

use serde_json::{Value, json};
use windlass_store_local::backup::{BackedUp, BackupError, BackupEvent, backup};

use super::{Error, store, verify};
use crate::args::BackupArgs;
use crate::display::{self, Meter};
use crate::exit::Code;
use crate::output;

/// Makes the backup.
pub(super) fn run(args: &BackupArgs) -> Result<Code, Error> {
    let dir = store::directory(&args.store)?;
    let meter = Meter::new();
    let mut tell = |event| match event {
        BackupEvent::Progress(so_far) => meter.show(|| counted(&so_far)),
        BackupEvent::Finding(found) if args.json => {
            meter.aside(|| output::result(verify::row(&found)));
        }
        BackupEvent::Finding(found) => meter.aside(|| {
            output::warning(format_args!("{}: {}", found.subject, found.fault), None);
        }),
    };
    let backed_up = backup(&dir, &args.target, &mut tell)?;
    drop(meter);
    if args.json {
        output::result(summary(&backed_up));
    } else {
        output::data(counted(&backed_up));
    }
    Ok(if backed_up.damage == 0 {
        Code::Success
    } else {
        Code::Damaged
    })
}

/// The exit code of a backup that was not made.
pub(super) fn exit_code(error: &BackupError) -> Code {
    match error {
        BackupError::NoStore { .. }
        | BackupError::Inside { .. }
        | BackupError::NotABackup { .. }
        | BackupError::OfAnother { .. }
        | BackupError::Open(_) => Code::CannotBegin,
        BackupError::Ledger(_) | BackupError::LedgerDamaged { .. } | BackupError::Io { .. } => {
            Code::Failure
        }
    }
}

/// What can be done about a backup that was not made.
pub(super) fn hint(error: &BackupError) -> Option<&'static str> {
    match error {
        BackupError::NoStore { .. } => Some("choose the directory of a server with --data"),
        BackupError::Inside { .. } => Some("choose a directory elsewhere, best on another disk"),
        BackupError::NotABackup { .. } => Some(
            "choose a new directory; a backup that a server has used is a store, and not written over",
        ),
        BackupError::OfAnother { .. } => Some("choose a directory for each store"),
        BackupError::Open(error) => store::hint(error),
        BackupError::LedgerDamaged { .. } => {
            Some("`windlass verify` tells more; a former backup is still whole")
        }
        BackupError::Ledger(_) | BackupError::Io { .. } => None,
    }
}

fn counted(done: &BackedUp) -> String {
    format!(
        "{} sessions, {} resources, {} media with {}; {} copied, {} old media deleted",
        done.sessions,
        done.resources,
        done.media,
        display::size(done.bytes),
        display::size(done.copied),
        done.deleted
    )
}

/// The end for programs.
fn summary(done: &BackedUp) -> Value {
    json!({
        "event": "backed_up",
        "sessions": done.sessions,
        "resources": done.resources,
        "media": done.media,
        "bytes": done.bytes,
        "copied": done.copied,
        "deleted": done.deleted,
        "damage": done.damage,
    })
}
