//! The data of an authority in the data directory: the account, and the certificate with its key.
//!
//! ```text
//! DATA/acme/AUTHORITY/account.json      the account's URL and key
//! DATA/acme/AUTHORITY/certificate.pem   the key, and the chain of the certificate
//! ```
//!
//! AUTHORITY is derived from the URL of the directory. A change of the URL therefore keeps the
//! files of both authorities. All files are readable by their owner only. A file is replaced as a
//! whole, durably. Key and certificate are in one file, so they always belong together.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use instant_acme::AccountCredentials;
use serde::{Deserialize, Serialize};
use thiserror::Error;

const ACCOUNT: &str = "account.json";
const CERTIFICATE: &str = "certificate.pem";

/// The folder of an authority.
#[derive(Debug, Clone)]
pub(super) struct State {
    folder: PathBuf,
}

/// An account as it is stored. It has no `Debug`: it contains the key.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredAccount {
    /// The contacts that the authority knows, as URIs.
    pub(super) contact: Vec<String>,
    pub(super) credentials: AccountCredentials,
}

/// A file cannot be read or written. The message contains nothing of its content.
#[derive(Debug, Error)]
pub(super) enum StateError {
    #[error("{} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} cannot be written", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("{} is damaged", path.display())]
    Damaged { path: PathBuf },
}

impl State {
    /// Returns the folder of the authority with this directory. Nothing is opened.
    pub(super) fn new(data: &Path, directory: &str) -> Self {
        Self {
            folder: data.join("acme").join(folder_name(directory)),
        }
    }

    /// Reads the certificate with its key, both as PEM. Returns `None` if none is stored.
    pub(super) fn certificate(&self) -> Result<Option<String>, StateError> {
        let path = self.folder.join(CERTIFICATE);
        let text = read(&path)?.map(String::from_utf8).transpose();
        text.map_err(|_| StateError::Damaged { path })
    }

    /// Replaces the certificate and its key.
    pub(super) fn write_certificate(&self, pem: &str) -> Result<(), StateError> {
        self.write(CERTIFICATE, pem.as_bytes())
    }

    /// Reads the account. Returns `None` if none is stored.
    pub(super) fn account(&self) -> Result<Option<StoredAccount>, StateError> {
        let path = self.folder.join(ACCOUNT);
        let account = read(&path)?.map(|text| serde_json::from_slice(&text));
        // The parser's error could quote a part of the key.
        account
            .transpose()
            .map_err(|_| StateError::Damaged { path })
    }

    /// Replaces the account.
    pub(super) fn write_account(&self, account: &StoredAccount) -> Result<(), StateError> {
        let text = serde_json::to_vec(account).expect("text and lists of text are JSON");
        self.write(ACCOUNT, &text)
    }

    /// Deletes the account, which the authority does not know any more.
    pub(super) fn forget_account(&self) -> Result<(), StateError> {
        let path = self.folder.join(ACCOUNT);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(StateError::Unwritable { path, source })
            }
            _ => Ok(()),
        }
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), StateError> {
        let path = self.folder.join(name);
        self.replace(&path, content)
            .map_err(|source| StateError::Unwritable { path, source })
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        create_folder(&self.folder)?;
        let new = path.with_extension("new");
        // A file that a crash has left could have other permissions.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        File::open(&self.folder)?.sync_all()
    }
}

/// Creates the folder and its parent, durably.
fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let around = folder.ancestors().skip(1).take(2);
    around.map(File::open).try_for_each(|it| it?.sync_all())
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, StateError> {
    match fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StateError::Unreadable {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Returns the URL as the name of a folder: `acme-v02.api.letsencrypt.org-directory`.
fn folder_name(directory: &str) -> String {
    let url = directory.trim_start_matches("https://");
    let is_kept = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    let name = url.replace(|c| !is_kept(c), "-");
    name.trim_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;

    const CREDENTIALS: &str = r#"{"id":"https://ca.example/1","key_pkcs8":"c2VjcmV0","directory":"https://ca.example/dir"}"#;

    fn state(data: &TempDir) -> State {
        State::new(data.path(), "https://ca.example:14000/dir")
    }

    fn account() -> StoredAccount {
        StoredAccount {
            contact: vec!["mailto:ops@example.com".into()],
            credentials: serde_json::from_str(CREDENTIALS).expect("credentials"),
        }
    }

    fn mode(path: &Path) -> u32 {
        let metadata = fs::metadata(path).expect("it is there");
        metadata.permissions().mode() & 0o777
    }

    #[test]
    fn what_is_written_is_read_again() {
        let data = tempfile::tempdir().expect("a directory");
        let state = state(&data);
        assert!(state.certificate().expect("no file").is_none());
        assert!(state.account().expect("no file").is_none());
        state.write_account(&account()).expect("written");
        for pem in ["first", "second"] {
            state.write_certificate(pem).expect("written");
            let read = state.certificate().expect("readable");
            assert_eq!(read.as_deref(), Some(pem));
        }
        let read = state.account().expect("readable").expect("an account");
        assert_eq!(read.contact, account().contact);
        let json = |account: &StoredAccount| serde_json::to_string(account).expect("JSON");
        assert_eq!(json(&read), json(&account()));
        state.forget_account().expect("deleted");
        state.forget_account().expect("there is none");
        assert!(state.account().expect("no file").is_none());
    }

    #[test]
    fn only_the_owner_can_read_it() {
        let data = tempfile::tempdir().expect("a directory");
        let state = state(&data);
        state.write_account(&account()).expect("written");
        state.write_certificate("pem").expect("written");
        assert_eq!(mode(&data.path().join("acme")), 0o700);
        assert_eq!(mode(&state.folder), 0o700);
        assert_eq!(mode(&state.folder.join(ACCOUNT)), 0o600);
        assert_eq!(mode(&state.folder.join(CERTIFICATE)), 0o600);
    }

    #[test]
    fn what_a_crash_has_left_is_neither_read_nor_in_the_way() {
        let data = tempfile::tempdir().expect("a directory");
        let state = state(&data);
        state.write_certificate("old").expect("written");
        let left = state.folder.join("certificate.new");
        fs::write(&left, "hal").expect("a file");
        fs::set_permissions(&left, fs::Permissions::from_mode(0o644)).expect("a mode");
        assert_eq!(
            state.certificate().expect("readable").as_deref(),
            Some("old")
        );
        state.write_certificate("new").expect("written");
        assert_eq!(
            state.certificate().expect("readable").as_deref(),
            Some("new")
        );
        assert_eq!(mode(&state.folder.join(CERTIFICATE)), 0o600);
        assert!(!left.exists());
    }

    #[test]
    fn damage_is_told_without_a_part_of_the_key() {
        let data = tempfile::tempdir().expect("a directory");
        let state = state(&data);
        state.write_account(&account()).expect("written");
        let path = state.folder.join(ACCOUNT);
        let text = fs::read_to_string(&path).expect("text");
        fs::write(&path, text.replace("c2VjcmV0", "c2VjcmV0?")).expect("a file");
        let Err(error) = state.account() else {
            panic!("it is damaged");
        };
        let said = format!("{error} {error:?} {state:?}");
        assert!(
            said.contains("is damaged") && !said.contains("c2Vj"),
            "{said}"
        );
        fs::write(state.folder.join(CERTIFICATE), [0xff]).expect("a file");
        assert!(matches!(
            state.certificate(),
            Err(StateError::Damaged { .. })
        ));
    }

    #[test]
    fn each_authority_has_a_folder_of_its_own() {
        for (directory, expected) in [
            (
                "https://acme-v02.api.letsencrypt.org/directory",
                "acme-v02.api.letsencrypt.org-directory",
            ),
            ("https://localhost:14000/dir", "localhost-14000-dir"),
            ("https://ca.example/../../etc/", "ca.example-..-..-etc"),
            ("https://[::1]/dir?a=b", "1--dir-a-b"),
        ] {
            assert_eq!(folder_name(directory), expected);
        }
    }
}
