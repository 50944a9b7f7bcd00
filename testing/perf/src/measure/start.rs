//! What a start costs.

use std::path::Path;

use crate::figure::Figure;
use crate::load;
use crate::scenario::Part;
use crate::units::mib;

use super::{Figures, Site, at_rest};

/// The time from the start of a process to its first answer, and what memory it holds then.
pub(super) fn measure(site: &Site, part: &Part<'_>, data: &Path) -> anyhow::Result<Figures> {
    let server = site.start(part, data)?;
    load::first_answer(site.load_target(part, &server))?;
    let start = server.age();
    Ok(Figures::from([
        (Figure::Start, start.as_secs_f64() * 1000.0),
        (Figure::Idle, mib(at_rest(&server))),
    ]))
}
