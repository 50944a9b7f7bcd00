//! `windlass-perf withstand`: measures the effect of attacks on honest clients. It also measures
//! the throughput of uploads when the server is offered twice as many as it can take.
//!
//! Server and honest client run on one core, the attackers on another. Times are printed and not
//! judged. The exit code is not 0 if an honest upload was not acknowledged, a refusal had no
//! `Retry-After`, or the server held more memory than its limits allow.

mod attack;
mod client;
mod cores;
mod honest;
mod overload;
mod target;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};

use crate::data_dirs::DataDirs;
use crate::machine::Machine;
use crate::output::{progress, result};
use crate::report::table::lined_up;
use crate::units::{GIB, figure, mib};

use attack::{Attack, Attackers, Origin};
use cores::Cores;
use honest::{Connecting, Uploads, quantile};
use overload::Overload;
use target::{Settings, Target, counted};

/// The default of `limits.head_timeout`.
const HEAD_TIMEOUT: Duration = Duration::from_secs(120);

/// The value of `limits.head_timeout` in a quick run.
const QUICK_HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The same as a setting.
const QUICK: &Settings = &[("WINDLASS_LIMITS_HEAD_TIMEOUT", "10s")];

/// The settings under which a server is overloaded, with their names.
const OVERLOADS: [(&str, &Settings); 2] = [
    ("defaults", &[]),
    (
        "limits.requests = 256",
        &[("WINDLASS_LIMITS_REQUESTS", "256")],
    ),
];

/// The share of the peak that should be left at twice the load, in percent.
const GOAL: f64 = 80.0;

/// Number of files and sockets that this process has to be able to open.
const DESCRIPTORS: u64 = 12_500;

/// Show the effect of attacks and of overload on other clients.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Path of the binary `windlass` [default: next to this program].
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Directory for the data of servers.
    #[arg(long, value_name = "DIRECTORY", default_value_os_t = std::env::temp_dir())]
    data: PathBuf,
    /// Only these attacks, and no overload.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    attacks: Vec<Attack>,
    /// Only the overload.
    #[arg(long, conflicts_with = "attacks")]
    overload: bool,
    /// Set `limits.head_timeout` to 10 s, and shorten everything that no limit of the server
    /// bounds; otherwise the server has its defaults.
    #[arg(long)]
    quick: bool,
}

/// Attacks and overloads the server.
///
/// # Errors
/// When something did not hold, after everything was printed.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let own = std::env::current_exe()?;
    let next_to_it = || own.with_file_name("windlass");
    let binary = arguments.binary.clone().unwrap_or_else(next_to_it);
    ensure!(binary.is_file(), "{} is not there", binary.display());
    raise_descriptor_limit()?;
    let cores = Cores::find()?;
    let data_dirs = DataDirs::new(&arguments.data, 16 * GIB)?;
    result(Machine::look(data_dirs.path())?);
    if cores.are_shared() {
        progress("there is one core: attackers take the server's time");
    }
    if cfg!(debug_assertions) {
        progress("not an optimised build: the figures mean nothing");
    }
    cores.stay_with_server()?;
    let mut bench = Bench {
        binary: &binary,
        data_dirs,
        cores,
        quick: arguments.quick,
        broken: Vec::new(),
    };
    if !arguments.overload {
        bench.attack_all(&arguments.attacks)?;
    }
    if arguments.attacks.is_empty() {
        bench.overload_all()?;
    }
    let broken = bench.broken;
    ensure!(broken.is_empty(), "\n{}", broken.join("\n"));
    Ok(())
}

/// Raises the limit on open files as far as this process and the server need it.
fn raise_descriptor_limit() -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    )?;
    let is_enough = limit.maximum.is_none_or(|most| most >= DESCRIPTORS);
    ensure!(is_enough, "`ulimit -Hn` has to be {DESCRIPTORS} at least");
    Ok(())
}

/// The data that all attacks share.
struct Bench<'a> {
    binary: &'a Path,
    data_dirs: DataDirs,
    cores: Cores,
    quick: bool,
    /// The conditions that did not hold.
    broken: Vec<String>,
}

/// The result of an attack.
struct AttackReport {
    attackers: Attackers,
    quiet: [Uploads; 2],
    attacked: [Uploads; 2],
    peak: u64,
    memory_limit: u64,
    open_files: [usize; 2],
    counted: String,
}

impl Bench<'_> {
    fn attack_all(&mut self, only: &[Attack]) -> anyhow::Result<()> {
        let all = [
            Attack::Heads,
            Attack::Bodies,
            Attack::Resets,
            Attack::PacedResets,
            Attack::Continuations,
        ];
        let settings = if self.quick { QUICK } else { &[] };
        let mut clients = vec![AttackReport::client_titles()];
        let mut servers = vec![AttackReport::server_titles()];
        for attack in all {
            if !only.is_empty() && !only.contains(&attack) {
                continue;
            }
            for origin in Origin::ALL {
                let name = format!("{}, {}", attack.name(), origin.name());
                progress(&name);
                let report = self.attack(attack, origin, settings)?;
                self.judge(&name, &report);
                clients.extend(report.client_rows(&name));
                servers.push(report.server_row(&name));
            }
        }
        result(format_args!(
            "\nHonest uploads\n\n{}\nThe server\n\n{}",
            lined_up(&clients),
            lined_up(&servers)
        ));
        Ok(())
    }

    fn attack(
        &mut self,
        attack: Attack,
        origin: Origin,
        settings: &Settings,
    ) -> anyhow::Result<AttackReport> {
        let target = Target::start(self.binary, &mut self.data_dirs, settings)?;
        let address = target.address();
        let (calm, flood, head_timeout) = if self.quick {
            (3, 5, QUICK_HEAD_TIMEOUT)
        } else {
            (8, 12, HEAD_TIMEOUT)
        };
        let length = attack.length(head_timeout, Duration::from_secs(flood));
        // The first uploads of a server are slower.
        upload_for(address, Duration::from_secs(1))?;
        let quiet = upload_for(address, Duration::from_secs(calm))?;
        // The connections of the honest client are closed, and the server notices.
        thread::sleep(Duration::from_millis(500));
        let open_files = target.open_files()?;
        let before = target.counts();
        target.forget_peak();
        let goes_on = AtomicBool::new(true);
        let (attackers, attacked) = thread::scope(|scope| {
            let attackers = scope.spawn(|| {
                self.cores.stay_with_load()?;
                let runtime = runtime()?;
                let attackers = runtime.block_on(attack.carry_out(origin, address, length));
                goes_on.store(false, Ordering::Relaxed);
                anyhow::Ok(attackers)
            });
            let running = || goes_on.load(Ordering::Relaxed) && !attackers.is_finished();
            let attacked = runtime()?.block_on(honest::upload(address, running));
            let attackers = attackers.join().expect("attackers do not panic")?;
            anyhow::Ok((attackers, attacked))
        })?;
        Ok(AttackReport {
            attackers,
            quiet,
            attacked,
            peak: target.peak(),
            memory_limit: target.memory_limit(),
            open_files: [open_files, target.open_files_after(open_files)?],
            counted: counted(&before, &target.counts()),
        })
    }

    fn judge(&mut self, name: &str, report: &AttackReport) {
        for (connecting, uploads) in Connecting::ALL.iter().zip(&report.attacked) {
            if let Some(failure) = uploads.failures.first() {
                let count = uploads.failures.len();
                let connection = connecting.name();
                self.broken.push(format!(
                    "{name}: {count} honest uploads have failed ({connection} connection): {failure}"
                ));
            }
        }
        self.judge_memory(name, report.peak, report.memory_limit);
    }

    fn judge_memory(&mut self, name: &str, peak: u64, limit: u64) {
        if peak > limit {
            let [peak, limit] = [peak, limit].map(|bytes| figure(mib(bytes)));
            self.broken.push(format!(
                "{name}: {peak} MiB of memory, and {limit} are allowed"
            ));
        }
    }

    fn overload_all(&mut self) -> anyhow::Result<()> {
        let titles = [
            "",
            "peak before /s",
            "after /s",
            "offered /s",
            "not begun",
            "goodput /s",
            "of the peak before",
            "goal",
            "p50 ms",
            "p99 ms",
            "refused",
            "of these without Retry-After",
            "p50 ms of a refusal",
            "broken or late",
            "core of the load",
            "peak MiB",
            "allowed MiB",
        ];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        for (name, settings) in OVERLOADS {
            progress(format_args!("overload, {name}"));
            rows.push(self.overload(name, settings)?);
        }
        result(format_args!("\nOverload\n\n{}", lined_up(&rows)));
        Ok(())
    }

    fn overload(&mut self, name: &str, settings: &Settings) -> anyhow::Result<Vec<String>> {
        let target = Target::start(self.binary, &mut self.data_dirs, settings)?;
        let address = target.address();
        let length = Duration::from_secs(if self.quick { 6 } else { 15 });
        let measure = || {
            self.cores.stay_with_load()?;
            runtime()?.block_on(overload::measure(address, length))
        };
        let overload =
            thread::scope(|scope| scope.spawn(measure).join()).expect("the load does not panic")?;
        let (peak, limit) = (target.peak(), target.memory_limit());
        self.judge_memory(&format!("overload, {name}"), peak, limit);
        let Overload { outcomes, .. } = &overload;
        for (count, what) in [
            (outcomes.without_retry_after, "refusals without Retry-After"),
            (outcomes.unexpected, "replies with another status"),
        ] {
            if count > 0 {
                self.broken
                    .push(format!("overload, {name}: {count} {what}"));
            }
        }
        Ok(overload_row(name, &overload, peak, limit))
    }
}

fn overload_row(name: &str, overload: &Overload, peak: u64, limit: u64) -> Vec<String> {
    let outcomes = &overload.outcomes;
    let share = overload.goodput / overload.peak * 100.0;
    let acknowledged = |percent| milliseconds(quantile(&outcomes.acknowledged, percent));
    vec![
        name.to_owned(),
        figure(overload.peak),
        figure(overload.peak_after),
        figure(overload.offered),
        overload.unsent.to_string(),
        figure(overload.goodput),
        format!("{share:.0} %"),
        if share >= GOAL { "reached" } else { "missed" }.to_owned(),
        acknowledged(50),
        acknowledged(99),
        outcomes.refused.len().to_string(),
        outcomes.without_retry_after.to_string(),
        milliseconds(outcomes.refusal()),
        outcomes.broken.to_string(),
        format!("{:.0} %", overload.load_cpu * 100.0),
        figure(mib(peak)),
        figure(mib(limit)),
    ]
}

impl AttackReport {
    fn client_titles() -> Vec<String> {
        let titles = [
            "",
            "connection",
            "done",
            "failed",
            "p50 ms quiet",
            "attacked",
            "ratio",
            "p99 ms quiet",
            "attacked",
            "ratio",
            "max ms quiet",
            "attacked",
            "ratio",
        ];
        titles.map(str::to_owned).to_vec()
    }

    fn client_rows(&self, name: &str) -> impl Iterator<Item = Vec<String>> {
        let both = self.quiet.iter().zip(&self.attacked);
        Connecting::ALL
            .iter()
            .zip(both)
            .map(move |(connecting, (quiet, attacked))| {
                let mut row = vec![
                    name.to_owned(),
                    connecting.name().to_owned(),
                    attacked.laps.len().to_string(),
                    attacked.failures.len().to_string(),
                ];
                for percent in [50, 99, 100] {
                    let [quiet, attacked] = [quiet, attacked].map(|one| one.quantile(percent));
                    let ratio = quiet.zip(attacked).map(|(quiet, attacked)| {
                        figure(attacked.as_secs_f64() / quiet.as_secs_f64())
                    });
                    row.extend([
                        milliseconds(quiet),
                        milliseconds(attacked),
                        ratio.unwrap_or_default(),
                    ]);
                }
                row
            })
    }

    fn server_titles() -> Vec<String> {
        let titles = [
            "",
            "cut",
            "after s, median",
            "at most",
            "open at the end",
            "never connected",
            "MiB sent",
            "peak MiB",
            "allowed MiB",
            "descriptors before",
            "after",
            "counted",
        ];
        titles.map(str::to_owned).to_vec()
    }

    fn server_row(&self, name: &str) -> Vec<String> {
        let Attackers {
            cut,
            open,
            unconnected,
            sent,
        } = &self.attackers;
        let seconds = |percent| {
            let time = quantile(cut, percent);
            time.map_or_else(String::new, |time| figure(time.as_secs_f64()))
        };
        vec![
            name.to_owned(),
            cut.len().to_string(),
            seconds(50),
            seconds(100),
            open.to_string(),
            unconnected.to_string(),
            figure(mib(*sent)),
            figure(mib(self.peak)),
            figure(mib(self.memory_limit)),
            self.open_files[0].to_string(),
            self.open_files[1].to_string(),
            self.counted.clone(),
        ]
    }
}

fn milliseconds(time: Option<Duration>) -> String {
    time.map_or_else(String::new, |time| figure(time.as_secs_f64() * 1000.0))
}

/// Uploads as the honest client for some time.
fn upload_for(server: std::net::SocketAddr, length: Duration) -> anyhow::Result<[Uploads; 2]> {
    let start = Instant::now();
    let uploads = runtime()?.block_on(honest::upload(server, || start.elapsed() < length));
    let mut failures = uploads.iter().flat_map(|uploads| &uploads.failures);
    if let Some(failure) = failures.next() {
        anyhow::bail!("an upload to an idle server has failed: {failure}");
    }
    Ok(uploads)
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
