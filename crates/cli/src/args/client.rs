//! The commands of the client, and the flags that they share.

use std::ffi::OsString;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgAction, Args as _, ValueEnum};
use glob::Pattern;
use url::Url;
use windlass_client::{ChunkSize, HttpMethod, Protocol, UploadType};

use super::{Rate, Target, parse_count, parse_duration, parse_url};
use crate::exit;
use crate::output::escaped;

/// Authentication.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Reaching the server")]
pub(crate) struct CredentialArgs {
    /// The source of the bearer token: `env:NAME`, `file:PATH`, `cmd:COMMAND`, `google` or
    /// `literal:TOKEN`; also `WINDLASS_TOKEN`
    ///
    /// `env:NAME` reads an environment variable, `file:PATH` reads a file, `cmd:COMMAND` runs a
    /// command, and `google` uses Google's Application Default Credentials. An expired token is
    /// fetched again. The token is sent only to the server of the URL. `literal:TOKEN` is the token
    /// itself; other users of the machine can read it in the list of processes.
    #[arg(long, value_name = "SOURCE")]
    pub(crate) token: Option<String>,

    /// The client's certificate chain in PEM, for servers that ask for one; also
    /// `WINDLASS_CLIENT_CERT`
    ///
    /// The client's own certificate comes first, then the intermediate certificates. Like a token
    /// it is presented only to the server of the URL.
    #[arg(long, value_name = "FILE")]
    pub(crate) client_cert: Option<PathBuf>,

    /// The private key of the certificate in PEM, not encrypted; also `WINDLASS_CLIENT_KEY`
    /// [default: the file of the certificate]
    #[arg(long, value_name = "FILE")]
    pub(crate) client_key: Option<PathBuf>,

    /// Send the token also without encryption to other machines
    ///
    /// By default it is sent to https:// URLs and to this machine only, because everybody on the
    /// way could read and use it.
    #[arg(long)]
    pub(crate) allow_plain_http: bool,
}

/// Authentication, retries and timeout.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Reaching the server")]
pub(crate) struct ConnectionArgs {
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,

    /// How many times in a row to wait and retry after a failure [default: 5]
    ///
    /// The waits double from 1 second to 32 seconds, so five of them take about half a minute. The
    /// count starts again when bytes have been committed.
    #[arg(long, value_name = "COUNT")]
    pub(crate) retries: Option<u32>,

    /// The time limit, for example 90s or 2h [default: none]
    ///
    /// It applies to each upload or download separately and includes waits.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
}

/// Where the media of uploads may go.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Reaching the server")]
pub(crate) struct SessionArgs {
    /// Also send media to sessions at this origin (scheme, host and port); may be given more
    /// than once
    ///
    /// A server names the URL of each session. By default it must have the host of the upload URL,
    /// or both must be hosts of Google's APIs.
    #[arg(long, value_name = "ORIGIN", value_parser = parse_url)]
    pub(crate) session_origin: Vec<Url>,
}

/// Concurrency, rate limit and verification of uploads.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct TransferArgs {
    /// The number of uploads at once [default: 8, of these 3 of more than 5 MiB]
    ///
    /// Small files wait mostly for the server, so several go at once; large ones share the line.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub(crate) concurrency: Option<NonZeroUsize>,

    /// The limit in bytes per second for all uploads together: 256K, 10MB/s
    #[arg(long, value_name = "RATE")]
    pub(crate) max_rate: Option<Rate>,

    /// Do not compare the size and checksums that the server reports with the sent media
    #[arg(long)]
    pub(crate) no_verify: bool,
}

/// The journal of unfinished uploads.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Unfinished uploads")]
pub(crate) struct JournalArgs {
    /// The directory that records unfinished uploads; also `WINDLASS_JOURNAL` [default:
    /// ~/.local/state/windlass/uploads]
    ///
    /// The directory is created, readable only by its owner, if it does not exist: its records
    /// allow anyone to continue the uploads. The default is below `$XDG_STATE_HOME` if that is set.
    /// If the default directory cannot be used, uploads run without a journal.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) journal: Option<PathBuf>,
}

/// What is printed, and in which form.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct VerbosityArgs {
    /// Print events on standard output, one JSON object per line
    ///
    /// `progress` at each change of state and at most once a second, then `uploaded`, `skipped`,
    /// `downloaded` or `failed`. docs/cli.md describes the fields.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only errors to standard error
    ///
    /// Data on standard output is still printed.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Upload media to an API, or to a server of tus or of the IETF's draft for resumable uploads.
///
/// URL is the URL of an upload method (.../upload/...), or the one at which a server of tus or of
/// the draft creates uploads. The resource that the server creates is
/// printed as JSON. Media of up to 5 MiB is sent in one request. Larger media is sent in a
/// resumable session, which survives broken connections, overload, lost replies and the end of this
/// process: it is recorded in a journal, and the same command, run again, continues the upload.
/// With several files small ones are sent in sessions as well, and files that are uploaded are
/// recorded until all are: the same command, run again, skips them. The size and checksums (CRC32C,
/// MD5) that the server reports are compared with the sent media.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "windlass upload [OPTIONS] <SOURCE>... <URL>",
    after_help = UPLOAD_EXAMPLES,
    after_long_help = format!("{UPLOAD_EXAMPLES}\n\n{}", exit::CODES),
)]
pub(crate) struct UploadArgs {
    #[command(flatten)]
    pub(crate) positional: SourcesAndUrl,

    /// The metadata: a JSON object, or @FILE
    ///
    /// In its strings {name} stands for the name of each file, {stem} for the name without its last
    /// extension, {path} for the path below the directory that was given, and {size} for the size
    /// in bytes. {{ and }} are braces themselves.
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
    /// and larger media, or each of several files, in a resumable session.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) upload_type: Option<TypeArg>,

    /// The protocol [default: by the URL and the server]
    ///
    /// By default it is Google's if the path of the URL has a segment `upload`, if the URL has a
    /// parameter `uploadType`, or with --type media and multipart. Any other URL's server is asked
    /// by an OPTIONS request: it is tus if the server announces version 1.0.0, otherwise the IETF's
    /// draft if the server announces that, and otherwise Google's. An upload that is continued stays
    /// in its protocol. With tus, --metadata may have strings only; with the draft it has no place.
    #[arg(long, value_name = "PROTOCOL")]
    pub(crate) protocol: Option<ProtocolArg>,

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
    pub(crate) directories: DirectoryArgs,

    #[command(flatten)]
    pub(crate) journal: JournalArgs,

    #[command(flatten)]
    pub(crate) existing: ExistingUploadArgs,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(flatten)]
    pub(crate) session: SessionArgs,

    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

/// The files of directories.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Directories")]
pub(crate) struct DirectoryArgs {
    /// Upload the files in the directories among the sources, and in those below
    ///
    /// Links to files are uploaded, links to directories are not followed.
    #[arg(long, short)]
    pub(crate) recursive: bool,

    /// Of a directory, upload only files that match the pattern; may be given more than once
    ///
    /// A pattern without a slash is for names, as '*.jpg'; one with a slash is for paths below the
    /// directory, as '2026/**/*.jpg'. Quote it, else the shell expands it.
    #[arg(long, value_name = "GLOB", requires = "recursive")]
    pub(crate) include: Vec<Pattern>,

    /// Of a directory, leave out files and directories that match; may be given more than once
    ///
    /// It wins over --include. '.*' leaves out hidden ones.
    #[arg(long, value_name = "GLOB", requires = "recursive")]
    pub(crate) exclude: Vec<Pattern>,

    /// Of a directory, go down this number of levels; 1 is the files in the directory itself
    /// [default: all]
    #[arg(long, value_name = "COUNT", value_parser = parse_count, requires = "recursive")]
    pub(crate) max_depth: Option<NonZeroUsize>,
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
http(s)://.../upload/...; in Google's protocol the `uploadType` parameter is added to it, or read \
from it if it is there. In tus and the draft it is the URL at which uploads are created.";

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

/// Handling of unfinished and finished uploads of the same file.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = "Unfinished uploads")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag on the command line"
)]
pub(crate) struct ExistingUploadArgs {
    /// Keep no record: an upload that is unfinished when this process ends is lost
    #[arg(long, conflicts_with_all = ["journal", "resume", "restart", "again"])]
    pub(crate) no_journal: bool,

    /// Continue an unfinished upload of the same file without asking
    ///
    /// Only on a terminal is there a question; otherwise uploads are continued anyway.
    #[arg(long)]
    pub(crate) resume: bool,

    /// Cancel an unfinished upload of the same file and start again
    #[arg(long, conflicts_with = "resume")]
    pub(crate) restart: bool,

    /// Upload also the files that an earlier run of several files has uploaded before it was
    /// stopped
    ///
    /// By default these files are skipped, until a run has uploaded all of its files.
    #[arg(long)]
    pub(crate) again: bool,
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

/// A protocol on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtocolArg {
    /// Google's media upload protocol
    Google,
    /// Google's protocol with the headers X-Goog-Upload-*
    XGoogUpload,
    /// tus 1.0.0
    Tus,
    /// The IETF's draft "Resumable Uploads for HTTP"
    Ietf,
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

impl From<ProtocolArg> for Protocol {
    fn from(protocol: ProtocolArg) -> Self {
        match protocol {
            ProtocolArg::Google => Self::Google,
            ProtocolArg::XGoogUpload => Self::XGoogUpload,
            ProtocolArg::Tus => Self::Tus,
            ProtocolArg::Ietf => Self::Ietf,
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

const UPLOAD_EXAMPLES: &str = "\
Examples:
  windlass upload cow.jpg http://127.0.0.1:8080/upload/farm/v1/animals
  windlass upload cow.jpg http://127.0.0.1:8080/upload/farm/v1/animals \\
    --metadata '{\"name\": \"Bella\"}'
  windlass upload *.mp4 https://up.example.com/upload/films/v1/films --max-rate 10MB/s \\
    --metadata '{\"title\": \"{stem}\"}'
  windlass upload --recursive herd http://127.0.0.1:8080/upload/farm/v1/animals \\
    --include '*.jpg'
  windlass upload cow2.jpg http://127.0.0.1:8080/upload/farm/v1/animals/17 --method PUT
  windlass upload cow.mp4 http://127.0.0.1:8080/files --protocol tus
  windlass upload mail.eml --content-type message/rfc822 --token google \\
    https://gmail.googleapis.com/upload/gmail/v1/users/me/messages/send
  curl -s https://example.com/cow.jpg \\
    | windlass upload - http://127.0.0.1:8080/upload/farm/v1/animals";

/// Continue unfinished uploads.
///
/// Asks the server how many bytes it has and sends the rest. The file must be unchanged: its size,
/// modification time, and first and last bytes are compared. `windlass uploads` lists unfinished
/// uploads.
#[derive(Debug, clap::Args)]
#[command(after_help = RESUME_EXAMPLES, after_long_help = format!("{RESUME_EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct ResumeArgs {
    /// The id of the upload, or the beginning of it [default: the only one]
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Continue all unfinished uploads
    #[arg(long, conflicts_with = "id")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) transfer: TransferArgs,

    #[command(flatten)]
    pub(crate) journal: JournalArgs,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(flatten)]
    pub(crate) session: SessionArgs,

    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

const RESUME_EXAMPLES: &str = "\
Examples:
  windlass resume
  windlass resume mzxw
  windlass resume --all --max-rate 1M";

/// List unfinished uploads.
///
/// Lists the records of the local journal without asking any server. `windlass status` asks the
/// servers. Files of runs that were stopped, which are uploaded already, are listed by --finished.
#[derive(Debug, clap::Args)]
#[command(after_help = UPLOADS_EXAMPLES, after_long_help = format!("{UPLOADS_EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct UploadsArgs {
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,

    /// List the files that runs of several files have uploaded before they were stopped
    ///
    /// The same command, run again, skips these files. They are forgotten when it has uploaded all
    /// of its files.
    #[arg(long)]
    pub(crate) finished: bool,

    /// Forget which files are uploaded: the same command, run again, uploads all of its files
    #[arg(long, conflicts_with_all = ["json", "finished"])]
    pub(crate) forget_finished: bool,

    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

const UPLOADS_EXAMPLES: &str = "\
Examples:
  windlass uploads
  windlass uploads --json | jq -r .id";

/// Ask the server for the state of uploads.
///
/// Neither the uploads nor the journal are changed. The exit code is 1 if a session is lost or
/// cancelled.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS_EXAMPLES, after_long_help = format!("{STATUS_EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct StatusArgs {
    /// The id of an upload in the journal, the beginning of it, or a session URI [default: all of
    /// the journal]
    ///
    /// A session URI is a credential: anyone who reads it in a list of processes or in a shell
    /// history can upload to it.
    #[arg(value_name = "ID|SESSION_URI")]
    pub(crate) target: Option<Target>,

    /// The protocol of the session URI [default: google]
    #[arg(long, value_name = "PROTOCOL")]
    pub(crate) protocol: Option<ProtocolArg>,

    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) journal: JournalArgs,

    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
}

const STATUS_EXAMPLES: &str = "\
Examples:
  windlass status
  windlass status mzxw";

/// Cancel an upload.
///
/// The server is asked to delete the session, and the record is removed from the journal. A
/// finished session cannot be cancelled: its media belongs to a resource.
#[derive(Debug, clap::Args)]
#[command(after_help = CANCEL_EXAMPLES, after_long_help = format!("{CANCEL_EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct CancelArgs {
    /// The id of an upload in the journal, the beginning of it, or a session URI [default: the only
    /// upload]
    ///
    /// A session URI is a credential: anyone who reads it in a list of processes or in a shell
    /// history can upload to it.
    #[arg(value_name = "ID|SESSION_URI")]
    pub(crate) target: Option<Target>,

    /// The protocol of the session URI [default: google]
    #[arg(long, value_name = "PROTOCOL", conflicts_with = "forget")]
    pub(crate) protocol: Option<ProtocolArg>,

    /// Only remove the record from the journal; the session stays at the server until it expires
    #[arg(long)]
    pub(crate) forget: bool,

    #[command(flatten)]
    pub(crate) journal: JournalArgs,

    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
}

const CANCEL_EXAMPLES: &str = "\
Examples:
  windlass cancel mzxw6ytb
  windlass cancel mzxw6ytb --forget";

/// Download the media of a resource.
///
/// The media is written to FILE.part and renamed when it is complete. If the server reports a
/// CRC32C, the file is renamed only if the checksum matches. The same command, run again, continues
/// a partial download of the same media.
#[derive(Debug, clap::Args)]
#[command(after_help = DOWNLOAD_EXAMPLES, after_long_help = format!("{DOWNLOAD_EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct DownloadArgs {
    /// The URL of the resource
    ///
    /// `alt=media` is added unless the URL has an `alt` parameter: without it, an API returns the
    /// resource instead of its media.
    #[arg(value_parser = parse_url)]
    pub(crate) url: Url,

    /// The file to write [default: the last segment of the URL's path, in the current directory]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Use the URL as given, without adding `alt=media`
    #[arg(long)]
    pub(crate) exact_url: bool,

    /// The limit in bytes per second: 256K, 10MB/s
    #[arg(long, value_name = "RATE")]
    pub(crate) max_rate: Option<Rate>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

const DOWNLOAD_EXAMPLES: &str = "\
Examples:
  windlass download http://127.0.0.1:8080/farm/v1/animals/17 -o cow.jpg
  windlass download --exact-url https://files.example.com/herd.tar";
