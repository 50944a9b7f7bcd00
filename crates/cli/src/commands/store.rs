//! `windlass backup` and `windlass verify`, and the store that they work on.

use std::path::PathBuf;

use serde_json::{Value, json};
use windlass_server::{Clock as _, SystemClock};
use windlass_store_local::OpenError;
use windlass_store_local::backup::{self, BackedUp, BackupError, BackupEvent};
use windlass_store_local::verify::{
    self, Fault, Finding, Severity, Subject, Verified, VerifyError, VerifyEvent, VerifyOptions,
};

use super::Error;
use crate::args::{BackupArgs, StoreArgs, VerifyArgs};
use crate::display::Meter;
use crate::exit::Code;
use crate::output;
use crate::settings::{self, Environment, Sources};

/// Returns the data directory that a server with the same flags, environment and file would use.
pub(super) fn data_directory(args: &StoreArgs) -> Result<PathBuf, settings::Error> {
    let sources = Sources {
        config: args.config.clone(),
        flags: args.raw_values(),
        environment: Environment::new(std::env::vars_os())?,
    };
    Ok(sources.merge()?.settings.data)
}

/// Returns a hint about a store that cannot be opened.
pub(super) fn open_hint(error: &OpenError) -> Option<&'static str> {
    match error {
        OpenError::InUse { .. } => Some("stop the server, or wait for the backup, that uses it"),
        OpenError::IncompleteBackup { .. } => {
            Some("run `windlass backup` into it again, or use another backup")
        }
        OpenError::Ledger { .. } => Some(
            "is it the data directory of a server? A newer version of Windlass may have made it; a \
             damaged ledger comes back from a backup",
        ),
        OpenError::Vault { .. } => Some("is the disk of the vault mounted? Nothing was changed"),
        OpenError::NoSpace { .. } => Some(
            "free some of the disk, or make it larger; 16 MB are enough to start. Nothing is lost. Then delete \
             resources or cancel uploads to make room for others",
        ),
        OpenError::Io { .. } => Some(
            "--data names the directory of a server, which this user must be allowed to read and write",
        ),
        OpenError::UnsafeFilesystem { .. }
        | OpenError::Shared { .. }
        | OpenError::NoLedger { .. } => None,
    }
}

/// Runs the backup.
pub(super) fn run_backup(args: &BackupArgs) -> Result<Code, Error> {
    let dir = data_directory(&args.store)?;
    let meter = Meter::new();
    let mut tell = |event| match event {
        BackupEvent::Progress(so_far) => meter.show(|| backup_counts(&so_far)),
        BackupEvent::Finding(found) if args.json => {
            meter.aside(|| output::result(finding_json(&found)));
        }
        BackupEvent::Finding(found) => meter.aside(|| {
            output::warning(format_args!("{}: {}", found.subject, found.fault), None);
        }),
    };
    let backed_up = backup::backup(&dir, &args.target, &mut tell)?;
    drop(meter);
    if args.json {
        output::result(backup_summary(&backed_up));
    } else {
        output::data(backup_counts(&backed_up));
    }
    Ok(if backed_up.damage == 0 {
        Code::Success
    } else {
        Code::Damaged
    })
}

/// Returns the exit code of a failed backup.
pub(super) fn backup_exit_code(error: &BackupError) -> Code {
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

/// Returns a hint about a failed backup.
pub(super) fn backup_hint(error: &BackupError) -> Option<&'static str> {
    match error {
        BackupError::NoStore { .. } => Some("choose the directory of a server with --data"),
        BackupError::Inside { .. } => Some("choose a directory elsewhere, best on another disk"),
        BackupError::NotABackup { .. } => Some(
            "choose a new directory; a backup that a server has used is a store, which is not overwritten",
        ),
        BackupError::OfAnother { .. } => Some("choose a directory for each store"),
        BackupError::Open(error) => open_hint(error),
        BackupError::LedgerDamaged { .. } => {
            Some("`windlass verify` shows details; the earlier backup is intact")
        }
        BackupError::Io { .. } => Some(
            "DEST is a directory that this user must be allowed to write, with room for the media",
        ),
        BackupError::Ledger(_) => Some("`windlass verify` shows details"),
    }
}

fn backup_counts(done: &BackedUp) -> String {
    format!(
        "{}, {}, {} media with {}; {} copied, {} old media deleted",
        count(done.sessions, "session"),
        resources(done.resources, done.rows),
        done.media,
        output::size(done.bytes),
        output::size(done.copied),
        done.deleted
    )
}

/// Returns the result as JSON.
fn backup_summary(done: &BackedUp) -> Value {
    json!({
        "event": "backed_up",
        "sessions": done.sessions,
        "resources": done.resources,
        "rows": done.rows,
        "media": done.media,
        "bytes": done.bytes,
        "copied": done.copied,
        "deleted": done.deleted,
        "damage": done.damage,
    })
}

/// Verifies the store, and repairs it if requested.
pub(super) fn run_verify(args: &VerifyArgs) -> Result<Code, Error> {
    let dir = data_directory(&args.store)?;
    let options = VerifyOptions::new(SystemClock.now()).repair(args.repair);
    let meter = Meter::new();
    let mut tell = |event| match event {
        VerifyEvent::Progress(so_far) => meter.show(|| verify_counts(&so_far)),
        VerifyEvent::Finding(found) if args.json => {
            meter.aside(|| output::result(finding_json(&found)));
        }
        VerifyEvent::Finding(found) => {
            meter.aside(|| output::data(finding_text(&found, args.repair)));
        }
    };
    let verified = verify::verify(&dir, options, &mut tell)?;
    drop(meter);
    if args.json {
        output::result(verify_summary(&verified));
    } else {
        output::data(format_args!(
            "{}\n{}",
            verify_counts(&verified),
            verdict(&verified)
        ));
    }
    Ok(if verified.is_sound() {
        Code::Success
    } else {
        Code::Damaged
    })
}

/// Returns the exit code of a verification that could not run.
pub(super) fn verify_exit_code(error: &VerifyError) -> Code {
    match error {
        VerifyError::NoStore { .. } | VerifyError::Open(_) | VerifyError::DeletionLocked { .. } => {
            Code::CannotBegin
        }
        VerifyError::Ledger(_) | VerifyError::Vault(_) => Code::Failure,
    }
}

/// Returns a hint about a verification that could not run.
pub(super) fn verify_hint(error: &VerifyError) -> Option<&'static str> {
    match error {
        VerifyError::NoStore { .. } => Some("choose the directory of a server with --data"),
        VerifyError::Open(error) => open_hint(error),
        VerifyError::DeletionLocked { .. } => Some("wait until the backup is done"),
        VerifyError::Ledger(_) | VerifyError::Vault(_) => {
            Some("--data names the directory of a server, which this user must be allowed to read")
        }
    }
}

/// Returns a finding as a line for people.
fn finding_text(finding: &Finding, repair: bool) -> String {
    let subject = finding.subject.to_string();
    let fault = finding.fault.to_string();
    format!(
        "{}: {}: {}\n  {}",
        severity(finding),
        output::escaped(&subject),
        output::escaped(&fault),
        next_step(finding, repair)
    )
}

/// Returns the repair that was made, or a hint for the user.
fn next_step(finding: &Finding, repair: bool) -> &'static str {
    let is_session = matches!(finding.subject, Subject::Session { .. });
    match &finding.fault {
        _ if finding.is_repaired && is_session => {
            "repaired: the session has failed, and its client starts again"
        }
        _ if finding.is_repaired => "repaired",
        Fault::Database(_) => {
            "a damaged ledger cannot be repaired: restore a backup, or recover a copy with SQLite's .recover"
        }
        Fault::IdentityMismatch(_) => {
            "is its disk mounted? Nothing is repaired from the vault of another store"
        }
        Fault::Row(_) | Fault::Contradiction(_) => {
            "inspect the row with sqlite3, or restore a backup; --repair does not change it"
        }
        Fault::Foreign => "remove it by hand if it is not needed; --repair does not change it",
        fault if fault.is_of_bytes() && !is_session => {
            "--repair cannot restore the bytes: copy the media from a backup, or upload it again"
        }
        _ if repair => "not repaired, because of other findings",
        Fault::NamedGarbage => {
            "the server will delete it at its next start: first remove it from the list with --repair"
        }
        Fault::UnnamedInLedger => "--repair deletes it",
        Fault::Garbage | Fault::Unnamed => "the server's sweep deletes it, and so does --repair",
        _ => "--repair ends the session, so that its client starts again",
    }
}

fn severity(finding: &Finding) -> &'static str {
    match finding.severity() {
        Severity::Damage => "damage",
        Severity::Remains => "remains",
    }
}

/// Returns a finding as JSON.
fn finding_json(finding: &Finding) -> Value {
    let mut row = json!({
        "event": "finding",
        "severity": severity(finding),
        "fault": finding.fault.name(),
        "subject": finding.subject.kind(),
        "name": finding.subject.to_string(),
        "message": finding.fault.to_string(),
        "mended": finding.is_repaired,
    });
    match &finding.fault {
        Fault::Missing { media } | Fault::Unreadable { media, .. } => {
            row["media"] = media.to_string().into();
        }
        Fault::Short {
            media,
            len,
            expected,
        } => {
            row["media"] = media.to_string().into();
            row["bytes"] = json!([len, expected]);
        }
        Fault::Rotten { media, bytes, .. } => {
            row["media"] = media.to_string().into();
            row["bytes"] = json!([bytes.start, bytes.end]);
        }
        _ => {}
    }
    row
}

/// Returns the summary as JSON.
fn verify_summary(verified: &Verified) -> Value {
    json!({
        "event": "verified",
        "sound": verified.is_sound(),
        "beside_server": verified.with_server,
        "sessions": verified.sessions,
        "resources": verified.resources,
        "rows": verified.rows,
        "media": verified.media,
        "bytes": verified.bytes,
        "files": verified.files,
        "damage": verified.damage,
        "damage_mended": verified.damage_repaired,
        "remains": verified.remains,
        "remains_cleared": verified.remains_cleared,
        "ledger_damaged": verified.ledger_is_damaged,
    })
}

fn verify_counts(verified: &Verified) -> String {
    format!(
        "{}, {}, {} media with {}, {}",
        count(verified.sessions, "session"),
        resources(verified.resources, verified.rows),
        verified.media,
        output::size(verified.bytes),
        count(verified.files, "file")
    )
}

/// `4 resources`, or `4 resources (47 rows)` if the server keeps further rows, such as indexes.
fn resources(resources: u64, rows: u64) -> String {
    let resources_text = count(resources, "resource");
    if rows == resources {
        return resources_text;
    }
    format!("{resources_text} ({})", count(rows, "row"))
}

/// `1 file`, `2 files`.
fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

fn verdict(verified: &Verified) -> String {
    let server = if verified.with_server {
        " (a server is running)"
    } else {
        ""
    };
    let counts = |what, found: u64, mended: u64| match (found, mended) {
        (0, _) => format!("no {what}"),
        (found, 0) => format!("{what}: {found}"),
        (found, mended) => format!("{what}: {found}, of which {mended} repaired"),
    };
    let sound = if verified.is_sound() {
        "sound"
    } else {
        "damaged"
    };
    let damage = counts("damage", verified.damage, verified.damage_repaired);
    let remains = counts("remains", verified.remains, verified.remains_cleared);
    format!("{sound}{server}: {damage}; {remains}")
}
