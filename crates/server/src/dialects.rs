//! The dialects that a server speaks.

use std::sync::Arc;

use http::HeaderMap;
use windlass_proto::dialect::{Dialect, Google, XGoogUpload};

/// The dialects of a server, in the order in which they may claim a request.
#[derive(Debug)]
pub(crate) struct Dialects {
    /// Dialects that claim some of the requests.
    others: Vec<Arc<dyn Dialect>>,
    /// Google's dialect, which handles all other requests.
    google: Arc<dyn Dialect>,
}

impl Dialects {
    /// The server's own dialects, and `added` dialects, which are asked first.
    pub(crate) fn new(added: Vec<Arc<dyn Dialect>>) -> Self {
        let mut others = added;
        others.push(Arc::new(XGoogUpload));
        Self {
            others,
            google: Arc::new(Google),
        }
    }

    /// A name that several dialects have.
    pub(crate) fn ambiguous_name(&self) -> Option<&'static str> {
        let mut names: Vec<_> = self.all().map(Dialect::name).collect();
        names.sort_unstable();
        names
            .windows(2)
            .find(|pair| pair[0] == pair[1])
            .map(|pair| pair[0])
    }

    fn all(&self) -> impl Iterator<Item = &dyn Dialect> {
        self.others
            .iter()
            .chain([&self.google])
            .map(|dialect| &**dialect)
    }

    /// The dialect of requests that no other dialect claims, and of requests that are not uploads.
    pub(crate) fn default(&self) -> Arc<dyn Dialect> {
        Arc::clone(&self.google)
    }

    /// The dialect with this name, if the server speaks it.
    pub(crate) fn named(&self, name: &str) -> Option<&dyn Dialect> {
        self.all().find(|dialect| dialect.name() == name)
    }

    /// The dialect that claims a request with these headers. `None` means Google's dialect.
    pub(crate) fn claiming(&self, headers: &HeaderMap) -> Option<Arc<dyn Dialect>> {
        let mut others = self.others.iter();
        others.find(|dialect| dialect.claims(headers)).cloned()
    }
}
