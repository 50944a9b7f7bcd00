//! The media type of a source, guessed from its first bytes and its name.

use std::path::Path;

use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

/// Number of first bytes from which the media type is guessed.
pub(super) const PREFIX: u64 = 512;

/// Types of containers and encodings. The file name describes their content better.
const VAGUE: [&str; 5] = [
    "application/zip",
    "application/gzip",
    "text/xml",
    "text/html",
    "application/x-ole-storage",
];

/// Returns the media type of a file; `None` if it is unknown or the file is not a regular one:
/// bytes read from a pipe would be lost.
pub(super) async fn of_file(path: &Path) -> Option<String> {
    let by_name = mime_guess::from_path(path).first_raw();
    let head = head_of(path).await.unwrap_or_default();
    choose(by_name, of_bytes(&head)).map(str::to_owned)
}

/// Returns the media type of content that begins with these bytes.
pub(super) fn of_bytes(head: &[u8]) -> Option<&'static str> {
    infer::get(head).map(|found| found.mime_type())
}

async fn head_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    if tokio::fs::metadata(path).await?.is_file() {
        let file = File::open(path).await?;
        file.take(PREFIX).read_to_end(&mut head).await?;
    }
    Ok(head)
}

/// The bytes decide, unless their type is a container or an encoding.
fn choose<'a>(by_name: Option<&'a str>, by_content: Option<&'a str>) -> Option<&'a str> {
    match (by_name, by_content) {
        (Some(name), Some(content)) if VAGUE.contains(&content) => Some(name),
        (name, content) => content.or(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    const ZIP: &[u8] = b"PK\x03\x04\x14\0\0\0\x08\0";

    #[test]
    fn bytes_win_over_names_where_they_tell_enough() {
        let cases: [(&str, &[u8], Option<&str>); 8] = [
            ("cow.png", PNG, Some("image/png")),
            ("cow.jpg", PNG, Some("image/png")),
            ("cow", PNG, Some("image/png")),
            ("cow.jpg", b"", Some("image/jpeg")),
            (
                "herd.docx",
                ZIP,
                Some("application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
            ),
            ("herd.zip", ZIP, Some("application/zip")),
            ("herd.csv", b"name,age\n", Some("text/csv")),
            ("herd", b"name,age\n", None),
        ];
        for (name, head, expected) in cases {
            let by_name = mime_guess::from_path(name).first_raw();
            assert_eq!(choose(by_name, of_bytes(head)), expected, "{name}");
        }
    }
}
