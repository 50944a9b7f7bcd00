//! The upload methods of an API, for people.

use std::sync::Arc;

use windlass_discovery::{Api, MediaUpload, Method};

use super::super::uploads::aligned;
use crate::display::{escaped, size};

/// What a line takes at most, as far as that is up to us.
const COLUMNS: usize = 100;

const INDENT: &str = "    ";

/// The longest id with which a line of the table keeps to the columns.
const LONGEST_ID: usize = 52;

/// The heads of the columns; below a method are its path and what it accepts.
const HEADS: [&str; 4] = ["METHOD", "HTTP", "LARGEST", "UPLOAD TYPES"];

/// The title, a table, and totals.
pub(super) fn page(api: &Api) -> String {
    let uploads: Vec<_> = api
        .methods()
        .iter()
        .filter_map(|method| Some((method, method.upload.as_ref()?)))
        .collect();
    let title = api.document().title.as_deref().unwrap_or_default();
    let title = format!("{title} ({}:{})", api.name(), api.version());
    let mut blocks = vec![escaped(title.trim_start()).into_owned()];
    if !uploads.is_empty() {
        blocks.push(table(&uploads));
    }
    blocks.push(totals(api, &uploads));
    blocks.join("\n\n")
}

fn table(uploads: &[(&Arc<Method>, &MediaUpload)]) -> String {
    let rows = uploads.iter().map(|(method, upload)| row(method, upload));
    let rows: Vec<_> = std::iter::once(HEADS.map(str::to_owned))
        .chain(rows)
        .collect();
    let cells = aligned(&rows);
    let mut cells = cells.lines().map(str::to_owned);
    let mut lines: Vec<_> = cells.next().into_iter().collect();
    for (cells, (method, upload)) in cells.zip(uploads) {
        if stands_alone(&method.id) {
            lines.push(escaped(&method.id).into_owned());
        }
        lines.push(cells);
        lines.push(format!("{INDENT}{}", escaped(&path(method, upload))));
        lines.extend(accepted(upload));
    }
    lines.join("\n")
}

fn row(method: &Method, upload: &MediaUpload) -> [String; 4] {
    let id = if stands_alone(&method.id) {
        ""
    } else {
        &method.id
    };
    let largest = upload.max_size;
    [
        escaped(id).into_owned(),
        method.http_method.to_string(),
        largest.map_or_else(|| "no limit".to_owned(), |largest| size(largest.bytes())),
        upload_types(upload),
    ]
}

/// Whether an id leaves no room for other columns beside it.
fn stands_alone(id: &str) -> bool {
    id.chars().count() > LONGEST_ID
}

/// The simple path, where the server takes all upload types.
fn path(method: &Method, upload: &MediaUpload) -> String {
    match &upload.simple_path {
        Some(path) => format!("/{}", path.as_str()),
        None => format!("/upload/{}", method.template.as_str()),
    }
}

fn upload_types(upload: &MediaUpload) -> String {
    let resumable = match upload.resumable_path {
        Some(_) => "resumable",
        None => "resumable*",
    };
    let multipart = upload.simple_multipart.then_some("multipart");
    let types = ["media"].into_iter().chain(multipart).chain([resumable]);
    types.collect::<Vec<_>>().join(", ")
}

/// The accepted media ranges, on as many lines as they need.
fn accepted(upload: &MediaUpload) -> Vec<String> {
    let ranges: Vec<_> = upload.accept.iter().map(ToString::to_string).collect();
    let all = ["*/*".to_owned()];
    let ranges = if ranges.is_empty() { &all[..] } else { &ranges };
    let mut lines: Vec<String> = Vec::new();
    for (at, range) in ranges.iter().enumerate() {
        let comma = if at + 1 < ranges.len() { "," } else { "" };
        match lines.last_mut() {
            Some(line) if line.len() + range.len() + 2 <= COLUMNS => {
                line.extend([" ", range, comma]);
            }
            _ => lines.push(format!("{INDENT}{range}{comma}")),
        }
    }
    lines
}

fn totals(api: &Api, uploads: &[(&Arc<Method>, &MediaUpload)]) -> String {
    let undeclared = uploads
        .iter()
        .filter(|(_, it)| it.resumable_path.is_none())
        .count();
    let mut totals = format!(
        "{} of {} methods take media; for {} the description has a resumable path",
        uploads.len(),
        api.methods().len(),
        uploads.len() - undeclared,
    );
    if undeclared > 0 {
        totals.push_str("\n* resumable uploads are served all the same, at the path that is shown");
    }
    totals
}
