//! `windlass api show`.

use std::sync::Arc;

use windlass_discovery::{Api, MediaUpload, Method, curl, openapi};

use super::{Description, Error};
use crate::args::ApiShowArgs;
use crate::commands::journal::aligned;
use crate::exit::Code;
use crate::output::{self, escaped, size};

/// Prints the methods of a description, or one of its documents.
pub(super) fn run(args: &ApiShowArgs) -> Result<Code, Error> {
    let api = Description::read(&args.description)?.api()?;
    let root_url = args.root_url.as_str();
    if args.openapi {
        output::json(format!("{:#}", openapi::document(&api, root_url)));
    } else if args.json {
        let served = api.document().served_at(root_url);
        let served = serde_json::to_string_pretty(&served);
        output::json(served.expect("a document came from JSON or from strings"));
    } else {
        output::data(page(&api, root_url.trim_end_matches('/')));
    }
    Ok(Code::Success)
}

/// Maximum width of a line, unless a single word is longer.
const COLUMNS: usize = 100;

const INDENT: &str = "    ";

/// Length of the longest id that fits in its column.
const MAX_ID_LEN: usize = 52;

/// The headings of the columns. The path and the accepted media of a method are below its id.
const HEADS: [&str; 4] = ["METHOD", "HTTP", "LARGEST", "UPLOAD TYPES"];

/// Prints the title, the uploads, the totals, the remaining methods and a command line.
fn page(api: &Api, base_url: &str) -> String {
    let (uploads, others): (Vec<_>, Vec<_>) = api
        .methods()
        .iter()
        .partition(|method| method.upload.is_some());
    let uploads: Vec<_> = uploads
        .into_iter()
        .filter_map(|method| Some((method, method.upload.as_ref()?)))
        .collect();
    let title = api.document().title.as_deref().unwrap_or_default();
    let title = format!("{title} ({}:{})", api.name(), api.version());
    let mut blocks = vec![escaped(title.trim_start()).into_owned()];
    if !uploads.is_empty() {
        blocks.push(table(&uploads));
    }
    blocks.push(totals(api, &uploads));
    if !others.is_empty() {
        blocks.push(routes(&others));
    }
    if let Some(simplest) = curl::simplest_upload(api) {
        let command = curl::upload_command(api, simplest, base_url);
        blocks.push(format!("An upload:\n{INDENT}{}", escaped(&command)));
    }
    blocks.join("\n\n")
}

/// The methods without media.
fn routes(methods: &[&Arc<Method>]) -> String {
    let rows = methods.iter().map(|method| {
        let path = format!("/{}", method.template.as_str());
        let download = if method.supports_media_download {
            "  (alt=media: its media)"
        } else {
            ""
        };
        [
            escaped(&method.id).into_owned(),
            method.http_method.to_string(),
            format!("{}{download}", escaped(&path)),
        ]
    });
    let heads = ["METHOD", "HTTP", "PATH"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(heads).chain(rows).collect();
    aligned(&rows)
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

/// Whether an id is too long for a line with further columns.
fn stands_alone(id: &str) -> bool {
    id.chars().count() > MAX_ID_LEN
}

/// Returns the path of simple uploads, where the server accepts all upload types.
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

/// Returns the accepted media ranges, wrapped to lines.
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
