//! The load: which media the clients send, and how.

use crate::media::Media;
use crate::rng::Rng;
use crate::session::CHUNK_GRANULARITY;

/// By default, media up to this length is kept in the ledger. The checker uploads smaller and
/// larger media.
const SMALL: u64 = 64 * 1024;

/// How a client sends its media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadStyle {
    /// A session, in chunks of this number of bytes.
    Chunks(u64),
    /// A session, and all that is missing in one request.
    Rest,
    /// A session, chunk after chunk, each of which begins with bytes that were acknowledged before.
    Overlap(u64),
    /// A session; the client hangs up in the middle of every other request.
    Vanish,
    /// A session that is cancelled before its last byte.
    Cancel,
    /// One request, the media alone.
    Simple,
    /// One request, metadata and media.
    Multipart,
}

/// How much the clients send, and in which manners.
#[derive(Debug, Clone)]
pub struct Load {
    /// How many clients upload at the same time, each one upload after another.
    pub clients: usize,
    /// The longest media in bytes.
    pub largest: u64,
    /// The styles, all equally likely. A dialect without one-shot uploads leaves these out.
    pub styles: Vec<UploadStyle>,
    /// The number of uploads of a client, or `None` for no limit.
    pub uploads: Option<u64>,
}

impl Default for Load {
    /// Eight clients, media up to 4 MiB, every style.
    fn default() -> Self {
        Self {
            clients: 8,
            largest: 4 << 20,
            styles: vec![
                UploadStyle::Chunks(CHUNK_GRANULARITY),
                UploadStyle::Chunks(4 * CHUNK_GRANULARITY),
                UploadStyle::Rest,
                UploadStyle::Rest,
                UploadStyle::Overlap(CHUNK_GRANULARITY),
                UploadStyle::Vanish,
                UploadStyle::Cancel,
                UploadStyle::Simple,
                UploadStyle::Multipart,
            ],
            uploads: None,
        }
    }
}

impl Load {
    /// The `number`th upload of a client: its media and style follow from the seed.
    pub(super) fn upload(&self, seed: u64, client: usize, number: u64) -> (Media, UploadStyle) {
        let mut rng = Rng::new(seed).fork(client as u64).fork(number);
        let largest = self.largest.max(2);
        let length = match rng.within(0..4) {
            0 => rng.within(1..SMALL.min(largest)),
            1 => rng.within(1..(8 * SMALL).min(largest)),
            _ => rng.within(1..largest),
        };
        let style = rng.pick(&self.styles);
        (Media::new(rng.next_u64(), length), style)
    }
}
