//! Reads the files that SIGHUP has read again: certificates, keys, revocation lists and
//! credentials.
//!
//! Something else in the place of such a file must not stop the server: a FIFO to which nobody
//! writes would be waited for, with all later signals, and a device or a file of gigabytes would
//! fill the memory.

use std::fs::{FileType, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use thiserror::Error;
use zeroize::Zeroizing;

/// Maximum size of a file. Long ones are revocation lists.
const MAX_SIZE: u64 = 16 << 20;

/// Why a file is refused that could be read.
#[derive(Debug, Error)]
enum Refusal {
    #[error("it is {0}; replace it by a regular file")]
    NotRegular(&'static str),
    #[error("it exceeds the limit of {} MiB; is it the right file?", MAX_SIZE >> 20)]
    TooLong,
}

/// Reads a whole file. Links are followed.
///
/// # Errors
/// The kind is [`io::ErrorKind::InvalidInput`] if the file is too long or not a regular file. The
/// message then contains a hint.
pub(super) fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    // Checked before opening: to open some devices has an effect, and sockets cannot be opened.
    check(&path.metadata()?)?;
    // `NONBLOCK`, because opening a FIFO that has just replaced the file would block.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    check(&metadata)?;
    // The buffer is allocated at once. A buffer that grows would leave copies of a secret in freed
    // memory.
    let size = usize::try_from(metadata.len()).unwrap_or_default();
    let mut content = Zeroizing::new(Vec::with_capacity(size));
    file.take(MAX_SIZE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_SIZE {
        return Err(Refusal::TooLong.into());
    }
    Ok(content)
}

/// Reads a whole file of text, as [`read`] does.
pub(super) fn read_text(path: &Path) -> io::Result<Zeroizing<String>> {
    let content = read(path)?;
    // Without the error of the conversion, which has the text in it.
    let text = std::str::from_utf8(&content).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Zeroizing::new(text.to_owned()))
}

fn check(metadata: &Metadata) -> io::Result<()> {
    if !metadata.is_file() {
        return Err(Refusal::NotRegular(name(metadata.file_type())).into());
    }
    if metadata.len() > MAX_SIZE {
        return Err(Refusal::TooLong.into());
    }
    Ok(())
}

/// Returns the kind of a file that is not regular, for the error.
fn name(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "a pipe (FIFO)"
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::new(io::ErrorKind::InvalidInput, refusal)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    #[track_caller]
    fn check(path: &Path, expected: &str) {
        for refused in [read(path).map(drop), read_text(path).map(drop)] {
            let error = refused.expect_err("it is refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn whole_file_is_read_and_links_are_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, link) = (dir.path().join("file"), dir.path().join("link"));
        for text in ["", "a text\n"] {
            fs::write(&path, text).expect("a file");
            std::os::unix::fs::symlink(&path, &link).expect("a link");
            assert_eq!(*read(&path).expect("it is regular"), text.as_bytes());
            assert_eq!(*read_text(&link).expect("it is regular"), text);
            fs::remove_file(&link).expect("it is ours");
        }
    }

    #[test]
    fn what_is_not_a_regular_file_is_named_and_never_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let (fifo, socket) = (dir.path().join("fifo"), dir.path().join("socket"));
        let made = Command::new("mkfifo").arg(&fifo).status();
        assert!(made.is_ok_and(|status| status.success()), "a FIFO");
        let _listener = UnixListener::bind(&socket).expect("a socket");
        check(&fifo, "it is a pipe (FIFO); replace it by a regular file");
        check(&socket, "it is a socket; replace it by a regular file");
        check(
            dir.path(),
            "it is a directory; replace it by a regular file",
        );
        check(
            Path::new("/dev/zero"),
            "it is a device; replace it by a regular file",
        );
    }

    #[test]
    fn file_of_the_maximum_size_is_read_and_a_longer_one_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sparse");
        let file = File::create(&path).expect("a file");
        file.set_len(MAX_SIZE).expect("it can be sparse");
        assert_eq!(read(&path).expect("it fits").len() as u64, MAX_SIZE);
        for len in [MAX_SIZE + 1, 1 << 30] {
            file.set_len(len).expect("it can be sparse");
            check(&path, "it exceeds the limit of 16 MiB");
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_refused_without_the_text() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        fs::write(&path, b"secret\xff").expect("a file");
        let error = read_text(&path).expect_err("it is no text");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(!format!("{error:?} {error}").contains("secret"));
    }
}
