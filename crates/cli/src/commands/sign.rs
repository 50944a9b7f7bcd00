//! `windlass sign`: signed links.

use std::path::PathBuf;

use serde_json::json;
use thiserror::Error as ThisError;
use url::Url;
use windlass_auth::{LINK_PARAMETER, Link};
use windlass_server::{Clock as _, Host, SystemClock};

use super::serve::{AuthenticationError, read_link_keys};
use super::{Error, download};
use crate::args::{SignArgs, SignedMethod};
use crate::exit::Code;
use crate::output;
use crate::settings::{self, Environment, Sources};

/// Why no link is made.
#[derive(Debug, ThisError)]
pub(crate) enum SignError {
    #[error("no file with keys of links is named: the configuration has no auth.file")]
    NoFile,
    #[error("the file of credentials has no keys of links")]
    NoKeys,
    #[error(transparent)]
    Keys(#[from] AuthenticationError),
    #[error("the host of the URL cannot be in a link")]
    Host,
    #[error("an origin is a scheme and a host, such as https://app.example.com")]
    Origin,
    #[error("the URL is a signed link already")]
    Signed,
    #[error("--max-size and --type apply to uploads; a link for GET is for downloads")]
    BoundsOfDownload,
}

impl SignError {
    /// Returns a hint for the user.
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoFile => {
                Some("name the file with --key-file, or the configuration with --config")
            }
            Self::NoKeys => Some(
                "add [[links.keys]] with an id and a secret, for example the output of \
                 `openssl rand -base64 32`",
            ),
            Self::Keys(error) => error.hint(),
            Self::Host | Self::Origin | Self::Signed | Self::BoundsOfDownload => None,
        }
    }
}

/// Prints a link.
pub(super) fn run(args: &SignArgs) -> Result<Code, Error> {
    let (key, file) = if let Some(path) = &args.key_file {
        ("--key-file", path.clone())
    } else {
        (
            "auth.file",
            configured_file(args)?.ok_or(SignError::NoFile)?,
        )
    };
    let keys = read_link_keys(key, &file).map_err(SignError::Keys)?;
    let (mut url, link) = link(args, SystemClock.now().as_millis() / 1000)?;
    let signature = keys.sign(&link).ok_or(SignError::NoKeys)?;
    url.query_pairs_mut()
        .append_pair(LINK_PARAMETER, &signature);
    let Link { id, expires, .. } = &link;
    if args.json {
        output::json(json!({"url": url.as_str(), "id": id, "expires": expires}));
    } else {
        output::data(&url);
        output::note(format_args!("id {id}, expires {expires}"));
    }
    Ok(Code::Success)
}

/// Returns the file of credentials that a server with the same environment and file would use.
fn configured_file(args: &SignArgs) -> Result<Option<PathBuf>, settings::Error> {
    let sources = Sources {
        config: args.config.clone(),
        flags: Vec::new(),
        environment: Environment::new(std::env::vars_os())?,
    };
    Ok(sources.merge()?.settings.auth_file)
}

/// Returns the URL of a link without its signature, and the link to sign. `now` is in seconds since
/// the Unix epoch.
fn link(args: &SignArgs, now: u64) -> Result<(Url, Link), SignError> {
    let method = args.method.unwrap_or_else(|| usual_method(&args.url));
    let mut url = args.url.clone();
    if method == SignedMethod::Get {
        if args.max_size.is_some() || args.media_type.is_some() {
            return Err(SignError::BoundsOfDownload);
        }
        url = download::with_media(&url);
    }
    url.set_fragment(None);
    let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    if query.iter().any(|(name, _)| name == LINK_PARAMETER) {
        return Err(SignError::Signed);
    }
    let host = url.host_str().and_then(|host| host.parse::<Host>().ok());
    let link = Link {
        id: Link::new_id(),
        method: method.name().to_owned(),
        host: host.ok_or(SignError::Host)?.to_string(),
        path: url.path().to_owned(),
        query,
        expires: now.saturating_add(args.expires.as_secs()),
        max_size: args.max_size,
        media_type: args.media_type.clone(),
        origin: args.origin.as_ref().map(origin).transpose()?,
        once: args.once,
        principal: args.principal.clone(),
    };
    Ok((url, link))
}

fn usual_method(url: &Url) -> SignedMethod {
    let is_upload = ["/upload/", "/resumable/upload/"]
        .iter()
        .any(|prefix| url.path().starts_with(prefix));
    if is_upload {
        SignedMethod::Post
    } else {
        SignedMethod::Get
    }
}

/// Browsers send an origin in this form, without a path.
fn origin(url: &Url) -> Result<String, SignError> {
    let is_origin = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let origin = url.origin();
    if is_origin && origin.is_tuple() {
        Ok(origin.ascii_serialization())
    } else {
        Err(SignError::Origin)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    fn sign(words: &str) -> Result<(Url, Link), SignError> {
        let words = format!("windlass sign --expires 90s {words}");
        let Command::Sign(args) = Args::parse_from(words.split(' ')).command else {
            panic!("another command: {words}");
        };
        link(&args, 1000)
    }

    #[test]
    fn link_states_what_the_flags_say() {
        let (url, link) = sign(
            "--max-size 1K --type image/* --origin https://App.example.com:443 --once --as alice \
             http://Up.example.com:80/upload/farm/v1/animals?name=a%20b#there",
        )
        .expect("it is one");
        assert_eq!(
            url.as_str(),
            "http://up.example.com/upload/farm/v1/animals?name=a%20b"
        );
        let expected = Link {
            id: link.id.clone(),
            method: "POST".to_owned(),
            host: "up.example.com".to_owned(),
            path: "/upload/farm/v1/animals".to_owned(),
            query: vec![("name".to_owned(), "a b".to_owned())],
            expires: 1090,
            max_size: Some(1024),
            media_type: "image/*".parse().ok(),
            origin: Some("https://app.example.com".to_owned()),
            once: true,
            principal: Some("alice".to_owned()),
        };
        assert_eq!(link, expected);
        assert_eq!(link.id.len(), 16);
    }

    #[test]
    fn method_is_that_of_the_url_unless_it_is_given() {
        for (words, method, query) in [
            ("http://h/upload/farm/v1/animals", "POST", None),
            ("http://h/resumable/upload/farm/v1/animals", "POST", None),
            (
                "--method put http://h/upload/farm/v1/animals/1",
                "PUT",
                None,
            ),
            ("http://h/farm/v1/animals/1", "GET", Some("alt=media")),
            (
                "http://h/farm/v1/animals/1?alt=media",
                "GET",
                Some("alt=media"),
            ),
            ("--method POST http://h/v0/b/c/o", "POST", None),
        ] {
            let (url, link) = sign(words).expect("it is one");
            assert_eq!(
                (link.method.as_str(), url.query()),
                (method, query),
                "{words}"
            );
        }
    }

    #[test]
    fn link_that_could_not_work_is_refused() {
        for (words, said) in [
            ("--max-size 1 http://h/farm/v1/animals/1", "for downloads"),
            (
                "--type image/png http://h/farm/v1/animals/1",
                "for downloads",
            ),
            (
                "--origin https://a.example/page http://h/upload/a",
                "an origin",
            ),
            ("http://h/upload/a?X-Windlass-Link=1.2", "already"),
        ] {
            let refused = sign(words).map(|_| ()).map_err(|error| error.to_string());
            assert!(
                refused
                    .as_ref()
                    .is_err_and(|problem| problem.contains(said)),
                "{words}: {refused:?}"
            );
        }
    }
}
