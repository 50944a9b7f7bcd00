//! `windlass serve`: a server of its own process, over a store on the local disk.

mod certificate;
mod certificate_reload;
mod descriptors;
mod error;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Notify;
use windlass_server::config::Limits;
use windlass_server::{Ended, Listener, Registry, Server, Stores, SystemClock};
use windlass_store_local::{Durability, LocalStore};

use super::signals::{Signals, ignore_file_size_signal};
use crate::args::ServeArgs;
use crate::exit::Code;
use crate::output;
use crate::settings::{self, Environment, Settings, Sources};

pub(crate) use certificate::CertificateError;
pub(crate) use error::Error;

use certificate::Certificate;

/// How long the store may take to close.
const CLOSING: Duration = Duration::from_secs(2);

/// Serves until it is asked to stop, or prints the configuration.
pub(crate) fn run(args: &ServeArgs) -> Result<(), Error> {
    let sources = Sources {
        config: args.config.clone(),
        flags: args.raw_values(),
        environment: Environment::new(std::env::vars_os())?,
    };
    warn_of_ignored(&sources.environment);
    let mut merged = sources.merge()?;
    #[cfg(feature = "gmail")]
    read_relay_password(&mut merged.settings)?;
    #[cfg(feature = "failpoints")]
    super::failpoints::arm()?;
    let apis = settings::load(&merged.settings.apis, &merged.settings.options)?;
    let certificate = load_certificate(&merged.settings)?;
    if args.check_config {
        output::data(merged.to_toml());
        return Ok(());
    }
    fit_descriptors(&mut merged.settings);
    output::log_to_stderr(&merged.settings.log);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    let result = runtime.block_on(serve(merged.settings, apis, certificate));
    // Whatever still runs waits for a disk or a client that may never answer.
    runtime.shutdown_background();
    result
}

/// Puts the password of the relay where the kind looks for it. Printed settings never show it.
#[cfg(feature = "gmail")]
fn read_relay_password(settings: &mut Settings) -> Result<(), Error> {
    let relay = settings.options.gmail.relay.as_mut();
    let credentials = relay.and_then(|relay| relay.credentials.as_mut());
    if let (Some(path), Some(credentials)) = (&settings.relay_password, credentials) {
        let password = std::fs::read_to_string(path).map_err(|source| Error::Password {
            path: path.clone(),
            source,
        })?;
        password
            .trim_end_matches(['\r', '\n'])
            .clone_into(&mut credentials.password);
    }
    Ok(())
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

/// Lets no more in than there are descriptors for.
fn fit_descriptors(settings: &mut Settings) {
    let limits = &mut settings.server.limits;
    let available = descriptors::raise_limit();
    if !descriptors::fit(limits, available) {
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
    certificate: Option<Arc<Certificate>>,
) -> Result<(), Error> {
    let signals = Signals::catch().map_err(Error::Signals)?;
    ignore_file_size_signal().map_err(Error::Signals)?;
    let (listener, address) = listen(settings.listen).await?;
    // It blocks, but nothing else runs yet.
    let store = LocalStore::open(&settings.data, settings.store)?;
    log_start(&settings, &apis);
    let stores = Stores {
        ledger: Arc::new(store.ledger),
        vault: Arc::new(store.vault),
    };
    let server = Server::new(settings.server, apis, stores, Arc::new(SystemClock));
    let listener = match certificate {
        None => Listener::plain(listener),
        Some(certificate) => {
            let config = certificate.config();
            certificate_reload::reload_on_sighup(certificate).map_err(Error::Signals)?;
            Listener::tls(listener, config)
        }
    };
    output::announce(format_args!(
        "listening on {}://{address}",
        listener.scheme()
    ));

    let stop = Arc::new(Notify::new());
    tokio::spawn(stop_server(signals, Arc::clone(&stop)));
    let ended = server.run(listener, stop.notified()).await;
    match ended {
        Ended::Drained => {
            close(server).await;
            tracing::info!("stopped");
            Ok(())
        }
        Ended::StorageFailed => {
            // Closing the store would wait for the very disk that failed.
            std::mem::forget(server);
            Err(Error::StorageFailed)
        }
    }
}

/// Closes the store, for as long as that may take. What is left of it the next start does.
async fn close(server: Server) {
    let closing = tokio::task::spawn_blocking(move || drop(server));
    if tokio::time::timeout(CLOSING, closing).await.is_err() {
        tracing::warn!("the disk is too slow to close the ledger; the next start takes longer");
    }
}

/// Asks the server to stop at the first signal, and ends the process at the second. Runs as long as
/// the process.
async fn stop_server(mut signals: Signals, stop: Arc<Notify>) {
    signals.next().await;
    stop.notify_one();
    signals.end_process(Code::Failure).await;
}

/// Listens, and says where: port 0 becomes the one that the system chose.
async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let chosen = listener.local_addr().map_err(failed)?;
    Ok((listener, chosen))
}

fn log_start(settings: &Settings, apis: &Registry) {
    let data = settings.data.display();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), ?apis, %data, "serving");
    if settings.store.durability == Durability::Os {
        tracing::warn!("durability is `os`: a power cut loses acknowledged bytes");
    }
}
