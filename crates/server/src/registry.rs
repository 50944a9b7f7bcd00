//! The APIs that a server serves, with the kinds that give them meaning.

use std::collections::HashMap;
use std::sync::Arc;

use windlass_discovery::{Api, Digest, Method, MethodTable};
use windlass_proto::digest::Wanted;

use crate::generic::GenericKind;
use crate::kind::{Kind, Worker};

/// An API and what its methods mean.
pub struct ServedApi {
    /// The description.
    pub api: Api,
    /// The behaviour of its resources.
    pub kind: Arc<dyn Kind>,
}

impl ServedApi {
    /// An API served by the generic kind, which works for any description.
    pub fn generic(api: Api) -> Self {
        Self {
            api,
            kind: Arc::new(GenericKind),
        }
    }
}

impl std::fmt::Debug for ServedApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServedApi({}:{})", self.api.name(), self.api.version())
    }
}

/// All APIs of a server.
pub(crate) struct Registry {
    served: Vec<ServedApi>,
    by_name: HashMap<(String, String), usize>,
    pub(crate) table: MethodTable,
}

/// A method together with its API.
#[derive(Clone, Copy)]
pub(crate) struct ServedMethod<'a> {
    pub(crate) served: &'a ServedApi,
    pub(crate) method: &'a Method,
}

impl Registry {
    pub(crate) fn new(served: Vec<ServedApi>) -> Self {
        let key = |served: &ServedApi| key(served.api.name(), served.api.version());
        let by_name = served.iter().map(key).zip(0..).collect();
        let table = MethodTable::new(served.iter().map(|served| &served.api));
        Self {
            served,
            by_name,
            table,
        }
    }

    /// All APIs, in the order they were given.
    pub(crate) fn apis(&self) -> impl Iterator<Item = &Api> {
        self.served.iter().map(|served| &served.api)
    }

    /// One API.
    pub(crate) fn api(&self, name: &str, version: &str) -> Option<&ServedApi> {
        let index = self.by_name.get(&key(name, version))?;
        self.served.get(*index)
    }

    /// What the kinds do beside requests.
    pub(crate) fn workers(&self) -> impl Iterator<Item = Arc<dyn Worker>> {
        self.served.iter().filter_map(|served| served.kind.worker())
    }

    /// The API of a method that the table found.
    pub(crate) fn of<'a>(&'a self, method: &'a Method) -> ServedMethod<'a> {
        let served = self
            .api(&method.api_name, &method.api_version)
            .expect("the table holds only methods of these APIs");
        ServedMethod { served, method }
    }

    /// A method by name, as a session remembers it.
    pub(crate) fn method(&self, name: &str, version: &str, id: &str) -> Option<ServedMethod<'_>> {
        let served = self.api(name, version)?;
        let method = served.api.method(id)?;
        Some(ServedMethod { served, method })
    }
}

impl ServedMethod<'_> {
    /// The digests that the API shows of this method's media, beside CRC32C.
    pub(crate) fn wanted_digests(&self) -> Wanted {
        let digests = self.served.api.settings().digests_of(self.method);
        Wanted {
            md5: digests.contains(&Digest::Md5),
            sha256: digests.contains(&Digest::Sha256),
        }
    }
}

fn key(name: &str, version: &str) -> (String, String) {
    (name.to_owned(), version.to_owned())
}
