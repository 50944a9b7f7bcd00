//! A host that serves only media ([`Downloads::host`](crate::config::Downloads::host)). Uploaded
//! media is then opened as a document of an origin that has nothing else.
//!
//! Only browsers that open media as a document are redirected there. They say so in
//! `Sec-Fetch-Mode: navigate` (Fetch Metadata). Client libraries would follow the redirection
//! without `Authorization`, which they omit for another host, and would fail. Pages that embed
//! media, or read it by `fetch`, do not open it as a document.

use http::header::{LOCATION, VARY};
use http::{HeaderMap, HeaderValue, Method as HttpMethod, StatusCode, Uri};
use windlass_rest::host::Host;

use crate::config::Settings;
use crate::context::at_site;
use crate::error::Error;
use crate::reply::{Reply, empty};

/// The header in which browsers state how a reply will be used.
const SEC_FETCH_MODE: &str = "sec-fetch-mode";

/// Whether a request is for the host that serves only media.
pub(crate) fn is_asked(settings: &Settings, host: Option<&Host>) -> bool {
    host.is_some() && settings.downloads.host.as_ref() == host
}

/// Refuses all other methods than downloads at the host that serves only media.
///
/// # Errors
/// [`Error::MediaOnly`].
pub(crate) fn check_method(
    settings: &Settings,
    host: Option<&Host>,
    http_method: &HttpMethod,
) -> Result<(), Error> {
    let may_download = [HttpMethod::GET, HttpMethod::HEAD].contains(http_method);
    if may_download || !is_asked(settings, host) {
        Ok(())
    } else {
        Err(Error::MediaOnly)
    }
}

/// Returns the redirection for a browser that opens media as a document at the URL `base_url` and
/// the target `uri`. `None` if the media is to be served at the requested host.
pub(crate) fn redirection(
    settings: &Settings,
    headers: &HeaderMap,
    base_url: &str,
    uri: &Uri,
) -> Option<Reply> {
    let host = settings.downloads.host.as_ref()?;
    if headers.get(SEC_FETCH_MODE)? != "navigate" {
        return None;
    }
    let site = at_site(base_url, Some(host));
    let target = uri.path_and_query()?;
    let location = format!("{}{target}", site.trim_end_matches('/'));
    let mut reply = empty(StatusCode::TEMPORARY_REDIRECT);
    let headers = reply.headers_mut();
    headers.insert(LOCATION, HeaderValue::try_from(location).ok()?);
    Some(reply)
}

/// Adds `Vary`, if there is a host for media: a reply to a download depends on how a browser will
/// use it. Otherwise a browser could open media that a page has fetched before as a document of
/// this host.
pub(crate) fn vary(settings: &Settings, headers: &mut HeaderMap) {
    if settings.downloads.host.is_some() {
        headers.append(VARY, HeaderValue::from_static("Sec-Fetch-Mode"));
    }
}
