//! Uploads that are left in the middle, and go on slowly.

use std::iter;
use std::ops::Range;

use super::super::Failure;
use super::super::ask::Ask;
use super::super::dialect::Shape;
use super::{OCTETS, TUS, TUS_MEDIA, Uploader};

impl Uploader<'_> {
    /// Begins the upload with this number, and its one request with media, of which `first` bytes are sent.
    pub(in crate::load) fn leave_off(&mut self, number: u64, first: u64) -> Result<(), Failure> {
        let size = self.load.size;
        let content_range = format!("bytes 0-{}/{size}", size.saturating_sub(1));
        let google = [("Content-Type", OCTETS), ("Content-Range", &content_range)];
        let tus = [TUS, TUS_MEDIA, ("Upload-Offset", "0")];
        let (method, headers, target): (_, &[_], _) = match self.load_target.shape {
            Shape::Session => ("PUT", &google, self.begin(number)?),
            Shape::Tus => ("PATCH", &tus, self.begin(number)?),
            _ => ("PUT", &[], self.load_target.targets.of(Shape::Put, number)?),
        };
        let ask = Ask {
            headers,
            media: (number, 0..size),
            ..Ask::new(method, &target)
        };
        ask.write_head(&mut self.head, self.wire.host());
        let media = self.load_target.block.pieces(number, 0..first);
        let sent = self.wire.send(iter::once(&self.head[..]).chain(media));
        sent.map_err(|source| ask.broken(source))
    }

    /// Sends more of its media. The server must not have said anything yet.
    pub(in crate::load) fn go_on(&mut self, number: u64, range: Range<u64>) -> Result<(), Failure> {
        let name = || format!("upload {number}, bytes {range:?}");
        let broken = |source| Failure::Connection {
            request: name(),
            source,
        };
        if !self.wire.is_silent().map_err(broken)? {
            return Err(Failure::Hasty(name()));
        }
        let media = self.load_target.block.pieces(number, range.clone());
        self.wire.send(media).map_err(broken)
    }
}
