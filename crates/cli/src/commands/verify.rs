//! `windlass verify`.

use serde_json::{Value, json};
use windlass_server::{Clock as _, SystemClock};
use windlass_store_local::verify::{
    Fault, Finding, Severity, Subject, Verified, VerifyError, VerifyEvent, VerifyOptions, verify,
};

use super::{Error, store};
use crate::args::VerifyArgs;
use crate::display::{self, Meter};
use crate::exit::Code;
use crate::output;

/// Verifies the store, and repairs it if that was asked for.
pub(super) fn run(args: &VerifyArgs) -> Result<Code, Error> {
    let dir = store::directory(&args.store)?;
    let options = VerifyOptions::new(SystemClock.now()).repair(args.repair);
    let meter = Meter::new();
    let mut tell = |event| match event {
        VerifyEvent::Progress(so_far) => meter.show(|| counted(&so_far)),
        VerifyEvent::Finding(found) if args.json => meter.aside(|| output::result(row(&found))),
        VerifyEvent::Finding(found) => meter.aside(|| output::data(line(&found, args.repair))),
    };
    let verified = verify(&dir, options, &mut tell)?;
    drop(meter);
    if args.json {
        output::result(summary(&verified));
    } else {
        output::data(format_args!(
            "{}\n{}",
            counted(&verified),
            verdict(&verified)
        ));
    }
    Ok(if verified.is_sound() {
        Code::Success
    } else {
        Code::Damaged
    })
}

/// The exit code of a verification that was not done.
pub(super) fn exit_code(error: &VerifyError) -> Code {
    match error {
        VerifyError::NoStore { .. } | VerifyError::Open(_) | VerifyError::DeletionLocked { .. } => {
            Code::CannotBegin
        }
        VerifyError::Ledger(_) | VerifyError::Vault(_) => Code::Failure,
    }
}

/// What can be done about a verification that was not done.
pub(super) fn hint(error: &VerifyError) -> Option<&'static str> {
    match error {
        VerifyError::NoStore { .. } => Some("choose the directory of a server with --data"),
        VerifyError::Open(error) => store::hint(error),
        VerifyError::DeletionLocked { .. } => Some("wait until the backup is done"),
        VerifyError::Ledger(_) | VerifyError::Vault(_) => None,
    }
}

/// A finding for people.
fn line(finding: &Finding, repair: bool) -> String {
    let subject = finding.subject.to_string();
    let fault = finding.fault.to_string();
    format!(
        "{}: {}: {}\n  {}",
        severity(finding),
        display::escaped(&subject),
        display::escaped(&fault),
        next(finding, repair)
    )
}

/// What was done about a finding, or is to be done.
fn next(finding: &Finding, repair: bool) -> &'static str {
    let is_session = matches!(finding.subject, Subject::Session { .. });
    match &finding.fault {
        _ if finding.is_repaired && is_session => {
            "mended: the session has failed, and its client begins anew"
        }
        _ if finding.is_repaired => "mended",
        Fault::Database(_) => {
            "nothing is mended in such a ledger: restore a backup, or ask SQLite's .recover for a copy"
        }
        Fault::IdentityMismatch(_) => "is its disk mounted? Nothing is mended by such a vault",
        Fault::Row(_) | Fault::Contradiction(_) => {
            "look at the row with sqlite3, or restore a backup; no repair touches it"
        }
        Fault::Foreign => "remove it by hand if nobody misses it; no repair touches it",
        fault if fault.is_of_bytes() && !is_session => {
            "no repair brings the bytes back: copy the media from a backup, or upload it again"
        }
        _ if repair => "not mended, because of what else was found",
        Fault::NamedGarbage => {
            "the next server deletes it: first let --repair take it off the list"
        }
        Fault::UnnamedInLedger => "--repair deletes it",
        Fault::Garbage | Fault::Unnamed => "the server's sweep deletes it, and so does --repair",
        _ => "--repair ends the session, so that its client begins anew",
    }
}

fn severity(finding: &Finding) -> &'static str {
    match finding.severity() {
        Severity::Damage => "damage",
        Severity::Remains => "remains",
    }
}

/// A finding for programs.
pub(super) fn row(finding: &Finding) -> Value {
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

/// The end for programs.
fn summary(verified: &Verified) -> Value {
    json!({
        "event": "verified",
        "sound": verified.is_sound(),
        "beside_server": verified.beside_server,
        "sessions": verified.sessions,
        "resources": verified.resources,
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

fn counted(verified: &Verified) -> String {
    format!(
        "{} sessions, {} resources, {} media with {}, {} files",
        verified.sessions,
        verified.resources,
        verified.media,
        display::size(verified.bytes),
        verified.files
    )
}

fn verdict(verified: &Verified) -> String {
    let beside = if verified.beside_server {
        " (a server is running)"
    } else {
        ""
    };
    let counts = |what, found: u64, mended: u64| match (found, mended) {
        (0, _) => format!("no {what}"),
        (found, 0) => format!("{what}: {found}"),
        (found, mended) => format!("{what}: {found}, of which {mended} mended"),
    };
    let sound = if verified.is_sound() {
        "sound"
    } else {
        "damaged"
    };
    let damage = counts("damage", verified.damage, verified.damage_repaired);
    let remains = counts("remains", verified.remains, verified.remains_cleared);
    format!("{sound}{beside}: {damage}; {remains}")
}
