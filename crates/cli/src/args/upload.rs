//! `windlass upload`.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgAction, Args as _, ValueEnum};
use url::Url;
use windlass_client::{ChunkSize, HttpMethod, UploadType};

use super::client::{ConnectionArgs, JournalArgs, TransferArgs, VerbosityArgs};
use super::value::parse_url;
use crate::exit;
use crate::text::escaped;

/// Upload media to an API.
///
/// URL is the URL of an upload method (.../upload/...). The resource that the server creates is
/// printed as JSON. Media of up to 5 MiB is sent in one request. Larger media is sent in a
/// resumable session, which survives broken connections, overload, lost replies and the end of this
/// process: it is recorded in a journal, and the same command, run again, continues the upload. The
/// size and checksums (CRC32C, MD5) that the server reports are compared with the sent media.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "windlass upload [OPTIONS] <SOURCE>... <URL>",
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{}", exit::CODES),
)]
pub(crate) struct UploadArgs {
    #[command(flatten)]
    pub(crate) positional: SourcesAndUrl,

    /// The metadata: a JSON object, or @FILE
    ///
    /// All sources get the same metadata.
    #[arg(long, short, value_name = "JSON|@FILE")]
    pub(crate) metadata: Option<String>,

    /// The media type [default: guessed]
    ///
    /// The type is guessed from the first bytes and, if they are not conclusive, from the file
    /// name.
    #[arg(long, short = 't', value_name = "TYPE")]
    pub(crate) content_type: Option<String>,

    /// The upload type [default: by size]
    ///
    /// By default, media of up to 5 MiB is sent in one request, as multipart if there is metadata,
    /// and larger media in a resumable session.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) upload_type: Option<TypeArg>,

    /// The HTTP method: POST creates a resource, PUT and PATCH change the resource of the URL
    #[arg(long, value_name = "VERB", ignore_case = true, default_value = "POST")]
    pub(crate) method: VerbArg,

    /// Send chunks of this size, a multiple of 256K
    ///
    /// By default the media is sent in one request, and in chunks if requests keep failing. Sizes
    /// are powers of 1024: 256K, 8M, 1G. For standard input and pipes a chunk is kept in memory, so
    /// that the limit is 1G.
    #[arg(long, value_name = "SIZE")]
    pub(crate) chunk_size: Option<ChunkSize>,

    #[command(flatten)]
    pub(crate) transfer: TransferArgs,

    #[command(flatten)]
    pub(crate) journal: JournalArgs,

    #[command(flatten)]
    pub(crate) existing: ExistingUploadArgs,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

/// The sources and the URL: the last positional argument is the URL.
///
/// clap sees one list: with two lists, flags between their values would not be possible.
#[derive(Debug)]
pub(crate) struct SourcesAndUrl {
    /// The files; `-` is standard input.
    pub(crate) sources: Vec<PathBuf>,
    /// The URL of the upload method.
    pub(crate) url: Url,
}

const SOURCES_AND_URL: &str = "sources_and_url";

const SOURCES_AND_URL_HELP: &str =
    "The files to upload (`-` is standard input), then the URL of the upload method";

const SOURCES_AND_URL_LONG_HELP: &str = "\
The files to upload (`-` is standard input), then the URL of the upload method

Uploads of standard input and pipes cannot be continued by another process. The URL has the form \
http(s)://.../upload/...; the `uploadType` parameter is added to it, or read from it if it is there.";

impl clap::Args for SourcesAndUrl {
    fn augment_args(command: clap::Command) -> clap::Command {
        let sources_and_url = clap::Arg::new(SOURCES_AND_URL)
            .required(true)
            .action(ArgAction::Append)
            .value_names(["SOURCE", "URL"])
            .num_args(1..)
            .value_parser(clap::value_parser!(OsString))
            .help(SOURCES_AND_URL_HELP)
            .long_help(SOURCES_AND_URL_LONG_HELP);
        command.arg(sources_and_url)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for SourcesAndUrl {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let words = matches
            .get_many::<OsString>(SOURCES_AND_URL)
            .unwrap_or_default();
        let mut sources: Vec<PathBuf> = words.map(PathBuf::from).collect();
        let last = sources.pop().unwrap_or_default();
        let last = last.to_string_lossy();
        let word = escaped(&last);
        if sources.is_empty() {
            let message = format!("a <SOURCE> and a <URL> are required, there is only '{word}'");
            return Err(wrong(ErrorKind::MissingRequiredArgument, message));
        }
        let url = parse_url(&last).map_err(|error| {
            let message = format!("invalid value '{word}' for '<URL>': {error}");
            wrong(ErrorKind::ValueValidation, message)
        })?;
        Ok(Self { sources, url })
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Builds an error that clap formats like its own.
fn wrong(kind: ErrorKind, message: impl Display) -> clap::Error {
    let mut command = UploadArgs::augment_args(clap::Command::new("upload"));
    clap::Error::raw(kind, message).format(&mut command)
}

/// Handling of unfinished uploads of the same file.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = "Unfinished uploads")]
pub(crate) struct ExistingUploadArgs {
    /// Keep no record: an upload that is unfinished when this process ends is lost
    #[arg(long, conflicts_with_all = ["journal", "resume", "restart"])]
    pub(crate) no_journal: bool,

    /// Continue an unfinished upload of the same file without asking
    ///
    /// Only on a terminal is there a question; otherwise uploads are continued anyway.
    #[arg(long)]
    pub(crate) resume: bool,

    /// Cancel an unfinished upload of the same file and start again
    #[arg(long, conflicts_with = "resume")]
    pub(crate) restart: bool,
}

/// An upload type on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TypeArg {
    /// The media alone, in one request
    Media,
    /// Metadata and media in one request
    Multipart,
    /// In a session that survives interruptions
    Resumable,
}

/// An HTTP method on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub(crate) enum VerbArg {
    Post,
    Put,
    Patch,
}

impl From<TypeArg> for UploadType {
    fn from(upload_type: TypeArg) -> Self {
        match upload_type {
            TypeArg::Media => Self::Media,
            TypeArg::Multipart => Self::Multipart,
            TypeArg::Resumable => Self::Resumable,
        }
    }
}

impl From<VerbArg> for HttpMethod {
    fn from(verb: VerbArg) -> Self {
        match verb {
            VerbArg::Post => Self::Post,
            VerbArg::Put => Self::Put,
            VerbArg::Patch => Self::Patch,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  windlass upload cow.jpg http://127.0.0.1:8080/upload/farm/v1/animals
  windlass upload cow.jpg http://127.0.0.1:8080/upload/farm/v1/animals \\
    --metadata '{\"name\": \"Bella\"}'
  windlass upload *.mp4 https://up.example.com/upload/films/v1/films --max-rate 10MB/s
  windlass upload cow2.jpg http://127.0.0.1:8080/upload/farm/v1/animals/17 --method PUT
  windlass upload mail.eml --content-type message/rfc822 --token google \\
    https://gmail.googleapis.com/upload/gmail/v1/users/me/messages/send
  curl -s https://example.com/cow.jpg \\
    | windlass upload - http://127.0.0.1:8080/upload/farm/v1/animals";
