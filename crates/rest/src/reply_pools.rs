//! The memory of replies.

use std::time::Duration;

use bytes::Bytes;
use windlass_engine::{Caller, Full, Importance, LimitedResource, Pool, Shares};

// The limit on requests bounds all short replies together. An upload must not fail at its end
// because other clients do not read their replies.
/// Replies up to this length in bytes are not counted.
pub const SHORT_REPLY: usize = 4 * 1024;

/// The pools of the memory of replies. Clones share them.
#[derive(Debug, Clone)]
pub struct ReplyPools {
    /// Memory of replies that are not sent yet, and of their rows.
    pub pool: Pool,
    /// Memory of replies with media inside.
    pub large: Pool,
    /// Limits each caller to half of the bytes of large replies, so that a caller that reads its
    /// replies slowly does not keep all other callers from such replies.
    pub large_shares: Shares<Caller>,
    /// Maximum time for which a call waits for memory of a large reply.
    pub timeout: Duration,
}

impl ReplyPools {
    /// Returns pools of this many bytes for replies, and for replies with media inside.
    pub fn new(bytes: u64, large_bytes: u64, timeout: Duration) -> Self {
        Self {
            pool: Pool::of_bytes(LimitedResource::Replies, bytes),
            large: Pool::for_large(LimitedResource::LargeReplies, large_bytes),
            large_shares: Shares::of_bytes(large_bytes / 2),
            timeout,
        }
    }

    /// Counts the text of a reply until its last reference is dropped. A short text is not counted.
    ///
    /// # Errors
    /// [`Full`] if other replies use up the memory.
    pub fn reply(
        &self,
        text: Bytes,
        importance: impl FnOnce() -> Importance,
    ) -> Result<Bytes, Full> {
        if text.len() <= SHORT_REPLY {
            return Ok(text);
        }
        let mut permit = self.pool.permit_for(importance);
        permit.resize(text.len() as u64)?;
        Ok(permit.with(text))
    }
}

/// Returns an upper bound in bytes of the memory of the values parsed from a JSON text, besides the
/// text itself. Their strings have no more bytes than the text. An array's element of two bytes
/// becomes a value of 32 bytes, in a vector that may be half empty, and an object has a table.
pub fn json_cost(text: &[u8]) -> u64 {
    const STRING: u64 = 32;
    const ELEMENT: u64 = 64;
    const ENTRY: u64 = 112;
    const ARRAY: u64 = 160;
    const OBJECT: u64 = 352;
    let mut cost = text.len() as u64;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        cost += match byte {
            b'"' => {
                skip_string(&mut bytes);
                STRING
            }
            b',' => ELEMENT,
            b':' => ENTRY,
            b'[' => ARRAY,
            b'{' => OBJECT,
            _ => 0,
        };
    }
    cost
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_cost_of_strings_is_low_and_of_structure_high() {
        let text = format!(r#"{{"a": "{}"}}"#, "x, [\\\" {: ".repeat(1000));
        assert!(json_cost(text.as_bytes()) < text.len() as u64 + 1000);
        for dense in [r#"{"":0},"#, "[0],", "0,", "[],"] {
            let text = dense.repeat(1000);
            assert!(
                json_cost(text.as_bytes()) > 30 * text.len() as u64,
                "{dense}"
            );
        }
    }
}
