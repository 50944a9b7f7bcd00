//! `windlass uploads`.

use serde_json::{Value, json};
use url::Url;
use windlass_client::Record;

use super::{Error, journal};
use crate::args::UploadsArgs;
use crate::display;
use crate::exit::Code;
use crate::output;

/// Lists what the journal holds.
pub(super) fn run(args: &UploadsArgs) -> Result<Code, Error> {
    let journal = journal::open(&args.journal)?;
    let found = journal::unfinished(&journal)?;
    found.warn(|what, hint| output::warning(what, hint));
    let records = &found.records;
    if args.json {
        for record in records {
            output::json(row(record));
        }
    } else if found.is_empty() {
        output::note("there is no unfinished upload");
    } else if !records.is_empty() {
        output::data(table(records));
    }
    Ok(Code::Success)
}

/// The uploads for people. URLs are shown without their queries, which may hold keys.
pub(super) fn table(records: &[Record]) -> String {
    let head = ["ID", "COMMITTED", "", "AGE", "FILE", "URL"].map(str::to_owned);
    let rows = records.iter().map(|record| {
        [
            record.id.to_string(),
            display::bytes_of(record.committed, Some(record.total)),
            format!("{} %", display::percent(record.committed, record.total)),
            age(record),
            display::escaped(&journal::source_of(record)).into_owned(),
            display::escaped(&place(&record.url)).into_owned(),
        ]
    });
    aligned(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

/// An upload for programs.
pub(super) fn row(record: &Record) -> Value {
    let seconds = |time: std::time::SystemTime| {
        let since = time.duration_since(std::time::UNIX_EPOCH);
        since.unwrap_or_default().as_secs()
    };
    json!({
        "id": record.id.to_string(),
        "source": record.source.path().display().to_string(),
        "url": place(&record.url),
        "method": record.http_method,
        "content_type": record.content_type,
        "committed": record.committed,
        "total": record.total,
        "started": seconds(record.started),
        "touched": seconds(record.touched),
    })
}

/// A URL without what may be secret in it.
pub(super) fn place(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else {
        return "..".to_owned();
    };
    url.set_query(None);
    url.set_fragment(None);
    // Neither can fail for a URL of a web server.
    url.set_username("").ok();
    url.set_password(None).ok();
    url.to_string()
}

fn age(record: &Record) -> String {
    record
        .started
        .elapsed()
        .map(display::age)
        .unwrap_or_default()
}

/// Columns as wide as what is widest in them.
pub(super) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths);
        let cells = cells.map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_secrets() {
        let cases = [
            (
                "https://up.example.com/upload/a?key=1&x=2#f",
                "https://up.example.com/upload/a",
            ),
            ("http://me:pass@localhost:8080/a", "http://localhost:8080/a"),
            ("no url", ".."),
        ];
        for (url, shown) in cases {
            assert_eq!(place(url), shown);
        }
    }

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [["a", "bb", ""], ["ccc", "d", "e"]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(&rows), "a    bb\nccc  d   e");
    }
}
