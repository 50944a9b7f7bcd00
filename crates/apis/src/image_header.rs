//! What the header of an image says: its format and its size.
//!
//! Nothing is decoded. A reader that seeks is walked through in small steps, so the cost is bounded
//! whatever the image claims to be, and an image that would unpack to more than [`MOST_PIXELS`] is
//! refused by its own words.

use std::io::{self, Read, Seek};

use thiserror::Error;

mod gif;
mod jpeg;
mod png;

/// The most pixels that an image may have.
pub(crate) const MOST_PIXELS: u64 = 100_000_000;

/// An image, by its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageHeader {
    /// Its format.
    pub(crate) format: Format,
    /// Its width in pixels.
    pub(crate) width: u32,
    /// Its height in pixels.
    pub(crate) height: u32,
}

/// A format of images that can be read here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Png,
    Jpeg,
    Gif,
}

/// Why an image cannot be read.
#[derive(Debug, Error)]
pub(crate) enum ImageHeaderError {
    /// None of the formats that can be read.
    #[error("it is not a PNG, JPEG or GIF image")]
    Unknown,
    /// The bytes end before what the header promises.
    #[error("the {0} image is cut off")]
    Truncated(Format),
    /// A rule of the format is broken.
    #[error("the {format} image is damaged: {problem}")]
    Damaged {
        /// The format.
        format: Format,
        /// The rule.
        problem: &'static str,
    },
    /// More pixels than anybody needs.
    #[error("the image has {width} x {height} pixels; at most {MOST_PIXELS} are taken")]
    TooManyPixels {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
    /// The bytes could not be read.
    #[error(transparent)]
    Io(io::Error),
}

impl ImageHeader {
    /// Reads the header of the image that begins where the reader stands at 0.
    pub(crate) fn read(media: &mut (impl Read + Seek)) -> Result<Self, ImageHeaderError> {
        media.rewind().map_err(ImageHeaderError::Io)?;
        let mut head = Vec::new();
        let read = media.by_ref().take(8).read_to_end(&mut head);
        read.map_err(ImageHeaderError::Io)?;
        let format = Format::of(&head).ok_or(ImageHeaderError::Unknown)?;
        media.rewind().map_err(ImageHeaderError::Io)?;
        let (width, height) = match format {
            Format::Png => png::size(media),
            Format::Jpeg => jpeg::size(media),
            Format::Gif => gif::size(media),
        }?;
        let image_header = Self {
            format,
            width,
            height,
        };
        image_header.check_pixels()
    }

    fn check_pixels(self) -> Result<Self, ImageHeaderError> {
        let Self {
            format,
            width,
            height,
        } = self;
        if width == 0 || height == 0 {
            return Err(format.damaged("it has no pixels"));
        }
        if u64::from(width) * u64::from(height) > MOST_PIXELS {
            return Err(ImageHeaderError::TooManyPixels { width, height });
        }
        Ok(self)
    }
}

impl Format {
    /// The format that these first bytes (8 or more) belong to.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        if head.starts_with(&png::SIGNATURE) {
            Some(Self::Png)
        } else if head.starts_with(&[0xff, 0xd8, 0xff]) {
            Some(Self::Jpeg)
        } else if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") {
            Some(Self::Gif)
        } else {
            None
        }
    }

    /// Its media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
        }
    }

    fn damaged(self, problem: &'static str) -> ImageHeaderError {
        ImageHeaderError::Damaged {
            format: self,
            problem,
        }
    }

    /// Fills `buf`; that there is no more means that the image is cut off.
    fn read(self, media: &mut impl Read, buf: &mut [u8]) -> Result<(), ImageHeaderError> {
        media.read_exact(buf).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ImageHeaderError::Truncated(self),
            _ => ImageHeaderError::Io(error),
        })
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::Gif => "GIF",
        })
    }
}

#[cfg(test)]
mod tests;
