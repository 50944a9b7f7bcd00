//! The finished uploads of runs that have not ended whole.
//!
//! A run uploads several sources to one URL. Its finished uploads are recorded, so that the same
//! run, stopped and started again, does not upload them twice. They are forgotten when a run with
//! their sources ends whole. A run that has only a part of these sources forgets none: the larger
//! run, started again, needs them.
//!
//! All finished uploads to one URL with one HTTP method are in the file `ID.upload.finished` of the
//! journal. The id is made of the URL and the method. Its first line is the [header](StoredTarget),
//! and each further line is an upload. Lines are appended and synced one by one, under a lock of
//! the file. A line without an end is left by a killed process and is ignored, and cut off before
//! the next one is appended. Uploads are forgotten by an atomic replacement of the whole file, so
//! that either all uploads of a run are forgotten or none.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use windlass_digest::Sha256;

use super::files::{Versioned, has_name, not_a_record, open, seconds, sync_directory, time};
use super::{Damage, Journal, JournalError, RecordId, UploadKey, now};
use crate::SourceIdentity;

/// A run of several uploads. A run that is stopped and started again is the same run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(u64);

impl RunId {
    /// Returns the id of a new run.
    ///
    /// # Errors
    ///
    /// The operating system provides no random numbers.
    pub fn random() -> Result<Self, JournalError> {
        Ok(Self(getrandom::u64().map_err(JournalError::Random)?))
    }
}

/// An upload that was finished.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FinishedUpload {
    /// Identity of the file that was uploaded.
    pub source: SourceIdentity,
    /// The `id` of the resource. Without an `id`, it is the `name` of the resource, if the server
    /// states one.
    pub resource_id: Option<String>,
    /// When the upload was finished, in whole seconds.
    pub finished: SystemTime,
    /// The run that the upload is a part of, if the run is [known](crate::Upload::of_run).
    pub run: Option<RunId>,
    /// Digest of the parts of the key that are not in the file's header and not in the source.
    key: Sha256,
}

/// The finished uploads to one URL with one HTTP method.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FinishedUploads {
    /// The upload URL. It may contain an API key.
    pub url: String,
    /// The HTTP method.
    pub http_method: String,
    /// The uploads, in the order in which they were finished.
    pub uploads: Vec<FinishedUpload>,
}

/// Maximum length of a line in bytes. A path has at most 4096 bytes, each of which JSON may escape
/// as six, and a URL is shorter than the head of a request.
const MAX_LINE: u64 = 128 << 10;

/// Maximum length of a file in bytes, which has room for half a million uploads.
const MAX_FILE: u64 = 256 << 20;

/// Maximum length of a resource's id in bytes. A longer one is not recorded.
const MAX_RESOURCE_ID: usize = 4096;

/// The version of the files that are written and read.
const VERSION: u64 = 1;

const EXTENSION: &str = "upload.finished";

/// The next version of a file, before the rename.
const NEW_EXTENSION: &str = "upload.finished.new";

/// The header of a file.
#[derive(Serialize, Deserialize)]
struct StoredTarget {
    version: u64,
    url: String,
    verb: String,
}

/// A line of a file.
#[derive(Serialize, Deserialize)]
struct StoredUpload {
    source: SourceIdentity,
    key: Sha256,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    /// Seconds since 1970.
    finished: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
}

impl FinishedUploads {
    /// Returns the finished upload with this key of a file that is now `now`; `None` also if the
    /// file has changed since.
    pub fn find(&self, key: &UploadKey, now: &SourceIdentity) -> Option<&FinishedUpload> {
        Some(&self.uploads[self.position(key, now)?])
    }

    /// Removes the finished upload that [`find`](Self::find) finds, and returns it. A file that was
    /// uploaded twice is then found once more.
    pub fn take(&mut self, key: &UploadKey, now: &SourceIdentity) -> Option<FinishedUpload> {
        Some(self.uploads.remove(self.position(key, now)?))
    }

    fn position(&self, key: &UploadKey, now: &SourceIdentity) -> Option<usize> {
        let digest = key.digest();
        let has_key =
            |upload: &FinishedUpload| upload.source.path() == key.path() && upload.key == digest;
        // The newest decides.
        let found = self.uploads.iter().rposition(has_key)?;
        let source = &self.uploads[found].source;
        source.difference(now).is_none().then_some(found)
    }

    /// Returns the finished uploads by the path of their file.
    pub fn by_path(self) -> HashMap<PathBuf, Self> {
        let mut by_path = HashMap::<_, Self>::new();
        for upload in self.uploads {
            let of_path = by_path.entry(upload.source.path().to_owned());
            let of_path = of_path.or_insert_with(|| Self {
                url: self.url.clone(),
                http_method: self.http_method.clone(),
                uploads: Vec::new(),
            });
            of_path.uploads.push(upload);
        }
        by_path
    }
}

impl Journal {
    /// Returns the finished uploads to a URL.
    ///
    /// # Errors
    ///
    /// The file of these uploads cannot be read or used.
    pub fn finished_at(
        &self,
        url: &str,
        http_method: &str,
    ) -> Result<FinishedUploads, JournalError> {
        let target = Target::new(self, url, http_method);
        target.read()
    }

    /// Returns the finished uploads to all URLs, and an error for each file that cannot be used.
    ///
    /// # Errors
    ///
    /// The directory cannot be listed.
    pub fn finished(&self) -> Result<(Vec<FinishedUploads>, Vec<JournalError>), JournalError> {
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        for path in self.finished_files()? {
            match read(&path, self.user) {
                Ok(Some(uploads)) => found.push(uploads),
                Ok(None) => {}
                Err(damage) => damaged.push(JournalError::DamagedFinished { path, damage }),
            }
        }
        found.sort_by_key(|uploads| {
            let first = uploads.uploads.first();
            (first.map(|first| first.finished), uploads.url.clone())
        });
        Ok((found, damaged))
    }

    /// Forgets the finished uploads with these keys, all at once. Finished uploads of files that
    /// have changed or are gone are forgotten too. Survives a power failure once this returns.
    ///
    /// # Errors
    ///
    /// A file cannot be read or replaced. All of its uploads are then still recorded.
    pub fn forget_finished(&self, keys: &[UploadKey]) -> Result<(), JournalError> {
        self.forget(keys, |_, _| false)
    }

    /// Forgets the finished uploads with these keys at the end of a run, as
    /// [`forget_finished`](Self::forget_finished) does. Uploads of a larger run are kept: such a
    /// run has finished uploads of other files as well, so it was stopped and may be started again.
    ///
    /// # Errors
    ///
    /// A file cannot be read or replaced. All of its uploads are then still recorded.
    pub fn forget_finished_run(&self, keys: &[UploadKey]) -> Result<(), JournalError> {
        self.forget(keys, |upload, larger| {
            upload.run.is_some_and(|run| larger.contains(&run))
        })
    }

    /// Forgets the finished uploads with these keys, unless `keeps` one. That gets the runs that
    /// have finished uploads with other keys.
    fn forget(
        &self,
        keys: &[UploadKey],
        keeps: impl Fn(&FinishedUpload, &HashSet<RunId>) -> bool,
    ) -> Result<(), JournalError> {
        let mut by_target = HashMap::<_, Vec<_>>::new();
        for key in keys {
            let of_target = by_target.entry((key.url(), key.http_method()));
            of_target.or_default().push(key);
        }
        for ((url, http_method), keys) in by_target {
            let mut digests = HashMap::<_, Vec<_>>::new();
            for key in keys {
                digests.entry(key.path()).or_default().push(key.digest());
            }
            let is_named = |upload: &FinishedUpload| {
                let of_path = digests.get(upload.source.path());
                of_path.is_some_and(|of_path| of_path.contains(&upload.key))
            };
            Target::new(self, url, http_method).retain(|uploads| {
                uploads.retain(|upload| is_named(upload) || upload.source.is_still_there());
                let others = uploads.iter().filter(|upload| !is_named(upload));
                let larger: HashSet<_> = others.filter_map(|upload| upload.run).collect();
                uploads.retain(|upload| !is_named(upload) || keeps(upload, &larger));
            })?;
        }
        Ok(())
    }

    /// Forgets all finished uploads, also those in files that cannot be used.
    ///
    /// # Errors
    ///
    /// The directory cannot be listed, or a file cannot be removed.
    pub fn forget_all_finished(&self) -> Result<(), JournalError> {
        for path in self.finished_files()? {
            super::files::remove(&path)?;
        }
        sync_directory(&self.directory).map_err(|source| JournalError::Directory {
            directory: self.directory.clone(),
            source,
        })
    }

    /// Records that an upload is finished. Survives a power failure once this returns.
    pub(crate) fn add_finished(
        &self,
        key: &UploadKey,
        source: SourceIdentity,
        resource_id: Option<String>,
        run: Option<RunId>,
    ) -> Result<(), JournalError> {
        let upload = FinishedUpload {
            source,
            run,
            resource_id: resource_id.filter(|id| id.len() <= MAX_RESOURCE_ID),
            finished: now(),
            key: key.digest(),
        };
        Target::new(self, key.url(), key.http_method()).append(&upload)
    }

    fn finished_files(&self) -> Result<Vec<PathBuf>, JournalError> {
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            let parts = name.and_then(|name| name.split_once('.'));
            parts.is_some_and(|(id, extension)| {
                extension == EXTENSION && id.parse::<RecordId>().is_ok()
            })
        };
        let entries = self.directory.read_dir();
        let paths = entries.and_then(|entries| {
            let paths = entries.map(|entry| Ok(entry?.path()));
            paths.collect::<io::Result<Vec<_>>>()
        });
        let paths = paths.map_err(|source| JournalError::Directory {
            directory: self.directory.clone(),
            source,
        })?;
        Ok(paths.into_iter().filter(is_ours).collect())
    }
}

/// The file of one URL and HTTP method.
struct Target<'a> {
    journal: &'a Journal,
    id: RecordId,
    path: PathBuf,
    url: &'a str,
    http_method: &'a str,
}

impl<'a> Target<'a> {
    fn new(journal: &'a Journal, url: &'a str, http_method: &'a str) -> Self {
        let id = RecordId::of_digest(super::record::digest(&[http_method, url]));
        Self {
            path: journal.directory.join(format!("{id}.{EXTENSION}")),
            id,
            journal,
            url,
            http_method,
        }
    }

    /// Reads the file. Without one there are no finished uploads.
    fn read(&self) -> Result<FinishedUploads, JournalError> {
        match read(&self.path, self.journal.user).map_err(|damage| self.damaged(damage))? {
            Some(found) if found.url != self.url || found.http_method != self.http_method => {
                Err(self.damaged(Damage::OtherTarget))
            }
            Some(found) => Ok(found),
            None => Ok(FinishedUploads::default()),
        }
    }

    fn damaged(&self, damage: Damage) -> JournalError {
        JournalError::DamagedFinished {
            path: self.path.clone(),
            damage,
        }
    }

    /// Appends an upload, durably.
    fn append(&self, upload: &FinishedUpload) -> Result<(), JournalError> {
        let mut file = self.lock(true)?.expect("it is created");
        let is_new = self.cut_torn_line(&mut file)? == 0;
        let mut text = if is_new { self.header() } else { Vec::new() };
        text.extend(line(upload));
        let mut write = || {
            let length = file.metadata()?.len();
            if length + text.len() as u64 > MAX_FILE {
                return Err(io::Error::other(format!(
                    "it would exceed {MAX_FILE} bytes"
                )));
            }
            file.write_all(&text)?;
            file.sync_data()?;
            if is_new {
                sync_directory(&self.journal.directory)?;
            }
            Ok(())
        };
        write().map_err(|source| self.cannot_write(source))
    }

    /// Keeps only the uploads that `forget` leaves. Removes the file if none is left.
    fn retain(&self, forget: impl FnOnce(&mut Vec<FinishedUpload>)) -> Result<(), JournalError> {
        let Some(_locked) = self.lock(false)? else {
            return Ok(());
        };
        let mut kept = self.read()?.uploads;
        let found = kept.len();
        forget(&mut kept);
        if kept.len() == found && !kept.is_empty() {
            return Ok(());
        }
        let new = self
            .path
            .with_file_name(format!("{}.{NEW_EXTENSION}", self.id));
        let replaced = if kept.is_empty() {
            super::files::remove(&new)?;
            fs::remove_file(&self.path)
        } else {
            let mut text = self.header();
            text.extend(kept.iter().flat_map(line));
            replace(&new, &self.path, &text)
        };
        replaced
            .and_then(|()| sync_directory(&self.journal.directory))
            .map_err(|source| self.cannot_write(source))
    }

    /// Opens the file and locks it against other processes until it is closed. `None` if there is
    /// no file and none is to be created.
    fn lock(&self, create: bool) -> Result<Option<File>, JournalError> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(create).mode(0o600);
        let locked = || loop {
            let file = match open(&options, &self.path) {
                Err(error) if !create && error.kind() == io::ErrorKind::NotFound => {
                    return Ok(None);
                }
                file => file?,
            };
            file.lock()?;
            // Another process may have replaced the file before it was locked.
            if has_name(&file, &self.path)? {
                return Ok(Some(file));
            }
        };
        let file = locked().map_err(|source| JournalError::Lock {
            path: self.path.clone(),
            source,
        })?;
        if let Some(file) = &file {
            self.make_private(file)?;
        }
        Ok(file)
    }

    /// Refuses the file of another user, and makes the file readable by its owner only.
    fn make_private(&self, file: &File) -> Result<(), JournalError> {
        let metadata = file
            .metadata()
            .map_err(|source| self.cannot_write(source))?;
        if metadata.uid() != self.journal.user {
            return Err(self.damaged(Damage::OwnedByAnother {
                owner: metadata.uid(),
            }));
        }
        let others_mode = metadata.mode() & 0o077;
        if others_mode == 0 {
            return Ok(());
        }
        file.set_permissions(Permissions::from_mode(0o600))
            .map_err(|source| self.cannot_write(source))
    }

    /// Cuts off a last line without an end, and returns the length of the rest.
    fn cut_torn_line(&self, file: &mut File) -> Result<u64, JournalError> {
        let mut cut = || {
            let length = file.metadata()?.len();
            if ends_a_line(file, length)? {
                return Ok(length);
            }
            let from = length.saturating_sub(MAX_LINE);
            let mut end = Vec::new();
            file.seek(SeekFrom::Start(from))?;
            file.take(MAX_LINE).read_to_end(&mut end)?;
            let last = end.iter().rposition(|byte| *byte == b'\n');
            let whole = last.map_or(0, |last| from + last as u64 + 1);
            file.set_len(whole)?;
            Ok(whole)
        };
        cut().map_err(|source| self.cannot_write(source))
    }

    fn header(&self) -> Vec<u8> {
        let header = StoredTarget {
            version: VERSION,
            url: self.url.to_owned(),
            verb: self.http_method.to_owned(),
        };
        let mut text = serde_json::to_vec(&header).expect("its keys are text");
        text.push(b'\n');
        text
    }

    fn cannot_write(&self, source: io::Error) -> JournalError {
        JournalError::Write {
            path: self.path.clone(),
            source,
        }
    }
}

/// Writes a file and gives it its name, without a sync of the directory.
fn replace(new: &Path, path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    let mut file = open(&options, new)?;
    file.set_len(0)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(new, path)
}

fn line(upload: &FinishedUpload) -> Vec<u8> {
    let stored = StoredUpload {
        source: upload.source.clone(),
        key: upload.key,
        resource: upload.resource_id.clone(),
        finished: seconds(upload.finished),
        run: upload.run,
    };
    let mut text = serde_json::to_vec(&stored).expect("its keys are text");
    text.push(b'\n');
    text
}

/// Returns whether a file is empty or its last byte ends a line.
fn ends_a_line(file: &mut File, length: u64) -> io::Result<bool> {
    let Some(last) = length.checked_sub(1) else {
        return Ok(true);
    };
    let mut byte = [0];
    file.seek(SeekFrom::Start(last))?;
    file.read_exact(&mut byte)?;
    Ok(byte == *b"\n")
}

/// Reads a file. Returns `None` if the file does not exist or has no header. Reads at most
/// [`MAX_FILE`] bytes, and at most [`MAX_LINE`] bytes of a line.
fn read(path: &Path, user: u32) -> Result<Option<FinishedUploads>, Damage> {
    let file = match open(OpenOptions::new().read(true), path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(Damage::Unreadable)?,
    };
    let metadata = file.metadata().map_err(Damage::Unreadable)?;
    if metadata.uid() != user {
        return Err(Damage::OwnedByAnother {
            owner: metadata.uid(),
        });
    }
    if metadata.len() > MAX_FILE {
        return Err(Damage::TooLong { max: MAX_FILE });
    }
    let mut lines = Lines(BufReader::new(file.take(MAX_FILE)));
    let Some(header) = lines.next_line()? else {
        return Ok(None);
    };
    let mut found = target_of(&header)?;
    let mut number = 1;
    while let Some(line) = lines.next_line()? {
        number += 1;
        let Ok(stored) = serde_json::from_slice::<StoredUpload>(&line) else {
            // A file without a record is uploaded again. The remaining records stay usable.
            tracing::warn!(
                "line {number} of {} is damaged: its file counts as not uploaded",
                path.display()
            );
            continue;
        };
        found.uploads.push(FinishedUpload {
            source: stored.source,
            resource_id: stored.resource,
            finished: time(stored.finished),
            run: stored.run,
            key: stored.key,
        });
    }
    Ok(Some(found))
}

/// Reads the header of a file.
fn target_of(header: &[u8]) -> Result<FinishedUploads, Damage> {
    let Versioned { version } = serde_json::from_slice(header).map_err(not_a_record)?;
    if version != VERSION {
        return Err(Damage::Version {
            found: version,
            known: VERSION,
        });
    }
    let header: StoredTarget = serde_json::from_slice(header).map_err(not_a_record)?;
    Ok(FinishedUploads {
        url: header.url,
        http_method: header.verb,
        uploads: Vec::new(),
    })
}

/// The whole lines of a file.
struct Lines(BufReader<io::Take<File>>);

impl Lines {
    /// Returns the next whole line, or `None` at the end.
    fn next_line(&mut self) -> Result<Option<Vec<u8>>, Damage> {
        let mut line = Vec::new();
        let mut bounded = (&mut self.0).take(MAX_LINE);
        bounded
            .read_until(b'\n', &mut line)
            .map_err(Damage::Unreadable)?;
        match line.last() {
            Some(b'\n') => Ok(Some(line)),
            Some(_) if line.len() as u64 == MAX_LINE => Err(Damage::TooLong { max: MAX_LINE }),
            _ => Ok(None),
        }
    }
}
