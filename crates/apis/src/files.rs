//! The API of files: any media, with a name, at the path `/files` or another that an operator chooses.
//!
//! It is for uploads without an API of one's own, such as those of tus clients. The default handler
//! serves it.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use windlass_discovery::Api;
use windlass_discovery::document::MethodDescription;
use windlass_discovery::settings::{LedgerPath, Settings};
use windlass_rest::ServedApi;
use windlass_rest::registry::OWN_SEGMENTS;

use crate::{ApiProvider, description};

pub(crate) const PROVIDER: ApiProvider = ApiProvider {
    name: "files",
    inputs: include_str!("files/inputs.toml"),
    built_in: |options| {
        let api = description(include_str!("files/files.toml"));
        vec![ServedApi::with_default_handler(at(
            &api,
            &options.files_path,
        ))]
    },
    from_document: |api, _| ServedApi::with_default_handler(api),
};

/// The path in the description.
const DESCRIBED: &str = "files";

/// First segments of paths that the binary answers itself, besides [`OWN_SEGMENTS`], and of paths of
/// sessions of tus below `/upload`.
const OF_BINARY: [&str; 6] = [
    "-tus",
    ".well-known",
    "healthz",
    "metrics",
    "readyz",
    "token",
];

/// The path of the API of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesPath(String);

/// Reason why a text is no [`FilesPath`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotAFilesPath {
    /// It is not of the form of a path.
    #[error(
        "`{text}` is not a path such as /uploads: each segment is a `/` and letters, digits, `-`, `_`, \
         `.` or `~`"
    )]
    Form {
        /// The text.
        text: String,
    },
    /// The server answers itself at the path or above it.
    #[error("`{text}` begins with /{segment}, at which the server itself answers")]
    OfServer {
        /// The text.
        text: String,
        /// The first segment.
        segment: String,
    },
}

impl FilesPath {
    /// Returns the path, with its leading slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for FilesPath {
    /// Returns `/files`.
    fn default() -> Self {
        Self(format!("/{DESCRIBED}"))
    }
}

impl FromStr for FilesPath {
    type Err = NotAFilesPath;

    fn from_str(text: &str) -> Result<Self, NotAFilesPath> {
        let malformed = || NotAFilesPath::Form {
            text: text.to_owned(),
        };
        let mut segments = text.strip_prefix('/').ok_or_else(malformed)?.split('/');
        if !segments.clone().all(is_segment) {
            return Err(malformed());
        }
        let segment = segments.next().unwrap_or_default();
        if OWN_SEGMENTS.contains(&segment) || OF_BINARY.contains(&segment) {
            return Err(NotAFilesPath::OfServer {
                text: text.to_owned(),
                segment: segment.to_owned(),
            });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for FilesPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a text is a segment of unreserved characters (RFC 3986, 2.3), which clients remove or
/// encode nowhere.
fn is_segment(text: &str) -> bool {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    !["", ".", ".."].contains(&text) && text.bytes().all(is_unreserved)
}

/// Returns the API at another path. Its resources keep their path in the ledger.
fn at(api: &Api, path: &FilesPath) -> Api {
    let mut document = api.document().clone();
    let files = document.collections.get_mut(DESCRIBED);
    let methods = files.expect("it is described").methods.values_mut();
    let relative = path.as_str().trim_start_matches('/');
    for described in methods.flat_map(paths_of) {
        *described = described.replacen(DESCRIBED, relative, 1);
    }
    let moved = Api::from_document(document).expect("a path leaves a description valid");
    let ledger_path = LedgerPath {
        served: relative.to_owned(),
        kept: DESCRIBED.to_owned(),
    };
    moved.with_settings(Settings {
        ledger_path: Some(ledger_path),
        ..api.settings().clone()
    })
}

/// All paths of a method.
fn paths_of(method: &mut MethodDescription) -> impl Iterator<Item = &mut String> {
    let protocols = method.media_upload.as_mut().map(|it| &mut it.protocols);
    let protocols = protocols
        .into_iter()
        .flat_map(|it| [&mut it.simple, &mut it.resumable]);
    let uploads = protocols.flatten().map(|it| &mut it.path);
    let plain = [&mut method.path, &mut method.flat_path];
    plain.into_iter().flatten().chain(uploads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, by_name};

    #[test]
    fn path_is_of_plain_segments_and_none_of_the_server() {
        for text in [
            "/files",
            "/uploads",
            "/media/v1.0/user_files~-",
            "/upload-files",
        ] {
            assert_eq!(text.parse::<FilesPath>().unwrap().as_str(), text);
        }
        for text in [
            "", "/", "files", "//files", "/files/", "/a//b", "/.", "/a/..", "/a b", "/a%20b",
            "/{id}", "/a:b", "/a?b", "/ä",
        ] {
            let refused = text.parse::<FilesPath>();
            assert!(matches!(refused, Err(NotAFilesPath::Form { .. })), "{text}");
        }
        for text in [
            "/upload",
            "/upload/files",
            "/resumable/upload",
            "/download/x",
            "/batch",
            "/discovery/v1",
            "/healthz",
            "/readyz/x",
            "/metrics",
            "/token",
            "/.well-known/x",
            "/-tus/x",
        ] {
            let refused = text.parse::<FilesPath>();
            assert!(
                matches!(refused, Err(NotAFilesPath::OfServer { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn every_path_of_the_api_is_moved() {
        let options = Options {
            files_path: "/media/uploads".parse().unwrap(),
            ..Options::default()
        };
        let served = by_name("files", &options).unwrap();
        let document = serde_json::to_string(served[0].api.document()).unwrap();
        for path in [
            r#""path":"media/uploads""#,
            r#""path":"media/uploads/{fileId}""#,
            r#""path":"/upload/media/uploads""#,
            r#""path":"/resumable/upload/media/uploads""#,
        ] {
            assert!(document.contains(path), "{path}: {document}");
        }
        assert!(!document.contains("files/{fileId}") && !document.contains("upload/files"));
    }
}
