//! What was stored, compared with what was sent.

use std::iter;

use super::super::Failure;
use super::super::ask::Ask;
use super::{Receipt, Uploader};

impl Uploader<'_> {
    /// Reads an upload back and compares it with what was sent. False when there is no way to read it.
    pub(in crate::load) fn compare(&mut self, receipt: &Receipt) -> Result<bool, Failure> {
        let Receipt {
            number,
            location,
            reply,
        } = receipt;
        let target = self.load_target.targets.download(*number, location, reply);
        let Some(target) = target else {
            return Ok(false);
        };
        let ask = Ask::new("GET", &target);
        ask.write_head(&mut self.head, self.wire.host());
        let (mut end, mut is_same) = (0, true);
        let block = self.load_target.block;
        let sent = self.wire.send(iter::once(&self.head[..]));
        let reply = sent.and_then(|()| {
            self.wire.receive(&mut |piece| {
                let range = end..end + piece.len() as u64;
                let mut rest = piece;
                for part in block.pieces(*number, range.clone()) {
                    let (now, later) = rest.split_at(part.len());
                    is_same &= now == part;
                    rest = later;
                }
                if is_same {
                    end = range.end;
                }
            })
        });
        let reply = reply.map_err(|source| ask.broken(source))?;
        ask.expect(&reply)?;
        if is_same && end == self.load.size {
            return Ok(true);
        }
        Err(Failure::Differs { target, end })
    }
}
