//! The credentials of a request: where they are, and where they must not be.

use std::borrow::Cow;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, Uri};
use percent_encoding::percent_decode_str;
use windlass_server::AccessError;

/// The header of an API key, as Google's libraries send it.
const API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// The credentials of one request.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct Credentials<'a> {
    /// The token in `Authorization: Bearer`, or in Firebase's `Authorization: Firebase`.
    pub(crate) token: Option<&'a str>,
    /// The API key, in `X-Goog-Api-Key` or in `?key=`.
    pub(crate) key: Option<Cow<'a, str>>,
}

impl<'a> Credentials<'a> {
    /// Finds the credentials of a request.
    ///
    /// # Errors
    /// [`AccessError::CredentialsInvalid`] if a header occurs twice, which is ambiguous, or has
    /// another form; [`AccessError::CredentialsMisplaced`] if a token is in the query.
    pub(crate) fn find(uri: &'a Uri, headers: &'a HeaderMap) -> Result<Self, AccessError> {
        let query = || parameters(uri.query().unwrap_or_default());
        // RFC 6750, section 2.3, allows a token in the query, and section 5.3 explains why it is
        // insecure.
        if query().any(|(name, _)| name == "access_token" || name == "oauth_token") {
            return Err(AccessError::CredentialsMisplaced {
                problem: "a token in the query would stand in the logs of every proxy on the way; \
                          send it in the header Authorization",
            });
        }
        let key = match single(headers, &API_KEY)? {
            Some(key) => Some(Cow::Borrowed(key)),
            None => query()
                .find_map(|(name, value)| (name == "key").then_some(value))
                .filter(|key| !key.is_empty()),
        };
        let token = single(headers, &AUTHORIZATION)?.map(token).transpose()?;
        Ok(Self { token, key })
    }
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, AccessError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    match (value.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text)),
        _ => Err(AccessError::CredentialsInvalid),
    }
}

/// The token in `SCHEME TOKEN`. The name of a scheme has no case (RFC 9110, section 11.1).
fn token(value: &str) -> Result<&str, AccessError> {
    let (scheme, token) = value
        .split_once(' ')
        .ok_or(AccessError::CredentialsInvalid)?;
    let token = token.trim_matches(' ');
    // Firebase's libraries send the token of a signed-in user under a separate scheme.
    let is_known = ["Bearer", "Firebase"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known));
    if is_known && !token.is_empty() {
        Ok(token)
    } else {
        Err(AccessError::CredentialsInvalid)
    }
}

/// The parameters of a query, decoded.
fn parameters(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    let decode = |text| percent_decode_str(text).decode_utf8_lossy();
    query.split('&').map(move |pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn find(
        target: &str,
        headers: &[(&'static str, &'static str)],
    ) -> Result<(Option<String>, Option<String>), AccessError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let uri = target.parse().unwrap();
        let found = Credentials::find(&uri, &map)?;
        Ok((
            found.token.map(str::to_owned),
            found.key.map(Cow::into_owned),
        ))
    }

    #[test]
    fn credentials_are_found_where_clients_put_them() {
        let (token, key) = (|t: &str| Some(t.to_owned()), |k: &str| Some(k.to_owned()));
        for (target, headers, expected) in [
            ("/a", &[][..], (None, None)),
            ("/a", &[("authorization", "Bearer t")], (token("t"), None)),
            ("/a", &[("authorization", "bearer  t ")], (token("t"), None)),
            ("/a", &[("authorization", "Firebase t")], (token("t"), None)),
            ("/a", &[("x-goog-api-key", "k")], (None, key("k"))),
            ("/a?key=k%2B", &[], (None, key("k+"))),
            ("/a?b=c&%6Bey=k", &[], (None, key("k"))),
            ("/a?key=", &[], (None, None)),
            ("/a?key=q", &[("x-goog-api-key", "k")], (None, key("k"))),
            (
                "/a?key=k",
                &[("authorization", "Bearer t")],
                (token("t"), key("k")),
            ),
        ] {
            assert_eq!(find(target, headers), Ok(expected), "{target} {headers:?}");
        }
    }

    #[test]
    fn ambiguous_and_malformed_credentials_are_refused() {
        for headers in [
            &[("authorization", "Bearer a"), ("authorization", "Bearer a")][..],
            &[("x-goog-api-key", "a"), ("x-goog-api-key", "b")],
            &[("authorization", "Bearer")],
            &[("authorization", "Bearer ")],
            &[("authorization", "t")],
            &[("authorization", "Basic dTpw")],
        ] {
            let refused = Err(AccessError::CredentialsInvalid);
            assert_eq!(find("/a", headers), refused, "{headers:?}");
        }
    }

    #[test]
    fn token_in_the_query_is_refused_with_the_reason() {
        for target in [
            "/a?access_token=t",
            "/a?b&%61ccess_token=t",
            "/a?oauth_token=t",
        ] {
            let refused = find(target, &[("authorization", "Bearer t")]);
            let Err(AccessError::CredentialsMisplaced { problem }) = refused else {
                panic!("{target}: {refused:?}");
            };
            assert!(problem.contains("logs"), "{problem}");
        }
    }
}
