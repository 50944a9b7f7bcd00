//! A reply as it came.

use std::io::{self, ErrorKind};

use serde_json::Value;

/// A reply: every part of it as it was on the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// The protocol's version, e.g. `HTTP/1.1`.
    pub version: String,
    /// The status.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// The headers in their order.
    pub headers: Vec<(String, String)>,
    /// The body, without its transfer coding.
    pub body: Vec<u8>,
}

impl Reply {
    pub(super) fn from_status_line(line: &str) -> io::Result<Self> {
        let mut words = line.splitn(3, ' ');
        let (version, status, reason) = (words.next(), words.next(), words.next());
        let status = status
            .and_then(|status| status.parse().ok())
            .ok_or(ErrorKind::InvalidData)?;
        Ok(Self {
            version: version.unwrap_or_default().to_owned(),
            status,
            reason: reason.unwrap_or_default().to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        })
    }

    pub(super) fn push_header(&mut self, line: &str) -> io::Result<()> {
        let (name, value) = line.split_once(':').ok_or(ErrorKind::InvalidData)?;
        self.headers
            .push((name.to_owned(), value.trim().to_owned()));
        Ok(())
    }

    /// The value of a header that is there at most once, whatever the case of its name.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self
            .headers
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(
            values.next().is_none(),
            "{name} is there more than once: {self:?}"
        );
        value
    }

    /// The body as text.
    #[track_caller]
    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap_or_else(|_| panic!("the body is no text: {self:?}"))
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("the body is no JSON: {error}: {self:?}"))
    }

    /// A field of the body, which is JSON; `Null` when it is not there.
    #[track_caller]
    pub fn field(&self, name: &str) -> Value {
        self.json().get(name).cloned().unwrap_or_default()
    }

    /// The same reply, if it has this status.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "the check is the point")]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(
            self.status,
            status,
            "{} {}\n{:?}\n{}",
            self.status,
            self.reason,
            self.headers,
            String::from_utf8_lossy(&self.body)
        );
        self
    }

    /// Of a `308`, how many bytes it says are committed.
    #[track_caller]
    pub fn committed(&self) -> u64 {
        assert_eq!(self.status, 308, "{self:?}");
        self.range()
    }

    /// How many bytes the `Range` header says are committed, in the one form that every client
    /// reads: `bytes=0-N`, and none for nothing.
    #[track_caller]
    pub fn range(&self) -> u64 {
        let Some(range) = self.header("range") else {
            return 0;
        };
        match range.strip_prefix("bytes=0-").map(str::parse::<u64>) {
            Some(Ok(last)) => last + 1,
            _ => panic!("a Range of another form: {range}"),
        }
    }
}
