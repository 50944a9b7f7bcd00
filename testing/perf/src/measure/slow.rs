//! What connections cost that are slow.

use std::path::Path;

use crate::figure::Figure;
use crate::load::Slow;
use crate::load::{self, Crowd, Load};
use crate::scenario::Part;
use crate::units::{KIB, float, mib};

use super::{Figures, Site, at_rest};

/// Memory of a server with many connections in the middle of an upload, over its memory before them: resident, of all its
/// processes. All of it is anonymous, since what is mapped from files does not grow with connections, so that it does not matter that
/// pages which processes share are counted for each of them.
pub(super) fn measure(
    site: &Site,
    part: &Part<'_>,
    slow: &Slow,
    data: &Path,
) -> anyhow::Result<Figures> {
    let server = site.start_warm(part, data)?;
    let load_target = site.load_target(part, &server);
    load::first_answer(load_target)?;
    let idle = at_rest(&server);
    let load = Load::of_size(slow.size);
    let mut crowd = Crowd::gather(load_target, &load, slow)?;
    crowd.go_on()?;
    let held = server.usage().resident;
    let by_connections = float(held.saturating_sub(idle)) / float(slow.connections as u64);
    Ok(Figures::from([
        (Figure::Connection, by_connections / float(KIB)),
        (Figure::Held, mib(held)),
    ]))
}
