//! The command that makes signed links.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use url::Url;
use windlass_discovery::MediaRange;

use super::{parse_duration, parse_size, parse_url};

/// Make a signed link for an upload or a download.
///
/// The link is the URL with a signature in its query. Everybody with the link may upload to this
/// URL, or download from it, until it expires, without other credentials: with curl, a browser, or
/// `windlass upload` and `windlass download`. The link is printed on standard output. Its id, by
/// which it can be revoked, is printed on standard error.
///
/// The key is the first of `links.keys` in the server's file of credentials. The command does not
/// ask the server: it works on every machine that has the key.
///
/// Parameters in the query of URL are a part of the link: each request must have them as they are.
/// `uploadType` is better left out, so that the client chooses it. Metadata is not bound by a link.
#[derive(Debug, clap::Args)]
#[command(after_help = SIGN_EXAMPLES, after_long_help = format!("{SIGN_EXAMPLES}\n\n{SIGN_EXIT_CODES}"))]
pub(crate) struct SignArgs {
    /// The URL of an upload method (.../upload/...) or of media, as clients will use it
    #[arg(value_name = "URL", value_parser = parse_url)]
    pub(crate) url: Url,

    /// How long the link is valid, for example 15m or 7d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) expires: Duration,

    /// A file with keys of links, such as the server's file of credentials [default: `auth.file` of
    /// the configuration]
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) key_file: Option<PathBuf>,

    /// The server's configuration file; also `WINDLASS_CONFIG`
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The HTTP method of the requests; GET is a download [default: POST if the path begins with
    /// /upload or /resumable/upload, else GET]
    ///
    /// A link for GET is also good for HEAD.
    #[arg(long, value_name = "METHOD", ignore_case = true)]
    pub(crate) method: Option<SignedMethod>,

    /// The size that uploaded media may have: 10MB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_size: Option<u64>,

    /// The type that uploaded media must have: image/png or image/*
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) media_type: Option<MediaRange>,

    /// The origin of the web pages that may use the link
    ///
    /// Browsers state the origin of a page. Other clients can state any.
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    pub(crate) origin: Option<Url>,

    /// Let the link count once: one upload is finished, or one download begins
    #[arg(long)]
    pub(crate) once: bool,

    /// The id of the principal to whom uploads belong [default: link:ID]
    #[arg(long = "as", value_name = "PRINCIPAL")]
    pub(crate) principal: Option<String>,

    /// Print a JSON object with the link, its id and its expiry
    #[arg(long)]
    pub(crate) json: bool,
}

/// The HTTP method of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub(crate) enum SignedMethod {
    Get,
    Post,
    Put,
    Patch,
}

impl SignedMethod {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
        }
    }
}

const SIGN_EXAMPLES: &str = "\
Examples:
  windlass sign --expires 15m --max-size 10MB --type 'image/*' --once \\
    https://up.example.com/upload/farm/v1/animals
  windlass sign --expires 7d --key-file keys.toml https://up.example.com/farm/v1/animals/17
  windlass upload cow.jpg \"$(windlass sign --expires 1h http://127.0.0.1:8080/upload/farm/v1/animals)\"";

const SIGN_EXIT_CODES: &str = "\
Exit codes:
  0  done
  2  the command line, the configuration file or the file with the keys is wrong, or it has no key";
