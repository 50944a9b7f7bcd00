//! The dialects that a server speaks.

use std::sync::Arc;

use windlass_proto::dialect::{Dialect, Google, RequestHead};

/// The dialects of a server, in the order in which they are asked whether a request is theirs.
#[derive(Debug)]
pub(crate) struct Dialects {
    /// Dialects that claim some of the requests.
    others: Vec<Arc<dyn Dialect>>,
    /// Google's, which takes the rest.
    google: Arc<dyn Dialect>,
}

impl Dialects {
    pub(crate) fn new(others: Vec<Arc<dyn Dialect>>) -> Self {
        Self {
            others,
            google: Arc::new(Google),
        }
    }

    /// The dialect of requests that are not on an upload URI.
    pub(crate) fn default(&self) -> Arc<dyn Dialect> {
        Arc::clone(&self.google)
    }

    /// The dialect with this name, if the server speaks it.
    pub(crate) fn named(&self, name: &str) -> Option<&dyn Dialect> {
        let mut all = self.others.iter().chain([&self.google]);
        let named = all.find(|dialect| dialect.name() == name);
        named.map(|dialect| &**dialect)
    }

    /// The dialect of a request on an upload URI.
    pub(crate) fn of(&self, request: &RequestHead<'_>) -> Arc<dyn Dialect> {
        let mut others = self.others.iter();
        let claiming = others.find(|dialect| dialect.claims(request));
        Arc::clone(claiming.unwrap_or(&self.google))
    }
}
