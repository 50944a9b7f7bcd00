//! The work of a server before it is measured.
//!
//! A server that was just started differs from a server in use. Its memory has not been touched,
//! and its log grows with each commit until the log is written over for the first time.

use std::path::Path;
use std::time::Duration;

use anyhow::{bail, ensure};

use crate::contestant::Role;
use crate::load::{self, Load, LoadTarget, Operation};
use crate::scenario::Part;
use crate::server::Server;
use crate::units::KIB;

use super::{Site, page_cache};

/// The number of the first upload. It is above the numbers of all measurements, so that no measured
/// upload replaces an upload of the warm-up.
const FIRST: u64 = 1 << 40;

/// The time limit. A server that needs longer for the warm-up is warm by then.
const LIMIT: Duration = Duration::from_secs(20);

/// Uploads from one look at the log to the next, which bring more than a server may add to its log
/// in advance.
const STRIDE: u64 = 1000;

/// Looks after which a log that still becomes longer is given up.
const LOOKS: u64 = 100;

/// Uploads small media until the log has its final length. Afterwards no data of the warm-up is on
/// its way to the disk.
pub(super) fn carry_out(
    site: &Site,
    part: &Part<'_>,
    server: &Server,
    data: &Path,
) -> anyhow::Result<()> {
    let contestant = part.contestant;
    let Some(shape) = contestant.small_shape() else {
        bail!("{} has no small uploads", contestant.name);
    };
    let load_target = LoadTarget {
        shape,
        ..site.load_target(part, server)
    };
    upload(load_target, part, FIRST, site.warm_up)?;
    let mut len = contestant.log_len(data);
    for look in 0.. {
        let first = FIRST + site.warm_up + look * STRIDE;
        if len.is_some() {
            upload(load_target, part, first, STRIDE)?;
        }
        let now = contestant.log_len(data);
        if now == len {
            break;
        }
        ensure!(look < LOOKS, "the log goes on growing");
        len = now;
    }
    page_cache::settle(data)?;
    server.forget_peak();
    Ok(())
}

fn upload(
    load_target: LoadTarget<'_>,
    part: &Part<'_>,
    first: u64,
    count: u64,
) -> anyhow::Result<()> {
    let load = Load {
        count,
        first,
        connections: 32,
        limit: LIMIT,
        ..Load::of_size(4 * KIB)
    };
    let done = load::carry_out(load_target, &load, Operation::Upload)?.done;
    let is_ours = matches!(part.contestant.role, Role::Ours | Role::Baseline);
    ensure!(
        done == count || !is_ours,
        "only {done} of {count} uploads within {LIMIT:?}"
    );
    Ok(())
}
