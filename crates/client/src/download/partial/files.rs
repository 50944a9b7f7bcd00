//! The paths of a download's files, their ownership, and the format of the sidecar.
//!
//! Other programs may have files with names that end in `.part`. A part or a sidecar that no
//! download of the same URL wrote is therefore neither changed nor removed, unless the caller
//! permits its replacement. If the part is empty or missing, nothing is lost with the sidecar, so a
//! sidecar that is empty or belongs to another download may be replaced all the same. Links are not
//! followed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use http::HeaderValue;
use serde::{Deserialize, Serialize};
use tempfile::{NamedTempFile, TempPath};
use url::Url;
use windlass_digest::{Crc32c, Md5, Md5Sha256Hasher, Sha256, Wanted};

use super::super::response::{MediaHeaders, is_strong};
use super::super::{DownloadError, with_suffix};
use crate::regular_file::{held_by_others, open_file};

/// The paths of a download.
#[derive(Debug, Clone)]
pub(super) struct Files {
    target: PathBuf,
    part: PathBuf,
    sidecar: PathBuf,
    /// Digest of the URL.
    url: Sha256,
    overwrite: bool,
}

/// The open part, which is locked if the file system supports locks.
#[derive(Debug)]
pub(super) struct OpenPart {
    pub(super) file: File,
    pub(super) owned: Owned,
    /// The headers of the media to which its bytes belong, and the length and digest of those
    /// bytes, if the sidecar permits to continue the download.
    pub(super) resumable: Option<(MediaHeaders, ReceivedPrefix)>,
}

/// The files that this run created or replaced, and so may remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owned {
    Nothing,
    Part,
    PartAndSidecar,
}

impl Files {
    pub(super) fn new(target: &Path, url: &Url, overwrite: bool) -> Self {
        Self {
            target: target.to_owned(),
            part: with_suffix(target, ".part"),
            sidecar: with_suffix(target, ".part.json"),
            url: sha256(url),
            overwrite,
        }
    }

    pub(super) fn part(&self) -> &Path {
        &self.part
    }

    /// Opens and locks the part, and creates it if it does not exist. Changes no other file. If the
    /// file system supports locks, no other download writes to the part while it is open.
    pub(super) fn open(&self) -> Result<OpenPart, DownloadError> {
        match self.target.symlink_metadata() {
            Ok(_) if !self.overwrite => return Err(self.exists()),
            // The rename would put a file in the place of a device such as /dev/null.
            Ok(there) if !there.is_file() && !there.is_symlink() => {
                return Err(not_a_file(&self.target));
            }
            Ok(_) | Err(_) => {}
        }
        let (file, owned) = self.open_part()?;
        self.lock(&file)?;
        match self.resumable(&file) {
            Ok(resumable) => Ok(OpenPart {
                file,
                owned,
                resumable,
            }),
            Err(error) => {
                self.remove(owned, &file).map_err(self.file_error())?;
                Err(error)
            }
        }
    }

    fn open_part(&self) -> Result<(File, Owned), DownloadError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let (opened, owned) = match open_file(options.clone().create_new(true), &self.part) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (open_file(&options, &self.part), Owned::Nothing)
            }
            opened => (opened, Owned::Part),
        };
        let file = opened.map_err(self.file_error())?;
        let file = file.ok_or_else(|| not_a_file(&self.part))?;
        match held_by_others(&file).map_err(self.file_error())? {
            None => Ok((file, owned)),
            Some(why) => Err(not_own(&self.part, why)),
        }
    }

    fn lock(&self, file: &File) -> Result<(), DownloadError> {
        let no_other_has_it = match file.try_lock() {
            // Some file systems do not support locks. The download is then not protected against a
            // second one.
            Ok(()) | Err(TryLockError::Error(_)) => true,
            Err(TryLockError::WouldBlock) => false,
        };
        // Between open and lock, another download may have renamed the file to the target.
        if no_other_has_it && is_at(file, &self.part).map_err(self.file_error())? {
            return Ok(());
        }
        Err(DownloadError::InUse {
            path: self.part.clone(),
        })
    }

    /// Reads the sidecar. Returns the headers of the media and the received bytes if the download
    /// can be continued, and `None` if it must start at the first byte.
    ///
    /// # Errors
    ///
    /// The part or the sidecar does not belong to a download of this URL and must not be replaced.
    fn resumable(
        &self,
        part: &File,
    ) -> Result<Option<(MediaHeaders, ReceivedPrefix)>, DownloadError> {
        let stat = part.metadata().map_err(self.file_error())?;
        let part_is_empty = stat.len() == 0;
        match Sidecar::read(&self.sidecar).map_err(self.file_error())? {
            SidecarFile::NotAFile => Err(not_a_file(&self.sidecar)),
            SidecarFile::NotOwn(why) => Err(not_own(&self.sidecar, why)),
            SidecarFile::Valid(sidecar) if sidecar.is_for_url(self.url) => Ok(sidecar.resumable()),
            _ if self.overwrite => Ok(None),
            SidecarFile::Unrecognized => Err(DownloadError::UnrelatedFile {
                path: self.sidecar.clone(),
            }),
            // An empty part has nothing to lose, whatever its sidecar says.
            SidecarFile::Valid(_) | SidecarFile::Missing if part_is_empty => Ok(None),
            SidecarFile::Valid(_) => Err(DownloadError::OtherUrl {
                path: self.part.clone(),
            }),
            SidecarFile::Missing => Err(DownloadError::UnrelatedFile {
                path: self.part.clone(),
            }),
        }
    }

    /// Writes the sidecar and returns it. `open` is the sidecar that this run has created, if it
    /// has: it is overwritten in place, without a sync, if it still has its name and its length.
    pub(super) fn write_sidecar(
        &self,
        open: Option<File>,
        media_headers: &MediaHeaders,
        received: ReceivedPrefix,
    ) -> io::Result<File> {
        let content = Sidecar::new(self.url, media_headers, received).to_bytes()?;
        if let Some(file) = open
            && is_at(&file, &self.sidecar)?
            && file.metadata()?.len() == content.len() as u64
        {
            // After a power failure a renamed file that was not synced may be empty. A file that is
            // overwritten has its old or its new content.
            file.write_all_at(&content, 0)?;
            return Ok(file);
        }
        self.create_sidecar(&content)
    }

    /// Creates the sidecar, or replaces it atomically. It is readable by its owner only.
    fn create_sidecar(&self, content: &[u8]) -> io::Result<File> {
        let mut file = NamedTempFile::new_in(self.directory())?;
        file.write_all(content)?;
        // Before the rename, so that the content is durable if the name is. The directory is not
        // synced: the journals of ext4, XFS and Btrfs make the name durable before any later byte
        // of the part. On other file systems a power cut may leave a part without a sidecar, which
        // is refused (`DownloadError::UnrelatedFile`) and not overwritten.
        file.as_file().sync_all()?;
        Ok(file.persist(&self.sidecar)?)
    }

    fn remove_sidecar(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.sidecar) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the owned files. The part is removed only if `part` still is the file of that name.
    pub(super) fn remove(&self, owned: Owned, part: &File) -> io::Result<()> {
        if owned != Owned::Nothing && is_at(part, &self.part)? {
            std::fs::remove_file(&self.part)?;
        }
        if owned == Owned::PartAndSidecar {
            self.remove_sidecar()?;
        }
        Ok(())
    }

    /// Syncs the part and renames it to the target.
    pub(super) fn publish(&self, file: &File) -> Result<(), DownloadError> {
        file.sync_all().map_err(self.file_error())?;
        if !is_at(file, &self.part).map_err(self.file_error())? {
            return Err(DownloadError::PartReplaced {
                path: self.part.clone(),
            });
        }
        // `TempPath` is used only for its rename, which can refuse to replace a file. The part is
        // not temporary, so it must be kept below: a dropped `TempPath` deletes its file.
        let part = TempPath::try_from_path(&self.part).map_err(self.file_error())?;
        let persisted = if self.overwrite {
            part.persist(&self.target)
        } else {
            part.persist_noclobber(&self.target)
        };
        if let Err(failure) = persisted {
            // The complete media is not deleted because of a failed rename.
            let _ = failure.path.keep();
            return Err(match failure.error.kind() {
                io::ErrorKind::AlreadyExists => self.exists(),
                _ => self.file_error()(failure.error),
            });
        }
        self.remove_sidecar().map_err(self.file_error())?;
        // Some systems cannot open directories, so the rename cannot be synced there.
        match File::open(self.directory()) {
            Ok(directory) => directory.sync_all().map_err(self.file_error()),
            Err(_) => Ok(()),
        }
    }

    fn directory(&self) -> &Path {
        match self.target.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        }
    }

    fn exists(&self) -> DownloadError {
        DownloadError::Exists {
            path: self.target.clone(),
        }
    }

    /// Returns a function that converts an I/O error of any of the files. The error names the part.
    pub(super) fn file_error(&self) -> impl Fn(io::Error) -> DownloadError + use<> {
        let path = self.part.clone();
        move |source| DownloadError::File {
            path: path.clone(),
            source,
        }
    }
}

fn not_a_file(path: &Path) -> DownloadError {
    DownloadError::NotAFile {
        path: path.to_owned(),
    }
}

fn not_own(path: &Path, why: &'static str) -> DownloadError {
    DownloadError::NotOwn {
        path: path.to_owned(),
        why,
    }
}

/// Returns whether an open file still is the file of this path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;

    let opened = file.metadata()?;
    match path.symlink_metadata() {
        Ok(there) => Ok((there.dev(), there.ino()) == (opened.dev(), opened.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Maximum size of the sidecar in bytes.
const MAX_SIDECAR: u64 = 64 << 10;

/// The length of a sidecar is a multiple of this number of bytes, a sector: disks write a sector as
/// a whole.
const SIDECAR_STEP: usize = 512;

/// The content of the sidecar: identifies the media and the bytes of it in the part.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sidecar {
    /// Digest of the URL and not the URL, because a URL may contain secrets.
    url_sha256: Sha256,
    etag: Option<String>,
    size: Option<u64>,
    crc32c: Option<Crc32c>,
    md5: Option<Md5>,
    content_type: Option<String>,
    /// The bytes received when this was written.
    received: Option<ReceivedPrefix>,
}

/// Length and CRC32C of the received bytes. A later run compares the beginning of the part with
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReceivedPrefix {
    pub(super) length: u64,
    pub(super) crc32c: Crc32c,
}

/// The file with the name of the sidecar.
#[derive(Debug)]
pub(super) enum SidecarFile {
    /// No file, or an empty one.
    Missing,
    Valid(Box<Sidecar>),
    /// A file that no download wrote.
    Unrecognized,
    /// A link, a directory or another special file.
    NotAFile,
    /// Others may have a hold of it.
    NotOwn(&'static str),
}

impl Sidecar {
    pub(super) fn new(url: Sha256, media_headers: &MediaHeaders, received: ReceivedPrefix) -> Self {
        Self {
            url_sha256: url,
            etag: media_headers.etag.as_ref().and_then(text),
            size: media_headers.size,
            crc32c: media_headers.crc32c,
            md5: media_headers.md5,
            content_type: media_headers.content_type.as_ref().and_then(text),
            received: Some(received),
        }
    }

    pub(super) fn read(path: &Path) -> io::Result<SidecarFile> {
        let file = match open_file(OpenOptions::new().read(true), path) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(SidecarFile::NotAFile),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(SidecarFile::Missing);
            }
            Err(error) => return Err(error),
        };
        if let Some(why) = held_by_others(&file)? {
            return Ok(SidecarFile::NotOwn(why));
        }
        let mut json = Vec::new();
        file.take(MAX_SIDECAR).read_to_end(&mut json)?;
        Ok(match serde_json::from_slice(&json) {
            Ok(sidecar) => SidecarFile::Valid(Box::new(sidecar)),
            // After a power failure the file may exist without its content.
            Err(_) if json.is_empty() => SidecarFile::Missing,
            Err(_) => SidecarFile::Unrecognized,
        })
    }

    /// Returns the JSON, padded with spaces, so that a sidecar of the same media with another
    /// number of received bytes nearly always has the same length.
    fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut json = serde_json::to_vec(self)?;
        json.resize(json.len().next_multiple_of(SIDECAR_STEP), b' ');
        Ok(json)
    }

    pub(super) fn is_for_url(&self, url: Sha256) -> bool {
        self.url_sha256 == url
    }

    /// Returns the headers of the media and the received bytes, if the download can be continued.
    pub(super) fn resumable(self) -> Option<(MediaHeaders, ReceivedPrefix)> {
        let received = self.received?;
        let etag = HeaderValue::try_from(self.etag?).ok()?;
        let content_type = self.content_type;
        let is_strong = is_strong(&etag);
        let media_headers = MediaHeaders {
            etag: Some(etag),
            size: self.size,
            crc32c: self.crc32c,
            md5: self.md5,
            content_type: content_type.and_then(|text| HeaderValue::try_from(text).ok()),
        };
        is_strong.then_some((media_headers, received))
    }
}

/// Returns the digest that identifies a URL in the sidecar.
pub(super) fn sha256(url: &Url) -> Sha256 {
    let mut hasher = Md5Sha256Hasher::new(Wanted {
        md5: false,
        sha256: true,
    });
    hasher.update(url.as_str().as_bytes());
    hasher.finish().1.expect("it was wanted")
}

fn text(value: &HeaderValue) -> Option<String> {
    value.to_str().ok().map(str::to_owned)
}
