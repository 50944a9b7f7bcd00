//! `windlass download`.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use tokio::time::timeout;
use url::Url;
use windlass_client::{Client, Download, DownloadProgress, Downloaded, Kind, RateLimit};

use super::hints::{self, HintContext, Task};
use super::{Error, Signals, journal};
use crate::args::DownloadArgs;
use crate::display::{
    self, Activity, Direction, Display, Event, Failed, ProgressHandle, View, Waiting,
};
use crate::exit::Code;
use crate::output;

/// Downloads media to a file.
pub(super) async fn run(args: DownloadArgs) -> Result<Code, Error> {
    let mut signals = Signals::catch().map_err(Error::Signals)?;
    let display = Display::new(args.verbosity);
    super::print_warnings_on(&display);
    let target = target(&args)?;
    let (client, has_token) = super::client(&args.connection.credentials)?;
    let url = if args.exact_url {
        args.url.clone()
    } else {
        with_media(&args.url)
    };
    let mut download = Download::new(url.clone(), &target)
        .overwrite(args.overwrite)
        .schedule(super::retry_policy(&args.connection).schedule);
    if let Some(rate) = args.max_rate {
        download = download.rate_limit(RateLimit::new(rate.0));
    }
    let running = RunningDownload {
        handle: display.add_progress(journal::place(url.as_str()), None),
        target,
        has_token,
    };
    let work = running.download(&client, &download);
    let ended = tokio::select! {
        biased;
        () = signals.next() => Ended::Interrupted,
        ended = async {
            match args.connection.timeout {
                None => ended(work.await),
                Some(limit) => timeout(limit, work).await.map_or(Ended::TimeOver, ended),
            }
        } => ended,
    };
    Ok(running.end(ended))
}

/// The outcome of a download.
enum Ended {
    Done(Downloaded),
    Failed(windlass_client::Error),
    TimeOver,
    Interrupted,
}

fn ended(result: Result<Downloaded, windlass_client::Error>) -> Ended {
    result.map_or_else(Ended::Failed, Ended::Done)
}

/// A download and its display.
struct RunningDownload {
    handle: ProgressHandle,
    target: PathBuf,
    has_token: bool,
}

impl RunningDownload {
    async fn download(
        &self,
        client: &Client,
        download: &Download,
    ) -> Result<Downloaded, windlass_client::Error> {
        let meter = Mutex::new(RateMeter::default());
        let progress = |progress: DownloadProgress| {
            let mut meter = meter
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            self.handle.show(&meter.view(progress, Instant::now()));
        };
        client.download(download, progress).await
    }

    fn end(&self, ended: Ended) -> Code {
        match ended {
            Ended::Done(downloaded) => {
                self.done(downloaded);
                Code::Success
            }
            Ended::Failed(error) => self.failed(&error),
            Ended::TimeOver => self.broken_off("timeout", "not done in time"),
            Ended::Interrupted => {
                self.handle.display().leave();
                self.broken_off("interrupted", "stopped")
            }
        }
    }

    fn done(&self, downloaded: Downloaded) {
        let file = self.target.display().to_string();
        let all = [
            ("crc32c", downloaded.verified),
            ("md5", downloaded.md5_verified),
        ];
        let equal = all.into_iter().filter(|(_, equal)| *equal);
        let verified: Vec<_> = equal.map(|(name, _)| name).collect();
        self.handle.event(&Event::Downloaded(display::Downloaded {
            source: self.handle.source(),
            file: &file,
            size: downloaded.size,
            verified: &verified,
        }));
        let checked = display::checked_by(&verified);
        let size = output::size(downloaded.size);
        self.handle
            .display()
            .note(&format!("{file}: {size} downloaded, {checked}"));
    }

    fn failed(&self, error: &windlass_client::Error) -> Code {
        let code = hints::exit_code(error);
        let message = output::with_causes(error);
        let context = HintContext {
            task: Task::Download,
            has_token: self.has_token,
            ..HintContext::default()
        };
        let hint = hints::hint(error, context);
        let of_target = (error.kind() == Kind::Target).then(|| target_problem(&self.target));
        let (message, hint) = match of_target.flatten() {
            Some((message, hint)) => (message, Some(hint)),
            None => (message, hint),
        };
        // An error about the file is reported without the name of the URL.
        let name = match error.kind() {
            Kind::Target | Kind::Busy => None,
            _ => Some(self.handle.label()),
        };
        self.handle.fail_as(
            name,
            &Failed {
                source: self.handle.source(),
                message: &message,
                kind: hints::kind_name(error.kind()),
                status: error.status().map(|status| status.as_u16()),
                reason: error.reason(),
                upload: None,
                hint: hint.as_deref(),
                exit_code: code,
            },
        );
        code
    }

    fn broken_off(&self, kind: &'static str, what: &str) -> Code {
        let received = self
            .handle
            .last()
            .map(|view| display::bytes_of(view.committed, view.total));
        let message = match received {
            Some(received) => format!("{what}; {received} received"),
            None => what.to_owned(),
        };
        let hint = "the same command, run again, goes on with what is there";
        self.handle.fail(&Failed {
            source: self.handle.source(),
            message: &message,
            kind,
            status: None,
            reason: None,
            upload: None,
            hint: Some(hint),
            exit_code: Code::Unfinished,
        });
        Code::Unfinished
    }
}

/// Returns the problem with a target's path and a hint, if the target cannot be written.
fn target_problem(target: &Path) -> Option<(String, String)> {
    if target.is_dir() {
        let name = target.display();
        let hint = format!("-o {name}/FILE writes into it");
        return Some((format!("{name} is a directory"), hint));
    }
    let parent = target.parent().filter(|parent| *parent != Path::new(""))?;
    (!parent.is_dir()).then(|| {
        (
            format!("there is no directory {}", parent.display()),
            "create it, or choose another file with -o".to_owned(),
        )
    })
}

/// Computes the average rate. Bytes that an earlier run has received do not count.
#[derive(Debug, Default)]
struct RateMeter {
    begin: Option<(Instant, u64)>,
}

impl RateMeter {
    fn view(&mut self, progress: DownloadProgress, now: Instant) -> View {
        let (since, had) = *self.begin.get_or_insert((now, progress.received));
        let millis = now.duration_since(since).as_millis();
        let came = u128::from(progress.received.saturating_sub(had));
        let rate = (came * 1000).checked_div(millis).unwrap_or(0);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let left = progress
            .total
            .map(|total| total.saturating_sub(progress.received));
        let left = left.and_then(|left| left.checked_div(rate));
        View {
            direction: Direction::Down,
            committed: progress.received,
            sent: progress.received,
            total: progress.total,
            rate,
            left: left.map(std::time::Duration::from_secs),
            activity: match progress.waiting {
                None => Activity::Receiving,
                Some(delay) => Activity::Waiting(Waiting {
                    delay,
                    tries: None,
                    cause: progress.cause.unwrap_or_default(),
                }),
            },
            upload: None,
        }
    }
}

/// Returns the file to write.
fn target(args: &DownloadArgs) -> Result<PathBuf, Error> {
    match &args.output {
        Some(output) if output.as_os_str() == "-" => Err(Error::ToStdout),
        Some(output) => Ok(output.clone()),
        None => file_name(&args.url).map(PathBuf::from).ok_or(Error::NoName),
    }
}

/// Returns the last segment of the URL's path as a plain file name, so that a server cannot choose
/// the directory.
fn file_name(url: &Url) -> Option<String> {
    let segment = url.path_segments()?.next_back()?;
    let name = percent_encoding::percent_decode_str(segment).decode_utf8_lossy();
    let is_odd = |c: char| output::steers(c) || matches!(c, '/' | '\\' | ':');
    let name: String = name
        .chars()
        .map(|c| if is_odd(c) { '_' } else { c })
        .collect();
    let name = name.trim_start_matches('.').trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Adds `alt=media` to the URL, unless the URL has an `alt`.
pub(super) fn with_media(url: &Url) -> Url {
    let mut url = url.clone();
    if !url.query_pairs().any(|(name, _)| name == "alt") {
        url.query_pairs_mut().append_pair("alt", "media");
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().expect("a URL")
    }

    #[test]
    fn a_file_is_called_as_the_url_ends_and_stays_in_this_directory() {
        let cases = [
            ("http://x/farm/v1/animals/17", Some("17")),
            ("http://x/a/cow.jpg?alt=media", Some("cow.jpg")),
            ("http://x/a/my%20cow.jpg", Some("my cow.jpg")),
            ("http://x/a/..%2F..%2Fetc%2Fpasswd", Some("_.._etc_passwd")),
            ("http://x/a/.bashrc", Some("bashrc")),
            ("http://x/a/%00%1b", Some("__")),
            ("http://x/a/cow%E2%80%AEgpj.exe", Some("cow_gpj.exe")),
            ("http://x/a/..", None),
            ("http://x/a/%2e%2e", None),
            ("http://x/a/%2Fetc%2Fpasswd", Some("_etc_passwd")),
            ("http://x/a/..%5C..%5Cevil", Some("_.._evil")),
            ("http://x/", None),
            ("http://x/a/", None),
            ("http://x/a/...", None),
        ];
        for (text, name) in cases {
            assert_eq!(file_name(&url(text)).as_deref(), name, "{text}");
        }
    }

    #[test]
    fn media_is_asked_for_unless_the_url_says_what_it_wants() {
        let cases = [
            ("http://x/a", "http://x/a?alt=media"),
            ("http://x/a?key=1", "http://x/a?key=1&alt=media"),
            ("http://x/a?alt=json", "http://x/a?alt=json"),
        ];
        for (given, asked) in cases {
            assert_eq!(with_media(&url(given)).as_str(), asked);
        }
    }
}
