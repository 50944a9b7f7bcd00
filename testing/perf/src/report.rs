//! `windlass-perf report`: the record of a run, as a page for people.

mod chart;
pub(crate) mod comparison;
mod page;
pub(crate) mod table;

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::goal;
use crate::record::Record;

/// Rewrite the generated part of a page and a chart for each scenario from the record of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Record that `run --record` has written.
    record: PathBuf,
    /// Page in Markdown. Charts go into the directory next to it that has its name.
    page: PathBuf,
}

/// Rewrites the page.
///
/// # Errors
/// A file cannot be read or written, or the page has no place for the generated text.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let record = Record::read(&arguments.record)?;
    let page = &arguments.page;
    let charts = page.with_extension("");
    let directory = charts.file_name().unwrap_or_default().to_string_lossy();
    let text = fs::read_to_string(page).with_context(|| page.display().to_string())?;
    let text = page::rewritten(&text, &page::generated(&record, &goal::all()?, &directory))?;
    fs::create_dir_all(&charts)?;
    for scenario in &record.scenarios {
        for figure in page::charted(scenario) {
            let file = charts.join(page::chart_name(scenario, figure));
            fs::write(file, chart::of(scenario, figure))?;
        }
    }
    fs::write(page, text)?;
    Ok(())
}
