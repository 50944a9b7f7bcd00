//! A look into an asset.

use std::io::Read;

use windlass_server::handler::{BlockingMedia, MediaSource, Rejection};

use super::super::archive::{Archive, ArchiveError};
use super::super::content::{Content, HEAD};
use super::super::html5::{Findings, MOST_TEXT};
use super::super::identifier::AssetIdentifier;
use crate::image_header::{ImageHeader, ImageHeaderError};
use crate::inspect::{self, invalid, refusal};

/// What an asset turned out to be.
#[derive(Debug)]
pub(super) struct Inspected {
    pub(super) content: Content,
    /// Width and height in pixels, where it has a size.
    pub(super) size: Option<(u32, u32)>,
    /// What is in HTML.
    pub(super) html5: Option<Findings>,
}

impl Inspected {
    /// Whether it is a page with its files.
    pub(super) fn is_bundle(&self) -> bool {
        self.content == Content::Zip
    }
}

/// Looks into the media and holds it against what the client says of it.
pub(super) async fn inspect(
    given: &AssetIdentifier,
    source: &MediaSource,
) -> Result<Inspected, Rejection> {
    let given = given.clone();
    let looked = inspect::inspect(source, move |mut media| {
        let content = Content::of(&beginning(&mut media, HEAD)?);
        given.check(content)?;
        look_into(media, content)
    });
    looked.await
}

/// What the media is, by its beginning.
pub(in super::super) async fn inspect_head(source: &MediaSource) -> Result<Content, Rejection> {
    Ok(Content::of(&source.read(0..HEAD).await?))
}

fn look_into(mut media: BlockingMedia, content: Content) -> Result<Inspected, Rejection> {
    let (size, html5) = match content {
        Content::Image(_) => {
            let image_header = ImageHeader::read(&mut media).map_err(unreadable)?;
            (Some((image_header.width, image_header.height)), None)
        }
        Content::Html => {
            let findings = Findings::of_page(&beginning(&mut media, MOST_TEXT)?);
            (findings.size, Some(findings))
        }
        Content::Zip => {
            let mut archive = Archive::open(media).map_err(refused)?;
            let findings = Findings::of_bundle(&mut archive).map_err(refused)?;
            (findings.size, Some(findings))
        }
        _ => (None, None),
    };
    Ok(Inspected {
        content,
        size,
        html5,
    })
}

fn beginning(media: &mut BlockingMedia, length: u64) -> Result<Vec<u8>, Rejection> {
    use std::io::Seek as _;
    let mut bytes = Vec::new();
    media.rewind().map_err(refusal)?;
    let read = media.take(length).read_to_end(&mut bytes);
    read.map_err(refusal)?;
    Ok(bytes)
}

fn unreadable(error: ImageHeaderError) -> Rejection {
    match error {
        ImageHeaderError::Io(error) => refusal(error),
        other => invalid(other.to_string()),
    }
}

fn refused(error: ArchiveError) -> Rejection {
    match error {
        ArchiveError::Io(error) => refusal(error),
        other => invalid(other.to_string()),
    }
}
