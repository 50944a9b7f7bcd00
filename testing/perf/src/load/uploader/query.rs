//! What is asked for without uploading anything.

use std::iter;

use serde_json::Value;

use super::super::Failure;
use super::super::ask::Ask;
use super::super::dialect::Shape;
use super::{TUS, Uploader};

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// How much a session has.
    Status,
    /// A hundred uploads.
    List,
}

/// How long a list is.
const LIST: usize = 100;

impl Uploader<'_> {
    /// Asks for anything that gets an answer.
    pub(in crate::load) fn greet(&mut self) -> Result<(), Failure> {
        if self.load_target.shape == Shape::Tcp {
            return self.upload(0).map(drop);
        }
        let ask = Ask::new("GET", "/");
        ask.write_head(&mut self.head, self.wire.host());
        let reply = self.wire.exchange(iter::once(&self.head[..]), true);
        reply.map(drop).map_err(|source| ask.broken(source))
    }

    /// Asks how much a session has, which is nothing.
    pub(in crate::load) fn status(&mut self, location: &str) -> Result<(), Failure> {
        let content_range = format!("bytes */{}", self.load.size);
        let ask = match self.load_target.shape {
            Shape::Tus | Shape::TusChunks => &Ask {
                headers: &[TUS],
                answers: &[200, 204],
                ..Ask::new("HEAD", location)
            },
            _ => &Ask {
                headers: &[("Content-Range", &content_range)],
                answers: &[308],
                ..Ask::new("PUT", location)
            },
        };
        self.ask(ask).map(drop)
    }

    /// Asks for a list. Returns the reply.
    pub(in crate::load) fn list(&mut self) -> Result<Vec<u8>, Failure> {
        let target = self.load_target.targets.list()?;
        Ok(self.ask(&Ask::new("GET", target))?.body)
    }

    /// Looks into a list, which has to be a whole one.
    pub(in crate::load) fn check_list(&mut self) -> Result<(), Failure> {
        let list: Value = serde_json::from_slice(&self.list()?).unwrap_or_default();
        let count = list["items"].as_array().map_or(0, Vec::len);
        if count == LIST {
            return Ok(());
        }
        let target = self.load_target.targets.list()?.to_owned();
        Err(Failure::Short { target, count })
    }
}
