//! `windlass serve`: a server over a store on the local disk.

mod acme;
mod audit;
mod authentication;
mod backends;
mod certificate;
mod client_trust;
mod confinement;
mod regular_file;
mod reload;
mod warnings;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry as MetricsRegistry;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::server::{ResolvesServerCert, WebPkiClientVerifier};
use thiserror::Error as ThisError;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use windlass_acme::tls::server_config;
use windlass_acme::{Acme, AcmeMetrics};
use windlass_auth::DevTokenService;
use windlass_outbound::HttpOutbound;
use windlass_server::config::Limits;
use windlass_server::{
    BuildError, CredentialsForAll, Ended, Listener, METRICS_CONNECTIONS, MetricsService, Registry,
    Server, StoreMetrics, Stores, serve_metrics,
};
#[cfg(feature = "failpoints")]
use windlass_store_local::failpoint::{self, Failpoint, UnknownFailpoint};
use windlass_store_local::{Durability, LocalStore, OpenError};
use zeroize::Zeroizing;

use super::{Signals, ignore_file_size_signal, store};
use crate::args::ServeArgs;
use crate::exit::Code;
use crate::output;
use crate::settings::{
    self, ApiAccess, ApiError, Environment, Merged, Settings, SettingsByName, Sources,
};
#[cfg(feature = "failpoints")]
use crate::settings::{FAILPOINT_VARIABLE, client_variable};
use audit::AuditFile;
use authentication::Authentication;
use certificate::Certificate;
use client_trust::ClientTrust;
use confinement::{Confined, confine, forbid_core_dumps};
use reload::Reloadable;

pub(crate) use acme::AcmeError;
pub(crate) use audit::AuditFileError;
pub(crate) use authentication::AuthenticationError;
pub(super) use authentication::read_link_keys;
pub(crate) use backends::BackendSecretError;
pub(crate) use certificate::CertificateError;
pub(crate) use client_trust::ClientTrustError;

/// The time limit for closing the store.
const CLOSING: Duration = Duration::from_secs(2);

/// Serves until a signal stops it, or prints the configuration.
pub(crate) fn run(args: &ServeArgs) -> Result<(), Error> {
    let mut merged = merge(args)?;
    // Before the first secret is read.
    if !merged.settings.core_dumps {
        forbid_core_dumps();
    }
    #[cfg(feature = "gmail")]
    read_relay_password(&mut merged.settings)?;
    #[cfg(feature = "failpoints")]
    arm_failpoint()?;
    let Settings {
        apis,
        options,
        created_status,
        access,
        cors,
        ..
    } = &merged.settings;
    let outbound = Arc::new(HttpOutbound::default());
    let acme = acme::load(&merged.settings, &outbound)?;
    let backends = backends::load(&merged.settings, &outbound)?;
    let authentication = Authentication::load(&merged.settings, outbound)?.map(Arc::new);
    let by_name = SettingsByName {
        created_status,
        access: ApiAccess {
            configured: access,
            has_principals: authentication.is_some(),
        },
        cors,
        backends: backends.as_ref(),
    };
    let apis = settings::load(apis, options, &by_name)?;
    merged.settings.server.cors = cors.policy()?;
    let certificate = load_certificate(&merged.settings)?;
    let client_trust = ClientTrust::load(
        &merged.settings,
        certificates(certificate.as_ref(), acme.as_ref()).as_ref(),
    )?;
    warnings::of_idle_settings(&merged, &apis, authentication.as_ref());
    warnings::of_scopes(&apis, authentication.as_ref());
    warnings::of_shadowed_apis(&apis, &merged.settings.options.files_path);
    if args.check_config {
        output::data(merged.to_toml());
        return Ok(());
    }
    let domains = merged.settings.acme.hosts();
    merged.settings.server.hosts.extend(domains);
    fit_descriptors(&mut merged.settings, apis.service_connections());
    output::log_to_stderr(&merged.settings.log);
    let audit = merged.settings.audit_file.as_deref().map(AuditFile::open);
    let reloadable = Reloadable {
        certificate,
        client_trust: client_trust.map(Arc::new),
        authentication,
        audit: audit.transpose()?.map(Arc::new),
        orders_certificate: acme.is_some(),
    };
    LocalStore::create_directory(&merged.settings.data)?;
    let confined = confine(&merged.settings, &reloadable);
    // After `confine`, so that the threads of the runtime are confined as well.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    let mut metrics = MetricsRegistry::default();
    if let Some(backends) = &backends {
        backends.register(&mut metrics);
    }
    let settings = merged.settings;
    let served = serve(settings, apis, reloadable, acme, metrics, &confined);
    let result = runtime.block_on(served);
    // Remaining tasks wait for a disk or a client that may never answer.
    runtime.shutdown_background();
    result
}

/// Merges the settings of all sources.
fn merge(args: &ServeArgs) -> Result<Merged, Error> {
    let sources = Sources {
        config: args.config.clone(),
        flags: args.raw_values(),
        environment: Environment::new(std::env::vars_os())?,
    };
    warn_of_ignored(&sources.environment);
    Ok(sources.merge()?)
}

/// Copies the password of the relay into the options. Printed settings never contain it.
#[cfg(feature = "gmail")]
fn read_relay_password(settings: &mut Settings) -> Result<(), Error> {
    let relay = settings.options.gmail.relay.as_mut();
    let credentials = relay.and_then(|relay| relay.credentials.as_mut());
    if let (Some(path), Some(credentials)) = (&settings.relay_password, credentials) {
        credentials.password = read_secret("gmail.relay_password_file", path)?.to_string();
    }
    Ok(())
}

/// Reads the secret in a file, without the end of its line.
fn read_secret(key: &'static str, path: &Path) -> Result<Zeroizing<String>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Secret {
        key,
        path: path.to_owned(),
        source,
    })?;
    let text = Zeroizing::new(text);
    Ok(Zeroizing::new(
        text.trim_end_matches(['\r', '\n']).to_owned(),
    ))
}

fn warn_of_ignored(environment: &Environment) {
    for ignored in environment.ignored() {
        let hint = ignored
            .nearest
            .map(|nearest| format!("did you mean {nearest}?"));
        let variable = ignored.variable;
        output::warning(
            format_args!("{variable} is not a setting; it is ignored"),
            hint.as_deref(),
        );
    }
}

/// Lowers the limits to the number of file descriptors that are available.
///
/// `services` is how many connections to the services of descriptions there may be.
fn fit_descriptors(settings: &mut Settings, services: usize) {
    let limits = &mut settings.server.limits;
    let available = raise_descriptor_limit().saturating_sub(services as u64);
    if !fit_limits(limits, available) {
        return;
    }
    let Limits {
        connections,
        uploads,
        downloads,
        ..
    } = limits;
    output::warning(
        format_args!(
            "{available} open files are not enough for limits.connections, limits.uploads and limits.downloads; \
             they are {connections}, {uploads} and {downloads}"
        ),
        Some("raise the hard limit on open files: `ulimit -Hn`, or LimitNOFILE= of systemd"),
    );
}

fn load_certificate(settings: &Settings) -> Result<Option<Arc<Certificate>>, CertificateError> {
    let files = settings.tls_cert.as_ref().zip(settings.tls_key.as_ref());
    let certificate = files.map(|(chain, key)| Certificate::load(chain, key));
    Ok(certificate.transpose()?.map(Arc::new))
}

async fn serve(
    settings: Settings,
    apis: Registry,
    reloadable: Reloadable,
    acme: Option<Acme>,
    mut metrics: MetricsRegistry,
    confined: &Confined,
) -> Result<(), Error> {
    let signals = Signals::catch().map_err(Error::Signals)?;
    ignore_file_size_signal().map_err(Error::Signals)?;
    let (listener, address) = listen(settings.listen, "--listen").await?;
    let own_listener = match settings.metrics_listen {
        Some(address) => Some(listen(address, "metrics.listen").await?),
        None => None,
    };
    let store_metrics = StoreMetrics::default();
    store_metrics.register(&mut metrics);
    let acme_metrics = AcmeMetrics::default();
    acme_metrics.register(&mut metrics);
    let store_options = settings.store.clone().recorder(Arc::new(store_metrics));
    // Opening blocks this thread, but no other task runs yet.
    let store = LocalStore::open(&settings.data, store_options)?;
    warn_of_dangers(&settings);
    warn_of_unanswered(&apis);
    let names = apis.to_string();
    let authorize = reloadable.authorize();
    let dev_tokens = reloadable.dev_tokens();
    let stores = Stores {
        ledger: Arc::new(store.ledger),
        vault: Arc::new(store.vault),
    };
    let limits = settings.server.limits.clone();
    let mut builder = Server::builder(apis, stores)
        .settings(settings.server)
        .authorize(authorize)
        .metrics(&mut metrics);
    if let Some(audit) = &reloadable.audit {
        builder = builder.audit(Arc::clone(audit) as Arc<_>);
    }
    let server = builder.build()?;
    let metrics = Arc::new(metrics);
    let listener = secured(listener, &reloadable, acme.as_ref());
    let listener = if settings.proxy_protocol {
        listener.behind_proxy()
    } else {
        listener
    };
    let data = settings.data.display();
    let version = env!("CARGO_PKG_VERSION");
    let scheme = listener.scheme();
    tracing::info!(
        version,
        "serving {names} at {scheme}://{address}, with the data in {data}"
    );
    confined.log();
    let renewal = acme.map(|acme| acme.metrics(acme_metrics).start(&settings.data));
    reloadable.reload_on_sighup().map_err(Error::Signals)?;
    output::announce(format_args!("listening on {scheme}://{address}"));
    let has_own_listener = own_listener.is_some();
    if let Some(own_listener) = own_listener {
        serve_metrics_at(own_listener, &metrics, limits);
    }

    let stopped = stopped(signals, renewal);
    let hosts = server.service();
    let service = DevTokenService::new(
        dev_tokens,
        move |head| hosts.knows_host(head),
        server.service(),
    );
    // Metrics are served with the APIs only on a loopback address. On any other address everybody
    // could read them.
    let ended = if !has_own_listener && address.ip().to_canonical().is_loopback() {
        let service = MetricsService::new(metrics, service);
        server.run_with(service, listener, stopped).await
    } else {
        server.run_with(service, listener, stopped).await
    };
    conclude(server, ended).await
}

/// Serves the metrics on an address of their own.
fn serve_metrics_at(
    (listener, address): (TcpListener, SocketAddr),
    metrics: &Arc<MetricsRegistry>,
    limits: Limits,
) {
    output::announce(format_args!("metrics on http://{address}/metrics"));
    let (listener, metrics) = (Listener::plain(listener), Arc::clone(metrics));
    // Ends with the runtime, so that a drain can be watched.
    tokio::spawn(async move { serve_metrics(listener, metrics, &limits).await });
}

/// Resolves when a signal stops the server. The renewal of certificates ends then.
fn stopped(signals: Signals, renewal: impl Send + 'static) -> impl Future<Output = ()> + Send {
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    tokio::spawn(stop_server(signals, stop));
    async move {
        stopped.notified().await;
        // The server could no longer answer a challenge, and another process may soon use the data
        // directory.
        drop(renewal);
    }
}

/// Closes the store of a server that has ended.
async fn conclude(server: Server, ended: Ended) -> Result<(), Error> {
    match ended {
        Ended::Drained => {
            close(server).await;
            tracing::info!("stopped");
            Ok(())
        }
        Ended::StorageFailed => {
            // Closing the store would block on the disk that failed.
            std::mem::forget(server);
            Err(Error::StorageFailed)
        }
    }
}

/// Returns the server's own certificates, if it has any. They are read from files or ordered by
/// ACME.
fn certificates(
    certificate: Option<&Arc<Certificate>>,
    acme: Option<&Acme>,
) -> Option<Arc<dyn ResolvesServerCert>> {
    let of_files = certificate.map(|certificate| Arc::clone(certificate) as Arc<_>);
    of_files.or_else(|| acme.map(Acme::certificates))
}

/// Returns the listener for the certificates and the trust that there are.
fn secured(listener: TcpListener, reloadable: &Reloadable, acme: Option<&Acme>) -> Listener {
    let listener = match (
        certificates(reloadable.certificate.as_ref(), acme),
        &reloadable.client_trust,
    ) {
        (None, _) => Listener::plain(listener),
        (Some(certificates), None) => {
            let config = server_config(certificates, WebPkiClientVerifier::no_client_auth());
            Listener::tls(listener, Arc::new(config))
        }
        (Some(_), Some(trust)) => {
            let trust = Arc::clone(trust);
            Listener::tls_with(listener, move || trust.config())
        }
    };
    match acme {
        Some(acme) => listener.answer_challenges(acme.challenges()),
        None => listener,
    }
}

/// Closes the store within the time limit. Work that is left is done at the next start.
async fn close(server: Server) {
    let closing = tokio::task::spawn_blocking(move || drop(server));
    if tokio::time::timeout(CLOSING, closing).await.is_err() {
        tracing::warn!("the disk is too slow to close the ledger; the next start takes longer");
    }
}

/// Stops the server at the first signal and ends the process at the second.
async fn stop_server(mut signals: Signals, stop: Arc<Notify>) {
    signals.next().await;
    stop.notify_one();
    signals.end_process(Code::Failure).await;
}

/// Listens, and returns the actual address, which differs from the given one for port 0. `setting`
/// is the name of the setting with the address, for the error.
async fn listen(
    address: SocketAddr,
    setting: &'static str,
) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |source| Error::Listen {
        address,
        setting,
        source,
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let chosen = listener.local_addr().map_err(failed)?;
    Ok((listener, chosen))
}

fn warn_of_dangers(settings: &Settings) {
    if settings.dev_tokens {
        tracing::warn!("tokens for tests are given to everybody who asks, at /token");
    }
    if settings.store.durability == Durability::Os {
        tracing::warn!("durability is `os`: a power cut loses acknowledged bytes");
    }
}

/// Warns of methods that a description has and that nothing here implements.
fn warn_of_unanswered(apis: &Registry) {
    for method in apis.unanswered() {
        tracing::warn!(
            "{method} is not implemented and returns 501; name a `backend` in the description"
        );
    }
}

/// File descriptors for everything but clients: the ledger, directories that are being synced, the
/// listeners, the runtime, the log, readers of metrics, questions about tokens, and media that is
/// cached or read by handlers.
const OTHER_DESCRIPTORS: u64 = 64
    + METRICS_CONNECTIONS as u64
    + windlass_auth::INTROSPECTIONS as u64
    + windlass_server::CACHED_SESSIONS as u64
    + windlass_server::MEDIA_READS as u64;

/// Raises the soft limit on file descriptors to the hard one, and returns it.
///
/// The soft limit is low for programs that use `select`, which this one does not.
fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        // Some systems refuse an unlimited soft limit.
        Err(_) => limit.current,
    };
    current.unwrap_or(u64::MAX)
}

/// Lowers the limits until the descriptors suffice for everything that may be open at the same
/// time: a socket for each connection, and a file for each upload and each download. Returns
/// whether a limit was lowered.
fn fit_limits(limits: &mut Limits, descriptors: u64) -> bool {
    let available = u128::from(descriptors.saturating_sub(OTHER_DESCRIPTORS));
    let counts = [
        &mut limits.connections,
        &mut limits.uploads,
        &mut limits.downloads,
    ];
    let wanted: u128 = counts.iter().map(|count| **count as u128).sum();
    if wanted <= available {
        return false;
    }
    for count in counts {
        let share = *count as u128 * available / wanted;
        *count = usize::try_from(share).unwrap_or(usize::MAX).max(1);
    }
    true
}

/// Prints the names of all failpoints, one per line.
#[cfg(feature = "failpoints")]
pub(super) fn list_failpoints() {
    for point in Failpoint::ALL {
        output::data(point.name());
    }
}

/// Arms the failpoint that the environment names, if any.
#[cfg(feature = "failpoints")]
fn arm_failpoint() -> Result<(), UnknownFailpoint> {
    let wanted = client_variable(FAILPOINT_VARIABLE);
    wanted.map_or(Ok(()), |wanted| failpoint::arm(&wanted.to_string_lossy()))
}

/// An error that keeps the server from starting, or ends it.
#[derive(Debug, ThisError)]
pub(crate) enum Error {
    #[error(transparent)]
    Settings(#[from] settings::Error),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Cors(#[from] CredentialsForAll),
    #[error(transparent)]
    Acme(#[from] AcmeError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    ClientTrust(#[from] ClientTrustError),
    #[error("the secret of {key} cannot be read from {}", path.display())]
    Secret {
        key: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(transparent)]
    BackendSecret(#[from] BackendSecretError),
    #[error(transparent)]
    Authentication(#[from] AuthenticationError),
    #[error(transparent)]
    Audit(#[from] AuditFileError),
    #[cfg(feature = "failpoints")]
    #[error(transparent)]
    Failpoint(#[from] windlass_store_local::failpoint::UnknownFailpoint),
    #[error("cannot start threads")]
    Runtime(#[source] io::Error),
    #[error("cannot catch signals")]
    Signals(#[source] io::Error),
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        setting: &'static str,
        source: io::Error,
    },
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(transparent)]
    Server(#[from] BuildError),
    #[error("storage failed; the server has stopped because it can no longer guarantee durability")]
    StorageFailed,
}

impl Error {
    /// Returns the exit code of the process.
    pub(crate) fn exit_code(&self) -> Code {
        match self {
            Self::Settings(_)
            | Self::Api(_)
            | Self::Cors(_)
            | Self::Acme(_)
            | Self::Certificate(_)
            | Self::ClientTrust(_)
            | Self::Server(_)
            | Self::Authentication(_) => Code::Usage,
            Self::Secret { .. } | Self::BackendSecret(_) => Code::Usage,
            Self::Audit(_)
            | Self::Runtime(_)
            | Self::Signals(_)
            | Self::Listen { .. }
            | Self::Store(_) => Code::CannotBegin,
            #[cfg(feature = "failpoints")]
            Self::Failpoint(_) => Code::Usage,
            Self::StorageFailed => Code::Failure,
        }
    }

    /// Returns a hint for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Settings(error) => error.hint(),
            Self::Api(error) => Some(error.hint().to_owned()),
            Self::Acme(error) => error.hint().map(str::to_owned),
            Self::Certificate(error) => error.hint().map(str::to_owned),
            Self::ClientTrust(error) => error.hint().map(str::to_owned),
            Self::Listen {
                setting, source, ..
            } => listen_hint(setting, source),
            Self::Store(OpenError::Shared { path, .. }) => Some(shared_hint(path)),
            Self::Store(error) => store_hint(error).map(str::to_owned),
            Self::StorageFailed => Some(
                "the log above says what failed; repair the disk, then start the server again: \
                 acknowledged data is kept"
                    .to_owned(),
            ),
            #[cfg(feature = "failpoints")]
            Self::Failpoint(_) => Some("`windlass failpoints` names them".to_owned()),
            Self::Authentication(error) => error.hint().map(str::to_owned),
            Self::Audit(_) => Some("the directory must exist and be writable".to_owned()),
            Self::BackendSecret(_) => Some(BackendSecretError::HINT.to_owned()),
            Self::Secret { .. } => Some("the file must exist and be readable".to_owned()),
            Self::Cors(_) | Self::Runtime(_) | Self::Signals(_) | Self::Server(_) => None,
        }
    }
}

fn listen_hint(setting: &str, error: &io::Error) -> Option<String> {
    match error.kind() {
        io::ErrorKind::AddrInUse => Some(format!(
            "choose another port with {setting}; port 0 finds a free one"
        )),
        io::ErrorKind::AddrNotAvailable => {
            Some(format!("{setting} takes an address of this machine"))
        }
        io::ErrorKind::PermissionDenied => Some("ports below 1024 need privileges".to_owned()),
        _ => None,
    }
}

fn shared_hint(path: &Path) -> String {
    let path = path.display();
    format!("`chmod go-w '{path}'` makes it the server's own; `allow_shared_data` accepts it")
}

fn store_hint(error: &OpenError) -> Option<&'static str> {
    match error {
        OpenError::InUse { .. } => {
            Some("stop the other server, or choose another directory with --data")
        }
        OpenError::IncompleteBackup { .. } => {
            Some("run `windlass backup` into it again, or use another backup")
        }
        OpenError::UnsafeFilesystem { .. } => Some(
            "choose a directory on a local disk with --data, or accept the loss with \
             --allow-unsafe-filesystem",
        ),
        OpenError::Ledger { .. } => Some(
            "choose another directory with --data, or start the version of Windlass that last \
             used this one",
        ),
        OpenError::Vault { .. } => Some(
            "is its disk mounted? Nothing was changed; docs/durability.md says how a vault that was \
             rebuilt is marked",
        ),
        OpenError::NoLedger { .. } => Some(
            "bring the ledger back, or move the vault away: without its ledger all media in it would \
             be deleted",
        ),
        OpenError::NoSpace { .. } => store::open_hint(error),
        OpenError::Shared { .. } => None,
        OpenError::Io { .. } => Some(
            "--data names a directory that this user must be allowed to create, read and write",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_descriptor_for_all_that_may_be_open() {
        let cases = [
            (0, [1, 1, 1]),
            (1024, [252, 252, 63]),
            (10_000, [4241, 4241, 1060]),
            (18_888, [8192, 8192, 2048]),
            (u64::MAX, [8192, 8192, 2048]),
        ];
        for (descriptors, expected) in cases {
            let mut limits = Limits::default();
            let was_needed = fit_limits(&mut limits, descriptors);
            let counts = [limits.connections, limits.uploads, limits.downloads];
            assert_eq!(counts, expected, "{descriptors}");
            assert_eq!(was_needed, counts != [8192, 8192, 2048], "{descriptors}");
            let open = counts.iter().sum::<usize>() as u64 + OTHER_DESCRIPTORS;
            assert!(descriptors < 459 || open <= descriptors, "{descriptors}");
        }
    }

    #[test]
    fn limits_beyond_all_numbers_are_lowered_too() {
        let mut limits = Limits::default();
        (limits.connections, limits.uploads, limits.downloads) = (usize::MAX, 1, 1);
        assert!(fit_limits(&mut limits, 1024));
        assert_eq!((limits.uploads, limits.downloads), (1, 1));
        assert!((540..=576).contains(&limits.connections));
    }
}
