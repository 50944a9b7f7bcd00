//! How a collection or a method takes media.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::byte_size::ByteSize;
use crate::document::{MediaUploadDescription, UploadProtocol, UploadProtocols};
use crate::media_range::MediaRange;
use crate::settings::Digest;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MediaForm {
    #[serde(default)]
    accept: Vec<MediaRange>,
    max_size: Option<ByteSize>,
    #[serde(default)]
    pub(super) digests: Vec<Digest>,
    #[serde(default = "yes")]
    multipart: bool,
    #[serde(default = "yes")]
    resumable: bool,
}

impl MediaForm {
    /// The description for a method with this path, below this service path.
    pub(super) fn description(&self, service_path: &str, path: &str) -> MediaUploadDescription {
        let protocol = |prefix: &str| UploadProtocol {
            multipart: self.multipart,
            path: format!("{prefix}/{service_path}{path}"),
            extra: Map::new(),
        };
        MediaUploadDescription {
            accept: self.accept.iter().map(ToString::to_string).collect(),
            // Plain digits, which every client reads.
            max_size: self
                .max_size
                .map(|size| Value::String(size.bytes().to_string())),
            protocols: UploadProtocols {
                simple: Some(protocol("/upload")),
                resumable: self.resumable.then(|| protocol("/resumable/upload")),
                extra: Map::new(),
            },
            extra: Map::new(),
        }
    }
}

fn yes() -> bool {
    true
}
