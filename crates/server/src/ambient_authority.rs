//! The rights that a request has without credentials from its sender.

/// The rights that a request has without credentials from its sender, such as a token. A browser
/// adds some credentials by itself, whichever page makes it send the request: a client certificate,
/// cookies that a proxy in front turns into a name, and the browser's place in a network that needs
/// no credentials. [`CorsPolicy`](crate::CorsPolicy) says which pages may use them for a request
/// that may change something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AmbientAuthority {
    /// No rights: a page of another origin that is not allowed made a browser send the request. A
    /// call is refused by [`AccessError::ForeignPage`](crate::AccessError::ForeignPage).
    None,
    /// The rights of everybody: the page's origin is allowed, but may not send credentials.
    Anonymous,
    /// All rights: the request may change nothing, or no page of another origin made a browser send
    /// it, or that origin may send credentials.
    #[default]
    Full,
}
