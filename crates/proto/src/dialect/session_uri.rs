//! Session URIs that name their session in the path (docs/adr/0014-session-uris-in-the-path.md).

use std::fmt;

use crate::parameters::UploadId;

/// The prefix of the paths.
const PREFIX: &str = "/upload/";

/// A path that names a session: `/upload/SEGMENT/UPLOAD_ID/PATH`, where `/PATH` is the path of the
/// resource, as it was sent.
///
/// ```
/// use windlass_proto::dialect::SessionPath;
///
/// let path = SessionPath::parse("/upload/-tus/AZ-_09/files/7", "-tus").unwrap();
/// assert_eq!((path.upload_id, path.plain), ("AZ-_09", "/files/7"));
/// assert_eq!(SessionPath::parse("/upload/files/7", "-tus"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SessionPath<'a> {
    /// The segment by which the dialect is known.
    pub segment: &'a str,
    /// The `upload_id`.
    pub upload_id: &'a str,
    /// The path of the resource. It begins with a slash.
    pub plain: &'a str,
}

impl<'a> SessionPath<'a> {
    /// Reads a path. `None` if it does not name a session after this segment.
    pub fn parse(path: &'a str, segment: &'a str) -> Option<Self> {
        let rest = path.strip_prefix(PREFIX)?.strip_prefix(segment)?;
        let rest = rest.strip_prefix('/')?;
        let (upload_id, plain) = rest.split_at(rest.find('/')?);
        let is_id = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        // An identifier of this alphabet needs no escaping, neither here nor in a query.
        let is_ours = !upload_id.is_empty() && upload_id.bytes().all(is_id);
        is_ours.then_some(Self {
            segment,
            upload_id,
            plain,
        })
    }

    /// Returns the session.
    pub fn upload_id(&self) -> UploadId {
        UploadId::from(self.upload_id)
    }
}

impl fmt::Display for SessionPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            segment,
            upload_id,
            plain,
        } = self;
        write!(f, "{PREFIX}{segment}/{upload_id}{plain}")
    }
}

/// Hides the `upload_id`, which is a credential.
impl fmt::Debug for SessionPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionPath")
            .field("segment", &self.segment)
            .field("plain", &self.plain)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_read_as_it_was_written() {
        for plain in ["/", "/files", "/b/x%2Fy/o", "/a//b/"] {
            let path = SessionPath {
                segment: "-tus",
                upload_id: "AZaz09-_",
                plain,
            };
            assert_eq!(SessionPath::parse(&path.to_string(), "-tus"), Some(path));
            assert!(!format!("{path:?}").contains("AZaz09"));
        }
    }

    #[test]
    fn other_paths_name_no_session() {
        for path in [
            "/upload/-tus",
            "/upload/-tus/",
            "/upload/-tus/id",
            "/upload/-tus//files",
            "/upload/-tus/i.d/files",
            "/upload/-tus/i%2Dd/files",
            "/upload/-tusk/id/files",
            "/upload/-other/id/files",
            "/upload/files/-tus/id/files",
            "/-tus/id/files",
            "/resumable/upload/-tus/id/files",
            "",
        ] {
            assert_eq!(SessionPath::parse(path, "-tus"), None, "{path}");
        }
    }
}
