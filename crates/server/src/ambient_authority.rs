//! What a request may do without credentials that its sender itself must have.

/// What a request may do without credentials that its sender itself must have. A browser adds some by itself, whichever
/// page has it send the request: a client's certificate, cookies of which a proxy in front makes a name, and its place
/// in a network where no credentials are needed. [`CorsPolicy`](crate::CorsPolicy) says which pages may use them for a
/// request that may change something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AmbientAuthority {
    /// Nothing: a page of another origin, which is not allowed, had a browser send it. A call is refused by
    /// [`AccessError::ForeignPage`](crate::AccessError::ForeignPage).
    None,
    /// What is open to everybody: the origin of the page is allowed, but may not send credentials.
    Anonymous,
    /// Everything: it may change nothing, no page of another origin had it sent, or that origin may send
    /// credentials.
    #[default]
    Full,
}
