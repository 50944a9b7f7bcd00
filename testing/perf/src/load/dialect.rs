//! How uploads are spelled: their shapes, and the URLs of a server.

use serde::Deserialize;

use super::Failure;

/// The form of an upload on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shape {
    /// Eight bytes with the length, the media, one byte as the answer.
    Tcp,
    /// One PUT.
    Put,
    /// A PUT with a Content-Range for each chunk, to one URL.
    PutChunks,
    /// Google's simple upload: one POST.
    Simple,
    /// Google's multipart upload: one POST with metadata and media.
    Multipart,
    /// Google's resumable upload with all of the media in one PUT.
    Session,
    /// Google's resumable upload with a PUT for each chunk.
    SessionChunks,
    /// The tus protocol with all of the media in one PATCH.
    Tus,
    /// The tus protocol with a PATCH for each chunk.
    TusChunks,
}

/// The paths of a server. `{name}` stands for the name of an upload, `{shard}` for one of 256
/// directories, `{id}` for the field `id` of the last reply, `{location}` for the path where it was
/// put or of its session.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Targets {
    put: Option<String>,
    simple: Option<String>,
    multipart: Option<String>,
    session: Option<String>,
    tus: Option<String>,
    /// Where a hundred uploads are listed.
    list: Option<String>,
    /// Where an upload is read back.
    download: Option<String>,
}

impl Targets {
    /// Where an upload of this shape begins.
    pub(super) fn of(&self, shape: Shape, number: u64) -> Result<String, Failure> {
        let target = match shape {
            Shape::Tcp => None,
            Shape::Put | Shape::PutChunks => self.put.as_ref(),
            Shape::Simple => self.simple.as_ref(),
            Shape::Multipart => self.multipart.as_ref(),
            Shape::Session | Shape::SessionChunks => self.session.as_ref(),
            Shape::Tus | Shape::TusChunks => self.tus.as_ref(),
        };
        let target = target.ok_or(Failure::NoTarget)?;
        Ok(filled(target, number))
    }

    /// Where a hundred uploads are listed.
    pub(super) fn list(&self) -> Result<&str, Failure> {
        self.list.as_deref().ok_or(Failure::NoTarget)
    }

    /// Where an upload is read back, if it can be.
    pub(super) fn download(&self, number: u64, location: &str, reply: &[u8]) -> Option<String> {
        let target = self.download.as_ref()?;
        let target = filled(target, number).replace("{location}", location);
        if !target.contains("{id}") {
            return Some(target);
        }
        let reply: serde_json::Value = serde_json::from_slice(reply).ok()?;
        Some(target.replace("{id}", reply["id"].as_str()?))
    }
}

/// The name of an upload.
pub(super) fn name(number: u64) -> String {
    format!("bench-{number}")
}

fn filled(target: &str, number: u64) -> String {
    let target = target.replace("{name}", &name(number));
    target.replace("{shard}", &format!("{:02x}", number % 256))
}

/// The path and query of a URL.
pub(super) fn path(url: &str) -> &str {
    match url.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => url,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_may_be_a_url_or_a_path() {
        assert_eq!(path("http://127.0.0.1:80/files/a?b=c"), "/files/a?b=c");
        assert_eq!(path("/files/a"), "/files/a");
        assert_eq!(path("http://localhost"), "/");
    }
}
