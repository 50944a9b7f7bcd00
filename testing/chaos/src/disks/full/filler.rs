//! Ways to fill a disk.

use std::thread::sleep;
use std::time::Duration;

use super::client::{Acknowledged, Client};

/// The media of an upload that fills: half of it is sent at once, then a piece at a time.
const MEDIA: u64 = 2 << 20;

/// A little less than the metadata that `limits.metadata` admits.
pub(super) const LARGE_METADATA: u64 = 900_000;

/// The lengths of metadata: when there is no room for the large, there may be for smaller ones.
const METADATA: [u64; 3] = [LARGE_METADATA, 64_000, 4_000];

/// The server looks at its disks once a second.
const LOOK: Duration = Duration::from_millis(1200);

/// Media that the ledger holds itself, by `limits.small_media`.
const SMALL_MEDIA: u64 = 60_000;

/// Who takes the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filler {
    /// Resumable uploads.
    Media,
    /// Simple uploads that go into the ledger.
    SmallMedia,
    /// Resources without media.
    Json,
    /// Resumable uploads of which nothing but their metadata was sent.
    Sessions,
    /// Another process.
    Others,
}

impl Filler {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Media => "media",
            Self::SmallMedia => "small media",
            Self::Json => "json",
            Self::Sessions => "sessions",
            Self::Others => "others",
        }
    }

    /// Whether it fills down to the hard limit, at which no media is taken. JSON stops a little
    /// above it, sessions at the soft limit.
    pub(super) fn leaves_no_room_for_media(self) -> bool {
        matches!(self, Self::Media | Self::Others)
    }

    /// Sends until a request is refused, large items first. Other processes are no clients, so
    /// nothing is sent for them.
    pub(super) fn fill(self, client: &mut Client<'_>) -> anyhow::Result<Acknowledged> {
        let mut all = Acknowledged::default();
        match self {
            Self::Media => fill_with_media(client, &mut all)?,
            Self::SmallMedia => fill_with(&mut all.made, [SMALL_MEDIA], |len| client.upload(len))?,
            Self::Json => fill_with(&mut all.made, METADATA, |len| client.insert(len))?,
            Self::Sessions => fill_with(&mut all.begun, METADATA, |len| client.begin(len, MEDIA))?,
            Self::Others => {}
        }
        Ok(all)
    }
}

/// Makes items of each length until one is refused. Until the server looks at the disk again, an
/// accepted item counts with the most that it may need. The first length is therefore tried again
/// after that.
fn fill_with<T>(
    all: &mut Vec<T>,
    lens: impl IntoIterator<Item = u64>,
    mut make: impl FnMut(u64) -> anyhow::Result<Option<T>>,
) -> anyhow::Result<()> {
    for (index, len) in lens.into_iter().enumerate() {
        loop {
            let before = all.len();
            while let Some(made) = make(len)? {
                all.push(made);
            }
            if index > 0 || all.len() <= before + 1 {
                break;
            }
            sleep(LOOK);
        }
    }
    Ok(())
}

/// Begins uploads until one is refused, and continues them until all are refused.
fn fill_with_media(client: &mut Client<'_>, all: &mut Acknowledged) -> anyhow::Result<()> {
    while let Some(mut begun) = client.begin(0, MEDIA)? {
        let is_taken = client.append(&mut begun, MEDIA / 2)?;
        all.begun.push(begun);
        if !is_taken {
            break;
        }
    }
    for begun in &mut all.begun {
        while client.append_piece(begun)? {}
    }
    Ok(())
}
