//! Refusals with a service's own reason, domain and location, which its clients know.

use std::borrow::Cow;

use thiserror::Error;
use windlass_proto::reply::Location;

/// A refusal with a reason that is specific to the service, such as `invalidTitle`.
///
/// ```
/// use windlass_rest::handler::{Refusal, RefusalKind, Rejection};
///
/// let message = "a title has 1 to 100 characters";
/// let refusal = Refusal::new(RefusalKind::Invalid, "invalidTitle", message);
/// let refusal = refusal.in_domain("youtube.video").at_field("body.snippet.title");
/// assert_eq!(Rejection::from(refusal).to_string(), message);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Refusal {
    /// The kind, which decides the status.
    pub kind: RefusalKind,
    /// The domain of the reason.
    pub domain: &'static str,
    /// The reason that clients of the service know.
    pub reason: &'static str,
    /// The part of the request that is wrong, if the refusal names one.
    pub location: Option<Location>,
    message: String,
}

/// The kind of a refusal. The table of errors chooses the status by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The call is invalid: 400.
    Invalid,
    /// The service does not allow the call: 403.
    Forbidden,
    /// An object that the call names does not exist: 404.
    NotFound,
    /// The object that the call would create exists already: 409.
    Exists,
    /// The original service implements the request, but this server does not: 501.
    NotImplemented,
}

impl Refusal {
    /// Returns a refusal without a location, in the domain `global`.
    pub fn new(kind: RefusalKind, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            domain: "global",
            reason,
            location: None,
            message: message.into(),
        }
    }

    /// Sets the domain of the reason.
    #[must_use]
    pub fn in_domain(self, domain: &'static str) -> Self {
        Self { domain, ..self }
    }

    /// Names the parameter that is wrong.
    #[must_use]
    pub fn at_parameter(self, name: impl Into<Cow<'static, str>>) -> Self {
        let location = Some(Location::Parameter(name.into()));
        Self { location, ..self }
    }

    /// Names the field of the metadata that is wrong, as the service writes its path.
    #[must_use]
    pub fn at_field(self, path: impl Into<Cow<'static, str>>) -> Self {
        let location = Some(Location::Field(path.into()));
        Self { location, ..self }
    }
}
