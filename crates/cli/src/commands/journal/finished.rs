//! The finished uploads of runs that have not ended whole, as `windlass uploads` shows them.

use std::time::UNIX_EPOCH;

use serde_json::json;
use windlass_client::{FinishedUpload, FinishedUploads, Journal};

use super::super::hints;
use super::{Error, by_url, fitted, place, relative_to_cwd};
use crate::output;

/// The finished uploads that a journal has recorded.
pub(super) struct Finished(Vec<FinishedUploads>);

/// Reads all finished uploads. Warns of each unreadable file.
pub(super) fn all(journal: &Journal) -> Result<Finished, Error> {
    let (found, damaged) = journal.finished()?;
    for error in damaged {
        output::warning(output::with_causes(&error), hints::journal_hint(&error));
    }
    Ok(Finished(found))
}

impl Finished {
    /// Says that there are some, and how to see them.
    pub(super) fn mention(&self) {
        let count: usize = self.0.iter().map(|of_url| of_url.uploads.len()).sum();
        match count {
            0 => {}
            1 => output::note(
                "1 file is uploaded and will be skipped when its command runs again; \
                 `windlass uploads --finished` lists it",
            ),
            count => output::note(format_args!(
                "{count} files are uploaded and will be skipped when their command runs again; \
                 `windlass uploads --finished` lists them"
            )),
        }
    }

    /// Prints all of them.
    pub(super) fn list(&self, as_json: bool) {
        let all = self.0.iter().flat_map(|of_url| {
            let uploads = of_url.uploads.iter();
            uploads.map(move |upload| (of_url, upload))
        });
        let all: Vec<_> = all.collect();
        if as_json {
            for (of_url, upload) in &all {
                output::json(row(of_url, upload));
            }
        } else if all.is_empty() {
            output::note("no finished upload is recorded");
        } else {
            output::data(table(&all));
        }
    }
}

fn table(all: &[(&FinishedUploads, &FinishedUpload)]) -> String {
    let head = ["RESOURCE", "SIZE", "AGE", "FILE"].map(str::to_owned);
    let cells = |upload: &FinishedUpload| {
        let id = upload.resource_id.as_deref().unwrap_or("unknown");
        [
            output::escaped(id).into_owned(),
            output::size(upload.source.size()),
            output::age(upload.finished.elapsed().unwrap_or_default()),
            relative_to_cwd(upload.source.path()),
        ]
    };
    by_url(
        all,
        |(of_url, _)| &of_url.url,
        |uploads| {
            let rows = uploads.iter().map(|(_, upload)| cells(upload));
            let rows = std::iter::once(head.clone()).chain(rows);
            fitted(rows.collect(), output::stdout_columns())
        },
    )
}

fn row(of_url: &FinishedUploads, upload: &FinishedUpload) -> serde_json::Value {
    let finished = upload.finished.duration_since(UNIX_EPOCH);
    json!({
        "source": upload.source.path().display().to_string(),
        "url": place(&of_url.url),
        "method": of_url.http_method,
        "size": upload.source.size(),
        "resource_id": upload.resource_id,
        "finished": finished.unwrap_or_default().as_secs(),
    })
}
