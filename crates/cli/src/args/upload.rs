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
/// The URL is that of an upload method, .../upload/...; the resource that the server makes of the media
/// is printed as JSON. Up to 5 MiB go in one request. More goes in a resumable session, which survives
/// broken connections, overload, lost replies, and the end of this process too: it is remembered in a
/// journal, and the same command, run again, carries on where it was. What the server says of the media
/// (size, CRC32C, MD5) is compared with what was sent.
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
    /// With several sources, each gets the same.
    #[arg(long, short, value_name = "JSON|@FILE")]
    pub(crate) metadata: Option<String>,

    /// The type of the media [default: guessed]
    ///
    /// It is guessed from the first bytes, and from the name where they do not tell.
    #[arg(long, short = 't', value_name = "TYPE")]
    pub(crate) content_type: Option<String>,

    /// The upload type [default: by size]
    ///
    /// Unless given, media of up to 5 MiB goes in one request, as multipart if there is metadata, and
    /// everything else is resumable.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) upload_type: Option<TypeArg>,

    /// The verb: POST makes a resource, PUT and PATCH change the one of the URL
    #[arg(long, value_name = "VERB", ignore_case = true, default_value = "POST")]
    pub(crate) method: VerbArg,

    /// Send chunks of this size, a multiple of 256K
    ///
    /// Unless given, all goes in one request, and in chunks when requests keep breaking. Sizes are in
    /// powers of 1024: 256K, 8M, 1G. Of standard input and pipes a chunk is kept in memory: 1G at most.
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

/// From where, and to where: the last word is the URL.
///
/// They are one list to clap: two lists could not have flags between them.
#[derive(Debug)]
pub(crate) struct SourcesAndUrl {
    /// The files; `-` is standard input.
    pub(crate) sources: Vec<PathBuf>,
    /// The URL of the upload method.
    pub(crate) url: Url,
}

const SOURCES_AND_URL: &str = "sources_and_url";

const SOURCES_AND_URL_HELP: &str =
    "The files (`-` is standard input), then the URL of the upload method";

const SOURCES_AND_URL_LONG_HELP: &str = "\
The files (`-` is standard input), then the URL of the upload method

Standard input and pipes can be read only once: nothing of them survives the process. The URL is \
http(s)://.../upload/...; `uploadType` is added to it, or taken from it if it is there.";

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

/// An error in the words, as clap shows its own.
fn wrong(kind: ErrorKind, message: impl Display) -> clap::Error {
    let mut command = UploadArgs::augment_args(clap::Command::new("upload"));
    clap::Error::raw(kind, message).format(&mut command)
}

/// What becomes of uploads that are not finished.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = "Unfinished uploads")]
pub(crate) struct ExistingUploadArgs {
    /// Remember nothing: what is not finished when this process ends is lost
    #[arg(long, conflicts_with_all = ["journal", "resume", "restart"])]
    pub(crate) no_journal: bool,

    /// Carry on an unfinished upload of the same file without asking
    ///
    /// It is only asked on a terminal; elsewhere uploads are carried on in any case.
    #[arg(long)]
    pub(crate) resume: bool,

    /// Begin anew: an unfinished upload of the same file is cancelled
    #[arg(long, conflicts_with = "resume")]
    pub(crate) restart: bool,
}

/// An upload type as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TypeArg {
    /// The media alone, in one request
    Media,
    /// Metadata and media in one request
    Multipart,
    /// In a session that survives interruptions
    Resumable,
}

/// A verb as it is typed.
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
