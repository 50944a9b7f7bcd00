//! Signed links: URLs of uploads and downloads that are themselves credentials, for browsers and
//! devices without other credentials. The form of a link is in docs/protocol.md, "Signed links".

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::header::ORIGIN;
use http::{Method as HttpMethod, Uri};
use percent_encoding::percent_decode_str;
use ring::hmac;
use serde::{Deserialize, Serialize};
use windlass_discovery::MediaRange;
use windlass_server::{AccessError, AccessRequest, Host, LinkPurpose, LinkTerms, Principal};
use zeroize::Zeroizing;

use crate::secrets::hexadecimal;

/// The parameter of a URL that makes it a link.
pub const LINK_PARAMETER: &str = "X-Windlass-Link";

/// The first part of a link, which names its form.
const VERSION: &str = "1";

/// Minimum length of a secret in bytes: the length of a SHA-256 (RFC 2104, section 3).
const SECRET_LEN: usize = 32;

/// Random bytes of an id.
const ID_LEN: usize = 12;

/// The signed statements of a link.
///
/// Fields that this version does not know make a link invalid: an older server must not ignore a
/// bound that a newer one has set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Id, by which the link can be revoked.
    pub id: String,
    /// HTTP method. `GET`, which allows `HEAD` as well, is for a download. Other methods are for
    /// uploads.
    pub method: String,
    /// Host, without a port.
    pub host: String,
    /// Path as it is sent.
    pub path: String,
    /// Parameters of the query that each request must have, decoded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<(String, String)>,
    /// Time of the expiry, in seconds since the Unix epoch.
    pub expires: u64,
    /// Maximum size of the media in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u64>,
    /// Types of the media.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<MediaRange>,
    /// Origin of the pages that may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Whether the link can be used only once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub once: bool,
    /// Id of the principal for which the link acts. Without an id, the principal is `link:ID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Link {
    /// Returns a new id: 16 characters of the URL-safe alphabet.
    pub fn new_id() -> String {
        let mut bytes = [0; ID_LEN];
        getrandom::fill(&mut bytes).expect("the system has random numbers");
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn purpose(&self) -> LinkPurpose {
        if self.method == HttpMethod::GET.as_str() {
            LinkPurpose::Download
        } else {
            LinkPurpose::Upload
        }
    }

    fn principal(&self) -> Principal {
        let signed = self.query.iter().map(|(name, _)| name.clone());
        let mut terms = LinkTerms::new(self.purpose()).with_signed_parameters(signed);
        if let Some(max_size) = self.max_size {
            terms = terms.with_max_size(max_size);
        }
        if let Some(media_type) = &self.media_type {
            terms = terms.with_media_type(media_type.clone());
        }
        if self.once {
            terms = terms.once(&self.id, self.expires);
        }
        let id = match &self.principal {
            Some(id) => id.clone(),
            None => format!("link:{}", self.id),
        };
        Principal::new(id).with_link(terms)
    }

    /// Checks that the link is for this request.
    fn check(&self, request: &AccessRequest<'_>, now: u64) -> Result<(), AccessError> {
        if now >= self.expires {
            return refuse("the signed link has expired; get a new one");
        }
        let is_head = *request.http_method == HttpMethod::HEAD;
        let http_method = if is_head {
            "GET"
        } else {
            request.http_method.as_str()
        };
        if http_method != self.method {
            let method = &self.method;
            return refuse(format!(
                "the signed link is for {method}, not for {http_method}"
            ));
        }
        let (host, path) = asked(request);
        if path != self.path {
            return refuse("the signed link is for another path");
        }
        if host.map(|host| host.to_string()).as_deref() != Some(&self.host) {
            return refuse("the signed link is for another host");
        }
        if let Some(origin) = &self.origin {
            let mut stated = request.headers.get_all(ORIGIN).iter();
            let is_right = stated
                .next()
                .is_some_and(|stated| stated == origin.as_str());
            if !is_right || stated.next().is_some() {
                return refuse(format!(
                    "the signed link may be used only by pages of {origin}"
                ));
            }
        }
        for (name, value) in &self.query {
            let sent = parameters(request.uri).filter(|(sent, _)| sent == name);
            let sent: Vec<_> = sent.map(|(_, value)| value).collect();
            let wanted = self
                .query
                .iter()
                .filter(|(wanted, _)| wanted == name)
                .count();
            if sent.len() != wanted || !sent.contains(&Cow::Borrowed(value.as_str())) {
                return refuse(format!(
                    "the signed link sets the parameter {name}; send the value that the link has"
                ));
            }
        }
        Ok(())
    }
}

/// The host and the path of the URL under which the client sent the request.
fn asked(request: &AccessRequest<'_>) -> (Option<Host>, String) {
    let base: Uri = request.base_url.parse().unwrap_or_default();
    let host = base.host().and_then(|host| host.parse().ok());
    // `Uri` has a path of one slash for a URL without a path.
    let mount = base.path().trim_end_matches('/');
    (host, format!("{mount}{}", request.uri.path()))
}

/// The secret of a key of links: 32 bytes or more, as base64 or as hexadecimal digits. It is erased
/// from memory when it is dropped.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct LinkSecret(Zeroizing<Vec<u8>>);

/// A text that is not a secret of a key of links. The message does not contain the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the secret of a link key must have at least 32 bytes, written as base64 or hexadecimal, as `openssl rand -base64 32` prints it"
)]
pub struct InvalidSecret;

impl FromStr for LinkSecret {
    type Err = InvalidSecret;

    fn from_str(text: &str) -> Result<Self, InvalidSecret> {
        let text = text.trim();
        let bytes = hexadecimal(text)
            .or_else(|| STANDARD.decode(text).ok())
            .or_else(|| URL_SAFE_NO_PAD.decode(text).ok());
        match bytes {
            Some(bytes) if bytes.len() >= SECRET_LEN => Ok(Self(Zeroizing::new(bytes))),
            _ => Err(InvalidSecret),
        }
    }
}

impl TryFrom<String> for LinkSecret {
    type Error = InvalidSecret;

    fn try_from(text: String) -> Result<Self, InvalidSecret> {
        Zeroizing::new(text).parse()
    }
}

impl fmt::Debug for LinkSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkSecret")
    }
}

/// A revoked link.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// Id of the link.
    pub id: String,
    /// Time of the link's expiry, in seconds since the Unix epoch. Afterwards the revocation does
    /// nothing any more. Default: it holds for ever.
    pub expires: Option<u64>,
}

/// The keys of links, and the revoked links.
///
/// The first key signs; all keys verify. To rotate a key, put a new key in front of it, and remove
/// the old key when its last link has expired. Sessions need no key, so they continue.
#[derive(Debug, Clone, Default)]
pub struct LinkKeys {
    keys: Vec<LinkKey>,
    revoked: HashMap<String, Option<u64>>,
}

#[derive(Clone)]
struct LinkKey {
    id: String,
    key: hmac::Key,
}

impl fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LinkKey").field(&self.id).finish()
    }
}

/// Whether a text is the id of a key.
pub(crate) fn is_key_id(text: &str) -> bool {
    let is_in_ids = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(is_in_ids)
}

impl LinkKeys {
    /// Adds a key. Its id has 1 to 64 letters, digits, `-` and `_`.
    pub fn insert(&mut self, id: impl Into<String>, secret: &LinkSecret) {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.0);
        let id = id.into();
        self.keys.push(LinkKey { id, key });
    }

    /// Revokes a link. Sessions that the link has started continue.
    pub fn revoke(&mut self, revocation: Revocation) {
        self.revoked.insert(revocation.id, revocation.expires);
    }

    /// Returns the value of [`LINK_PARAMETER`] for a link, signed by the first key; `None` without
    /// keys. It needs no escaping in a query.
    pub fn sign(&self, link: &Link) -> Option<String> {
        let LinkKey { id, key } = self.keys.first()?;
        let claims = serde_json::to_vec(link).expect("strings and numbers can be written as JSON");
        let signed = format!("{VERSION}.{id}.{}", URL_SAFE_NO_PAD.encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(key, signed.as_bytes()));
        Some(format!("{signed}.{signature}"))
    }

    /// Returns the principal of a request with a link. `now` is in seconds since the Unix epoch.
    ///
    /// # Errors
    /// [`AccessError::Forbidden`] with the reason.
    pub(crate) fn principal(
        &self,
        link: &str,
        request: &AccessRequest<'_>,
        now: u64,
    ) -> Result<Principal, AccessError> {
        let link = self.verified(link)?;
        link.check(request, now)?;
        if let Some(until) = self.revoked.get(&link.id)
            && until.is_none_or(|until| now < until)
        {
            return refuse("the signed link has been revoked");
        }
        Ok(link.principal())
    }

    /// Checks the signature before anything that it covers is read.
    fn verified(&self, text: &str) -> Result<Link, AccessError> {
        let damaged = || {
            refuse("the signed link is damaged: it must be sent as `windlass sign` has printed it")
        };
        let Some((signed, signature)) = text.rsplit_once('.') else {
            return damaged();
        };
        let mut parts = signed.split('.');
        let (Some(VERSION), Some(key_id), Some(claims), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return damaged();
        };
        let Ok(signature) = URL_SAFE_NO_PAD.decode(signature) else {
            return damaged();
        };
        let mut keys = self.keys.iter().filter(|key| key.id == key_id).peekable();
        if keys.peek().is_none() {
            return refuse(
                "the signed link is signed with a key that this server does not have; get a new link",
            );
        }
        // `verify` takes the same time for every signature of the right length.
        if !keys.any(|key| hmac::verify(&key.key, signed.as_bytes(), &signature).is_ok()) {
            return refuse("the signed link has been altered: its signature does not match");
        }
        let claims = URL_SAFE_NO_PAD.decode(claims).ok();
        match claims.and_then(|claims| serde_json::from_slice(&claims).ok()) {
            Some(link) => Ok(link),
            None => refuse("the signed link needs a newer version of the server"),
        }
    }
}

fn refuse<T>(problem: impl Into<String>) -> Result<T, AccessError> {
    let problem = problem.into();
    Err(AccessError::Forbidden { problem })
}

/// Returns the link of a request, if it has one.
///
/// # Errors
/// [`AccessError::Forbidden`] if it has several.
pub(crate) fn find(uri: &Uri) -> Result<Option<Cow<'_, str>>, AccessError> {
    let mut links = parameters(uri).filter(|(name, _)| name == LINK_PARAMETER);
    match (links.next(), links.next()) {
        (first, None) => Ok(first.map(|(_, link)| link)),
        _ => refuse("the request has several signed links; send one"),
    }
}

/// The parameters of the query, decoded as the server decodes them.
fn parameters(uri: &Uri) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    let pairs = uri.query().unwrap_or_default().split('&');
    pairs.filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    })
}

fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['+', '%']) {
        return Cow::Borrowed(text);
    }
    let spaced = text.replace('+', " ");
    Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests;
