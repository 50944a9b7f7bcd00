//! GIF, as of the 89a specification, sections 17 and 18.

use std::io::Read;

use super::{Format, ImageHeaderError};

/// The size of the screen that all images of the animation are drawn on.
pub(super) fn size(media: &mut impl Read) -> Result<(u32, u32), ImageHeaderError> {
    // Signature, width, height, flags, background, aspect, and the first byte of what follows.
    let mut head = [0; 14];
    Format::Gif.read(media, &mut head)?;
    let number = |at: usize| u32::from(u16::from_le_bytes([head[at], head[at + 1]]));
    Ok((number(6), number(8)))
}
