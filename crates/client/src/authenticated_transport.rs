//! The line to a server: the transport, and the token that goes with requests.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use url::Url;

use crate::error::Error;
use crate::token::TokenSource;
use crate::transport::Transport;

/// What uploads need to reach a server.
pub(crate) struct AuthenticatedTransport {
    transport: Arc<dyn Transport>,
    token: Option<TokenSource>,
}

impl AuthenticatedTransport {
    pub(crate) fn new(transport: Arc<dyn Transport>, token: Option<TokenSource>) -> Self {
        Self { transport, token }
    }

    pub(crate) fn inner(&self) -> &dyn Transport {
        &*self.transport
    }

    pub(crate) fn token(&self) -> Option<&TokenSource> {
        self.token.as_ref()
    }

    /// Whether there may be another token when one is refused.
    pub(crate) fn can_refresh(&self) -> bool {
        self.token.as_ref().is_some_and(TokenSource::can_refresh)
    }

    /// The token for a request to `to`, if it is of the origin that was `asked` for.
    pub(crate) async fn token_for(
        &self,
        asked: &Url,
        to: &Url,
    ) -> Result<Option<HeaderValue>, Error> {
        match &self.token {
            Some(token) if asked.origin() == to.origin() => Ok(Some(token.token().await?)),
            _ => Ok(None),
        }
    }

    /// Gets another token.
    pub(crate) async fn refresh(&self) -> Result<(), Error> {
        if let Some(token) = &self.token {
            token.refresh().await?;
        }
        Ok(())
    }
}

impl fmt::Debug for AuthenticatedTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("transport", &self.transport)
            .field("token", &self.token)
            .finish()
    }
}
