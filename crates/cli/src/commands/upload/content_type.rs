//! The type of media, guessed from its first bytes and its name.

use std::path::Path;

use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

/// So many first bytes tell what they can.
pub(super) const ENOUGH: u64 = 512;

/// Types that say how something is packed or written and not what it is: a name knows better.
const VAGUE: [&str; 5] = [
    "application/zip",
    "application/gzip",
    "text/xml",
    "text/html",
    "application/x-ole-storage",
];

/// The type of a file. `None` when nothing is known, or when it is no regular file: what is read of a
/// pipe is gone.
pub(super) async fn of_file(path: &Path) -> Option<String> {
    let by_name = mime_guess::from_path(path).first_raw();
    let head = head_of(path).await.unwrap_or_default();
    choose(by_name, of_content(&head)).map(str::to_owned)
}

/// The type of what begins with these bytes.
pub(super) fn of_content(head: &[u8]) -> Option<&'static str> {
    infer::get(head).map(|found| found.mime_type())
}

async fn head_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    if tokio::fs::metadata(path).await?.is_file() {
        let file = File::open(path).await?;
        file.take(ENOUGH).read_to_end(&mut head).await?;
    }
    Ok(head)
}

/// Bytes do not lie as names do, but some of them say little.
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
            assert_eq!(choose(by_name, of_content(head)), expected, "{name}");
        }
    }
}
