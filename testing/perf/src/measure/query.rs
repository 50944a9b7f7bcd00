//! What queries and uploads do to each other.

use std::path::Path;
use std::thread;

use crate::figure::Figure;
use crate::load::{self, Load, LoadTarget, Operation, Question, Tally};
use crate::scenario::{ConcurrentQueries, Fixture, Part};

use super::{Figures, Site};

/// How fast queries are beside uploads, and how much of the uploads' rate is left.
pub(super) fn measure(
    site: &Site,
    part: &Part<'_>,
    concurrent: &ConcurrentQueries,
    data: &Path,
) -> anyhow::Result<Figures> {
    let server = site.start_warm(part, data)?;
    let load_target = site.load_target(part, &server);
    let sessions = prepare(load_target, concurrent)?;
    let operation = match concurrent.question {
        Question::Status => Operation::Status(&sessions),
        Question::List => Operation::List,
    };
    let queries = Load {
        connections: concurrent.connections,
        ..concurrent.uploads.clone()
    };
    let upload = || load::carry_out(load_target, &concurrent.uploads, Operation::Upload);
    let alone = upload()?;
    let (both, asked) = thread::scope(|scope| {
        let asking = scope.spawn(|| load::carry_out(load_target, &queries, operation));
        let both = upload();
        (both, asking.join().expect("queries do not panic"))
    });
    // Before and after, since some servers need a while to come up to speed.
    let alone = f64::midpoint(rate(&alone), rate(&upload()?));
    let left = rate(&both?) / alone;
    let asked = asked?;
    let read_off = |figure: &Figure| Some((*figure, figure.of(&asked, 0.0, 0)?));
    let figures = part.figures.iter().filter_map(read_off);
    Ok(figures.chain([(Figure::Left, left)]).collect())
}

/// Makes what will be asked for. Returns where the sessions are, if it is those.
fn prepare(
    load_target: LoadTarget<'_>,
    concurrent: &ConcurrentQueries,
) -> anyhow::Result<Vec<String>> {
    match concurrent.question {
        Question::Status => Ok(load::begin(
            load_target,
            &concurrent.uploads,
            concurrent.subjects,
        )?),
        Question::List => {
            let resources = Load {
                size: Fixture::MEDIA,
                count: concurrent.subjects,
                ..concurrent.uploads.clone()
            };
            load::carry_out(load_target, &resources, Operation::Upload)?;
            load::check_list(load_target, &resources)?;
            Ok(Vec::new())
        }
    }
}

fn rate(tally: &Tally) -> f64 {
    Figure::Uploads.of(tally, 0.0, 0).unwrap_or_default()
}
