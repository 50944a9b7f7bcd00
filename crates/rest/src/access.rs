//! Why authorization refuses a call.

use http::HeaderValue;

/// Why a request or a call is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The request needs credentials and has none: 401.
    #[error("the request has no credentials; send them in the header Authorization")]
    CredentialsMissing,
    /// The credentials are wrong: 401.
    #[error("the credentials of the request are not valid")]
    CredentialsInvalid,
    /// The credentials have expired: 401.
    #[error("the credentials of the request have expired; get new ones")]
    CredentialsExpired,
    /// The credentials are in a forbidden place, such as a token in the query: 400.
    #[error("{problem}")]
    CredentialsMisplaced {
        /// Message that names the problem and the place where the credentials belong.
        problem: &'static str,
    },
    /// A page of another origin made a browser send the request, without credentials from the page:
    /// 403.
    #[error(
        "a page of another origin sends this request by the rights of its visitor; its origin must be allowed to send credentials"
    )]
    ForeignPage,
    /// The credentials cannot be checked now, because the service that verifies them does not
    /// answer: 503.
    #[error("the credentials cannot be checked at the moment; try again")]
    Unverifiable,
    /// None of the scopes of the credentials allows the method: 403.
    #[error("the credentials have none of the scopes that this method needs: {}", scopes.join(", "))]
    InsufficientScope {
        /// The scopes. One of them is needed.
        scopes: Vec<String>,
    },
    /// The principal may not do this: 403.
    #[error("{problem}")]
    Forbidden {
        /// Message that names the forbidden action.
        problem: String,
    },
}

impl AccessError {
    /// Returns the challenge of a reply to this error (RFC 6750, section 3).
    pub fn challenge(&self) -> Option<HeaderValue> {
        let challenge = match self {
            Self::CredentialsMissing => "Bearer realm=\"windlass\"",
            Self::CredentialsInvalid => "Bearer realm=\"windlass\", error=\"invalid_token\"",
            Self::CredentialsExpired => {
                "Bearer realm=\"windlass\", error=\"invalid_token\", \
                 error_description=\"the token has expired\""
            }
            Self::InsufficientScope { scopes } => return Some(insufficient_scope(scopes)),
            Self::CredentialsMisplaced { .. }
            | Self::ForeignPage
            | Self::Unverifiable
            | Self::Forbidden { .. } => {
                return None;
            }
        };
        Some(HeaderValue::from_static(challenge))
    }
}

/// The challenge for credentials with insufficient scopes. It names the scopes if a header can.
fn insufficient_scope(scopes: &[String]) -> HeaderValue {
    const CHALLENGE: &str = "Bearer realm=\"windlass\", error=\"insufficient_scope\"";
    // RFC 6749, section 3.3. Descriptions may name scopes with other characters.
    let is_scope = |byte: u8| byte.is_ascii_graphic() && !b"\"\\".contains(&byte);
    let can_be_named = scopes.iter().all(|scope| scope.bytes().all(is_scope));
    let named = can_be_named.then(|| format!("{CHALLENGE}, scope=\"{}\"", scopes.join(" ")));
    named
        .and_then(|text| HeaderValue::try_from(text).ok())
        .unwrap_or(HeaderValue::from_static(CHALLENGE))
}
