//! Hints: the exit code, the name and the advice for an error of the client, and the command that
//! continues an upload.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use windlass_client::{Damage, Error, JournalError, Kind, RecordId};

use crate::args::{ConnectionArgs, JournalArgs, SessionArgs, TransferArgs};
use crate::exit::Code;

/// The circumstances of an error.
#[derive(Debug, Clone, Default)]
pub(super) struct HintContext {
    /// The task that failed.
    pub(super) task: Task,
    /// Whether a token was sent.
    pub(super) has_token: bool,
    /// The command that continues the upload, if it can be continued.
    pub(super) resume_command: Option<String>,
    /// Whether the source is a directory.
    pub(super) is_directory: bool,
    /// How the command is run again.
    pub(super) rerun: Rerun,
}

/// How a command must be run again, so that it uploads the rest alone. Follows "run".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Rerun {
    /// Unchanged.
    #[default]
    Same,
    /// Without `--again`, which uploads all files once more.
    WithoutAgain,
    /// For the files that are left: nothing records which are uploaded.
    FilesLeft,
}

impl Rerun {
    /// For the flags of this upload.
    pub(super) fn of(is_run: bool, has_journal: bool, again: bool) -> Self {
        match (is_run, has_journal, again) {
            (true, true, true) => Self::WithoutAgain,
            (true, false, _) => Self::FilesLeft,
            _ => Self::Same,
        }
    }
}

impl fmt::Display for Rerun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "again",
            Self::WithoutAgain => "again without --again",
            Self::FilesLeft => "again for the files that are left",
        })
    }
}

/// The task of a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Task {
    /// A single question to a server.
    #[default]
    Ask,
    /// An upload; `to_upload_url` is whether the path of the URL contains `upload`.
    Upload { to_upload_url: bool },
    /// A download.
    Download,
}

impl Task {
    fn is_upload(self) -> bool {
        matches!(self, Self::Upload { .. })
    }
}

/// Returns the exit code of a transfer that failed with this error. Where each connection fails in
/// the same way, for instance because of a certificate, another try does not help.
pub(super) fn exit_code(error: &Error) -> Code {
    match error.kind() {
        Kind::Connection if !error.is_retryable() => Code::Failure,
        kind => code_of(kind),
    }
}

fn code_of(kind: Kind) -> Code {
    match kind {
        Kind::Usage => Code::Usage,
        Kind::Source | Kind::Journal | Kind::Busy | Kind::Token | Kind::Target => Code::CannotBegin,
        Kind::Connection | Kind::Unavailable | Kind::Timeout => Code::Unfinished,
        Kind::Mismatch => Code::Mismatch,
        // Refused, cancelled, changed, lost repeatedly, or not the protocol: the upload cannot be
        // continued. Future kinds count among these.
        _ => Code::Failure,
    }
}

/// Returns the name of the kind in events. The names are part of the interface.
pub(super) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Usage => "usage",
        Kind::Source => "source",
        Kind::SourceChanged => "sourceChanged",
        Kind::Journal => "journal",
        Kind::Busy => "busy",
        Kind::Token => "token",
        Kind::Connection => "connection",
        Kind::Unavailable => "unavailable",
        Kind::Timeout => "timeout",
        Kind::Refused => "refused",
        Kind::Cancelled => "cancelled",
        Kind::SessionLost => "sessionLost",
        Kind::Protocol => "protocol",
        Kind::Mismatch => "mismatch",
        Kind::Target => "target",
        _ => "other",
    }
}

/// Hint for a client that does not trust the server's certificate.
const AUTHORITIES: &str =
    "SSL_CERT_FILE names a file with the authorities that servers' certificates must come from";

// Hint for a server that does not trust the client's certificate.
const CLIENT_CERTIFICATE: &str = "--client-cert names the client's own certificate; the server's operator knows which authorities \
     it trusts";

/// Hint for a record that cannot be written.
const JOURNAL_DISK_FULL: &str =
    "make room on the disk of the journal, or choose another directory with --journal";

/// Returns a hint for the user.
pub(super) fn hint(error: &Error, context: HintContext) -> Option<String> {
    if error.is_not_tls() {
        return Some("use an http:// URL, or the port at which the server speaks TLS".to_owned());
    }
    if error.is_not_http() {
        return Some("use an https:// URL, or the port at which the server speaks HTTP".to_owned());
    }
    if error.is_token_withheld() {
        return Some(
            "use an https:// URL; with --allow-plain-http everybody on the way can read the token"
                .to_owned(),
        );
    }
    if let Some(origin) = error.refused_origin() {
        return Some(format!(
            "if you trust that server with the media: --session-origin {origin}"
        ));
    }
    if error.is_unknown_host() {
        return Some("check the host in the URL".to_owned());
    }
    if error.is_untrusted() {
        return Some(AUTHORITIES.to_owned());
    }
    if error.kind() == Kind::Connection && !error.is_retryable() {
        return Some(CLIENT_CERTIFICATE.to_owned());
    }
    let status = error.status().map(|status| status.as_u16());
    let failed = Failure {
        kind: error.kind(),
        is_own_disk_full: is_disk_full(error),
        status,
        reason: error.reason(),
        has_no_space: has_no_space(status, error.server_message()),
    };
    failed.hint(context)
}

/// The parts of an error that a hint depends on.
#[derive(Debug, Clone, Copy)]
struct Failure<'a> {
    kind: Kind,
    status: Option<u16>,
    reason: Option<&'a str>,
    /// Whether the server says that its disk is full.
    has_no_space: bool,
    /// Whether a disk of this machine is full.
    is_own_disk_full: bool,
}

/// Returns whether an error means a full disk of this machine, or an exhausted quota.
fn is_disk_full(error: &(dyn StdError + 'static)) -> bool {
    let kind = error.downcast_ref().map(io::Error::kind);
    let is_full = kind.is_some_and(|kind| {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(kind, QuotaExceeded | StorageFull)
    });
    is_full || error.source().is_some_and(is_disk_full)
}

/// Whether a server's message reports a full disk. The reason of such a reply is the same as for
/// any overload, so only the message can tell.
fn has_no_space(status: Option<u16>, message: Option<&str>) -> bool {
    let says_so = |message: &str| message.to_ascii_lowercase().contains("no space");
    status == Some(507) || message.is_some_and(says_so)
}

impl Failure<'_> {
    fn hint(self, context: HintContext) -> Option<String> {
        let hint = self.what_to_do(&context).map(Cow::into_owned);
        let resume_command = context
            .resume_command
            .filter(|_| self.can_be_carried_on())
            .map(|command| format!("`{command}` carries on"));
        match (hint, resume_command) {
            (Some(hint), Some(resume_command)) => Some(format!("{hint}; {resume_command}")),
            (hint, resume_command) => hint.or(resume_command),
        }
    }

    /// Whether the upload can be continued. It can only be continued with unchanged media.
    fn can_be_carried_on(self) -> bool {
        self.kind != Kind::SourceChanged
    }

    fn what_to_do(self, context: &HintContext) -> Option<Cow<'static, str>> {
        let rerun = context.rerun;
        let hint = match self.kind {
            Kind::Refused | Kind::Protocol => refused(self.status?, self.reason, context)?,
            Kind::SourceChanged => "`windlass upload` with --restart uploads the file as it is now",
            Kind::Source if context.is_directory => "--recursive uploads the files in a directory",
            Kind::Source => "the file must exist, and this user must be allowed to read it",
            Kind::Target if self.is_own_disk_full => {
                "make room on the disk of the file; \
                 the same command, run again, goes on with what is there"
            }
            Kind::Journal if self.is_own_disk_full => JOURNAL_DISK_FULL,
            Kind::Busy => "wait for the other windlass process, or stop it",
            Kind::Token => {
                "--token says where a token comes from: env:NAME, file:PATH, cmd:COMMAND, google or literal:TOKEN"
            }
            Kind::Cancelled => {
                return Some(format!("the same command, run {rerun}, starts a new upload").into());
            }
            Kind::Target => {
                "-o FILE writes to another file; --overwrite replaces a file that exists"
            }
            Kind::SessionLost => {
                "the server repeatedly loses the session: its sessions may expire too early"
            }
            Kind::Mismatch if context.task == Task::Download => {
                "the received media was discarded; the same command, run again, downloads it again"
            }
            Kind::Mismatch => "do not trust the resource: delete it, and upload again",
            Kind::Unavailable if self.has_no_space && context.resume_command.is_none() => {
                let operator = "the server's operator has to make room on its disk";
                return Some(format!("{operator}; then run the command {rerun}").into());
            }
            Kind::Unavailable if self.has_no_space => {
                "the server's operator has to make room on its disk"
            }
            Kind::Connection | Kind::Unavailable | Kind::Timeout if context.task == Task::Ask => {
                "is the server running, and its address right?"
            }
            Kind::Connection | Kind::Unavailable | Kind::Timeout
                if context.resume_command.is_none() =>
            {
                let question = "is the server running, and its address right?";
                let raise = "or raise --retries or --timeout";
                return Some(format!("{question} Run the command {rerun}, {raise}").into());
            }
            _ => return None,
        };
        Some(hint.into())
    }
}

/// Returns the most likely reason of a refusal.
fn refused(status: u16, reason: Option<&str>, context: &HintContext) -> Option<&'static str> {
    let not_upload = context.task
        == Task::Upload {
            to_upload_url: false,
        };
    let hint = match (status, reason) {
        // The reply belongs to an ordinary call, or the server redirects: no session was started.
        (200..=299, _) if not_upload => {
            "media goes to .../upload/...; this URL has no `upload` in its path"
        }
        (200..=299, _) if context.task.is_upload() && context.resume_command.is_none() => {
            "the server did not handle this as an upload: check the path of the URL"
        }
        (300..=399, _) if context.task.is_upload() && context.resume_command.is_none() => {
            "the server redirects: use the URL it redirects to"
        }
        (401, _) if context.has_token => {
            "the server rejects the token: it may have expired or belong to another account"
        }
        (401, _) => {
            "the server requires a token: --token env:NAME, file:PATH, cmd:COMMAND, google or literal:TOKEN"
        }
        (403, _) => "the token, or the lack of one, does not allow this",
        (400, Some("notUpload" | "wrongUrlForUpload")) => {
            "media goes to the URL of an upload method: .../upload/..."
        }
        (400 | 404 | 405, _) if not_upload => {
            "media goes to .../upload/...; this URL has no `upload` in its path"
        }
        (404, _) if context.task.is_upload() => {
            "check the path of the URL: a Windlass server lists its upload URLs at /; a resource that is replaced or changed must exist"
        }
        (404, _) => "check the path of the URL: a Windlass server lists its APIs at /",
        (405 | 501, _) if context.task == Task::Ask => {
            "the server cannot cancel; `windlass cancel ID --forget` removes the record all the same"
        }
        (405, _) => "the method expects another HTTP method: try --method POST, PUT or PATCH",
        (400, Some("parseError")) => "the method does not accept the metadata",
        (400 | 415, _) if context.task.is_upload() => {
            "the method accepts only certain media types and metadata fields; \
             check --content-type and --metadata"
        }
        (409, _) => "a resource of the same name exists already",
        (413, _) => "the media exceeds the size limit of the method",
        _ => return None,
    };
    Some(hint)
}

/// Returns a hint about an error of the journal.
pub(super) fn journal_hint(error: &JournalError) -> Option<&'static str> {
    match error {
        error if is_disk_full(error) => Some(JOURNAL_DISK_FULL),
        JournalError::WritableByOthers { .. } => Some(
            "remove the write permission of other users (chmod go-w), or choose another directory with --journal",
        ),
        JournalError::OwnedByAnother { .. } => Some("choose another directory with --journal"),
        JournalError::Damaged {
            damage: Damage::Version { .. },
            ..
        } => None,
        JournalError::InUse { .. } => Some("wait for the other windlass process, or stop it"),
        JournalError::NotFound { .. } => Some("`windlass uploads` lists the unfinished uploads"),
        JournalError::Damaged { .. } => {
            Some("`windlass cancel ID --forget` removes a damaged record")
        }
        JournalError::DamagedFinished { .. } => Some(
            "`windlass uploads --forget-finished` forgets which files are uploaded, and --no-journal does not ask",
        ),
        JournalError::RecordTooLong { .. } => {
            Some("shorten the metadata, or upload with --no-journal")
        }
        JournalError::Directory { .. } | JournalError::Write { .. } => Some(
            "choose another directory with --journal, or upload without a journal with --no-journal",
        ),
        _ => None,
    }
}

/// Builds the command that continues an upload. It repeats the flags of the current command that
/// the continued upload needs. Environment variables need no flag.
#[derive(Debug, Clone)]
pub(super) struct ResumeCommand {
    flags: String,
}

impl ResumeCommand {
    /// For the flags of this command.
    pub(super) fn new(
        journal: &JournalArgs,
        transfer: &TransferArgs,
        connection: &ConnectionArgs,
        session: &SessionArgs,
    ) -> Self {
        let credentials = &connection.credentials;
        let path = |path: &Option<PathBuf>| path.as_deref().map(quoted);
        let flags = [
            ("--journal", path(&journal.journal)),
            ("--token", credentials.token.as_deref().map(token_source)),
            ("--client-cert", path(&credentials.client_cert)),
            ("--client-key", path(&credentials.client_key)),
            ("--max-rate", transfer.max_rate.map(|rate| rate.to_string())),
        ];
        let flags = flags.into_iter();
        let flags = flags.filter_map(|(flag, value)| Some(format!(" {flag} {}", value?)));
        let plain = credentials
            .allow_plain_http
            .then_some(" --allow-plain-http");
        let origins = session.session_origin.iter().map(|url| {
            let origin = url.origin().ascii_serialization();
            format!(" --session-origin {}", quoted(Path::new(&origin)))
        });
        Self {
            flags: flags
                .chain(plain.map(str::to_owned))
                .chain(origins)
                .collect(),
        }
    }

    /// Returns the command.
    pub(super) fn command(&self, id: &RecordId) -> String {
        format!("windlass resume {id}{}", self.flags)
    }
}

/// Returns the source of a token. A command may contain secrets, so it is not repeated.
fn token_source(source: &str) -> String {
    let names_a_place = ["env:", "file:", "google"];
    if names_a_place.iter().any(|place| source.starts_with(place)) {
        quoted(Path::new(source))
    } else {
        "cmd:COMMAND".to_owned()
    }
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,".contains(c);
    if !path.is_empty() && path.chars().all(is_plain) {
        return path;
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use windlass_client::DownloadError;

    use super::*;
    use crate::args::{Args, Command};

    fn context(to_upload_url: bool) -> HintContext {
        HintContext {
            task: Task::Upload { to_upload_url },
            ..HintContext::default()
        }
    }

    #[test]
    fn refusal_hint_depends_on_status_and_reason() {
        let cases = [
            (400, None, false, "no `upload` in its path"),
            (404, Some("notFound"), false, "no `upload` in its path"),
            (404, Some("notFound"), true, "check the path"),
            (400, Some("notUpload"), true, ".../upload/..."),
            (400, Some("badRequest"), true, "--content-type"),
            (401, Some("required"), true, "--token"),
            (413, Some("uploadTooLarge"), true, "size limit"),
            (200, None, false, ".../upload/..."),
            (201, None, true, "check the path"),
            (301, None, false, "redirects"),
            (307, None, true, "redirects"),
        ];
        for (status, reason, to_upload_url, expected) in cases {
            let hint = refused(status, reason, &context(to_upload_url));
            let found = hint.is_some_and(|hint| hint.contains(expected));
            assert!(found, "{status} {reason:?}: {hint:?}");
        }
        assert_eq!(refused(418, None, &context(true)), None);
        assert_eq!(refused(302, None, &HintContext::default()), None);
    }

    #[track_caller]
    fn hint(kind: Kind, task: Task) -> String {
        let failure = Failure {
            kind,
            status: None,
            reason: None,
            has_no_space: false,
            is_own_disk_full: false,
        };
        let context = HintContext {
            task,
            has_token: false,
            resume_command: Some("windlass resume x".to_owned()),
            ..HintContext::default()
        };
        failure.hint(context).expect("there is something to do")
    }

    #[test]
    fn changed_file_cannot_be_continued() {
        let upload = context(true).task;
        let hint_of_change = hint(Kind::SourceChanged, upload);
        assert!(hint_of_change.contains("--restart"), "{hint_of_change}");
        assert!(!hint_of_change.contains("resume"), "{hint_of_change}");
        assert_eq!(
            hint(Kind::Connection, upload),
            "`windlass resume x` carries on"
        );
    }

    #[test]
    fn full_disk_has_a_hint_of_its_own() {
        for (message, expected) in [
            (
                "the server's disk has no space for this request",
                "make room",
            ),
            ("try again later", "is the server running"),
        ] {
            let failure = Failure {
                kind: Kind::Unavailable,
                status: Some(503),
                reason: Some("backendError"),
                has_no_space: has_no_space(None, Some(message)),
                is_own_disk_full: false,
            };
            let hint = failure
                .hint(context(true))
                .expect("there is something to do");
            assert!(hint.contains(expected), "{hint}");
        }
    }

    #[test]
    fn server_says_by_status_or_message_that_its_disk_is_full() {
        for (status, message, expected) in [
            (Some(507), None, true),
            (Some(507), Some("busy"), true),
            (Some(503), Some("No space left on the disk"), true),
            (Some(503), Some("busy"), false),
            (None, None, false),
        ] {
            let found = has_no_space(status, message);
            assert_eq!(found, expected, "{status:?} {message:?}");
        }
    }

    #[test]
    fn full_disk_of_the_client_has_a_hint_in_each_place() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            let path = || PathBuf::from("film.mp4");
            let of_journal = || JournalError::Write {
                path: path(),
                source: kind.into(),
            };
            let of_target = DownloadError::File {
                path: path(),
                source: kind.into(),
            };
            let hint = |error: Error, task| {
                let context = HintContext {
                    task,
                    ..HintContext::default()
                };
                super::hint(&error, context).expect("there is something to do")
            };
            let download = hint(of_target.into(), Task::Download);
            assert!(download.starts_with("make room on the disk"), "{download}");
            assert!(
                download.ends_with("goes on with what is there"),
                "{download}"
            );
            let upload = hint(of_journal().into(), context(true).task);
            assert_eq!(upload, JOURNAL_DISK_FULL);
            assert_eq!(journal_hint(&of_journal()), Some(JOURNAL_DISK_FULL));
        }
    }

    #[test]
    fn a_resource_is_deleted_when_an_upload_went_wrong_and_not_when_a_download_did() {
        let upload = hint(Kind::Mismatch, context(true).task);
        assert!(upload.contains("delete"), "{upload}");
        let download = hint(Kind::Mismatch, Task::Download);
        assert!(!download.contains("delete"), "{download}");
        assert!(!download.contains("upload"), "{download}");
    }

    #[test]
    fn retryable_errors_have_exit_code_unfinished() {
        let cases = [
            (Kind::Connection, Code::Unfinished),
            (Kind::Timeout, Code::Unfinished),
            (Kind::Refused, Code::Failure),
            (Kind::SourceChanged, Code::Failure),
            (Kind::Protocol, Code::Failure),
            (Kind::SessionLost, Code::Failure),
            (Kind::Busy, Code::CannotBegin),
            (Kind::Source, Code::CannotBegin),
            (Kind::Usage, Code::Usage),
            (Kind::Mismatch, Code::Mismatch),
        ];
        for (kind, code) in cases {
            assert_eq!(code_of(kind), code, "{kind:?}");
        }
    }

    #[test]
    fn the_command_can_be_copied_into_a_shell_and_has_the_flags_it_needs() {
        let cases = [
            (&[][..], ""),
            (&["--journal", "./j"], " --journal ./j"),
            (&["--journal", "my j'l"], r" --journal 'my j'\''l'"),
            (&["--max-rate", "2MB/s"], " --max-rate 2M"),
            (&["--max-rate", "1000B"], " --max-rate 1000B"),
            (&["--token", "env:FARM"], " --token env:FARM"),
            (&["--token", "cmd:echo secret"], " --token cmd:COMMAND"),
            (&["--allow-plain-http"], " --allow-plain-http"),
            (
                &["--session-origin", "https://m.example:8443/x?y"],
                " --session-origin https://m.example:8443",
            ),
            (
                &["--client-cert", "a.pem", "--client-key", "a.key"],
                " --client-cert a.pem --client-key a.key",
            ),
        ];
        for (flags, expected) in cases {
            let words = ["windlass", "upload", "a", "http://a/upload/b"];
            let args = Args::try_parse_from([&words[..], flags].concat());
            let Command::Upload(args) = args.expect("they are right").command else {
                panic!("it is an upload");
            };
            let command = ResumeCommand::new(
                &args.journal,
                &args.transfer,
                &args.connection,
                &args.session,
            );
            let id = "mzxw6ytb".parse().expect("an id");
            let expected = format!("windlass resume mzxw6ytb{expected}");
            assert_eq!(command.command(&id), expected);
        }
    }
}
