//! The target of a request: the APIs of its host, and what its path stands for.

use std::sync::Arc;

use http::Method as HttpMethod;
use http::request::Parts;
use windlass_proto::dialect::Dialect;
use windlass_proto::parameters::Parameters;
use windlass_rest::registry::{DiscoveryRequest, VirtualHost, plain_path};

use crate::auth::Access;
use crate::config::SessionAuth;
use crate::context::RequestContext;
use crate::download_host;
use crate::index_page;
use crate::state::ServerState;

/// The APIs that answer a request.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) server: &'a Arc<ServerState>,
    /// The APIs of the requested host.
    pub(super) virtual_host: &'a VirtualHost,
    /// Whether the requested host serves nothing but downloads of media.
    pub(super) media_only: bool,
}

impl<'a> Site<'a> {
    pub(super) fn of(server: &'a Arc<ServerState>, context: &RequestContext) -> Self {
        let host = context.host.as_ref();
        Self {
            server,
            virtual_host: server.registry.on(host),
            media_only: download_host::is_asked(&server.settings, host),
        }
    }

    /// Returns the target of a request. Sets the dialect of an upload.
    pub(super) fn destination<'h>(
        &self,
        head: &'h Parts,
        http_method: &HttpMethod,
        dialect: &mut Arc<dyn Dialect>,
    ) -> Destination<'h> {
        let path = head.uri.path();
        let destination = Destination::of(path);
        if !self.media_only && index_page::is_asked(self.virtual_host, http_method, path) {
            return Destination::Index;
        }
        if !matches!(destination, Destination::Upload { .. } | Destination::Call) {
            return destination;
        }
        let table = &self.virtual_host.table;
        let Some(claiming) = self.server.dialects.claiming(head, http_method, table) else {
            return destination;
        };
        *dialect = claiming;
        match destination {
            // Some clients upload to the path of the method itself.
            Destination::Call => Destination::Upload { plain: path },
            destination => destination,
        }
    }
}

/// The target of a path.
pub(super) enum Destination<'a> {
    /// The discovery service.
    Discovery(DiscoveryRequest<'a>),
    /// The page for people.
    Index,
    /// An upload into the resource at this path.
    Upload { plain: &'a str },
    /// A method of an API, or an unknown path.
    Call,
}

impl<'a> Destination<'a> {
    fn of(path: &'a str) -> Self {
        if let Some(request) = DiscoveryRequest::at(path) {
            return Self::Discovery(request);
        }
        plain_path(path).map_or(Self::Call, |plain| Self::Upload { plain })
    }

    /// Returns the kind of the target, before it is known whether the session exists. A session URI
    /// has an `upload_id` in its query. `query` is `None` if the query cannot be parsed.
    pub(super) fn access(&self, query: Option<&Parameters>, session_auth: SessionAuth) -> Access {
        match self {
            Self::Discovery(_) | Self::Index => Access::Discovery,
            Self::Upload { .. } if query.is_some_and(|query| query.upload_id().is_some()) => {
                match session_auth {
                    SessionAuth::Uri => Access::Session,
                    SessionAuth::Owner => Access::OwnedSession,
                }
            }
            Self::Upload { .. } | Self::Call => Access::Call,
        }
    }
}
