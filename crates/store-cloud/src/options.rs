//! Options of the ledger, and the URL of its database.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use windlass_store::Retention;
use windlass_store::recorder::{NoRecorder, StoreRecorder};

use crate::open::OpenError;

/// Options of [`CloudLedger::open`](crate::CloudLedger::open).
///
/// ```
/// use windlass_store_cloud::{Durability, Options};
///
/// let options = Options::default().durability(Durability::Primary).connections(8);
/// assert_eq!(options.connections, 8);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The failures that an acknowledged byte survives. The default is [`Durability::Standby`].
    pub durability: Durability,
    /// How the connections are protected. The default is [`Tls::Off`].
    pub tls: Tls,
    /// Maximum number of connections for calls. The default is 16; less than 2 counts as 2, one for
    /// reads while the other commits. The signs of life have one more.
    pub connections: usize,
    /// For how long a call waits for a connection, and for each answer of the database. The default
    /// is 10 s.
    pub patience: Duration,
    /// What the ledger does is recorded here, for metrics. The default is [`NoRecorder`].
    pub recorder: Arc<dyn StoreRecorder>,
    /// How released media in the vault is treated. The default is to delete it at once, and once.
    pub retention: Retention,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            tls: Tls::default(),
            connections: 16,
            patience: Duration::from_secs(10),
            recorder: Arc::new(NoRecorder),
            retention: Retention::default(),
        }
    }
}

impl Options {
    /// Sets [`Options::durability`].
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets [`Options::tls`].
    #[must_use]
    pub fn tls(self, tls: Tls) -> Self {
        Self { tls, ..self }
    }

    /// Sets [`Options::connections`].
    #[must_use]
    pub const fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets [`Options::patience`].
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets [`Options::recorder`].
    #[must_use]
    pub fn recorder(self, recorder: Arc<dyn StoreRecorder>) -> Self {
        Self { recorder, ..self }
    }

    /// Sets [`Options::retention`].
    #[must_use]
    pub const fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }
}

/// The failures that an acknowledged byte survives. Each new connection is checked for the settings
/// that this takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The loss of the primary: a change is on the disks of the primary and of a synchronous
    /// standby before it is acknowledged. The database must name synchronous standbys.
    #[default]
    Standby,
    /// A power cut of the primary: a change is on its disk. If a standby takes over that does not
    /// have the last changes, acknowledged bytes are lost.
    Primary,
    /// What the settings of the database happen to give. For scratch data.
    Unchecked,
}

/// How connections to the database are protected.
#[derive(Clone, Default)]
pub enum Tls {
    /// Not at all. For a database on the same machine or in a protected network: a database that
    /// asks for the password in the clear receives it.
    #[default]
    Off,
    /// By TLS. The name of the host in the URL must be in the certificate, and the configuration
    /// says whose signature is trusted.
    Required(Arc<rustls::ClientConfig>),
}

/// Shows nothing of the configuration, which may have the key of a client certificate.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "Off",
            Self::Required(_) => "Required",
        })
    }
}

/// For how long a connection may be silent before it is probed.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Reads the URL of a database.
///
/// The error names no part of the URL, because a password with a special character may be anywhere
/// in what could not be read.
pub(crate) fn parse(url: &str, options: &Options) -> Result<Config, OpenError> {
    let is_url = ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| url.starts_with(scheme));
    let mut config: Config = match url.parse() {
        Ok(config) if is_url => config,
        _ => return Err(OpenError::Url("it is no URL of PostgreSQL")),
    };
    let secure = match (&options.tls, config.get_ssl_mode()) {
        (Tls::Off, SslMode::Require) => {
            return Err(OpenError::Url("it requires TLS, which is off"));
        }
        (Tls::Required(_), SslMode::Disable) => {
            return Err(OpenError::Url("it turns TLS off, which is required"));
        }
        (Tls::Required(_), _) => SslMode::Require,
        (Tls::Off, _) => SslMode::Disable,
    };
    if secure == SslMode::Require && config.get_hosts().iter().any(is_socket) {
        return Err(OpenError::Url("a socket of the machine has no TLS"));
    }
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(OpenError::Url("it names no host"));
    }
    if config.get_options().is_some() {
        return Err(OpenError::Url(
            "options of the session are not allowed: set them for the role or the database",
        ));
    }
    config
        .ssl_mode(secure)
        .target_session_attrs(TargetSessionAttrs::ReadWrite)
        .connect_timeout(options.patience)
        .tcp_user_timeout(options.patience)
        .keepalives_idle(KEEPALIVE)
        .application_name("windlass");
    Ok(config)
}

fn is_socket(host: &Host) -> bool {
    match host {
        Host::Tcp(_) => false,
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "hunter2";

    fn tls() -> Options {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has all versions")
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        Options::default().tls(Tls::Required(Arc::new(config)))
    }

    fn refusal(url: &str, options: &Options) -> String {
        let error = parse(url, options).expect_err(url);
        format!("{error} {error:?}")
    }

    #[test]
    fn password_is_in_no_debug_and_no_error() {
        let url = format!("postgres://windlass:{SECRET}@db.example.org/uploads");
        for options in [Options::default(), tls()] {
            let config = parse(&url, &options).expect("it is a URL");
            assert_eq!(config.get_password(), Some(SECRET.as_bytes()));
            let shown = format!("{config:?} {options:?}");
            assert!(!shown.contains(SECRET), "{shown}");
        }
        for url in [
            format!("postgres://windlass:{SECRET}?x@db.example.org/uploads"),
            format!("postgres://windlass:a%ZZ{SECRET}@db.example.org/uploads"),
            format!("postgres://windlass@db.example.org:{SECRET}/uploads"),
            format!("host=db.example.org password={SECRET}"),
            format!("mysql://windlass:{SECRET}@db.example.org"),
        ] {
            let shown = match parse(&url, &Options::default()) {
                Ok(config) => format!("{config:?}"),
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!shown.contains(SECRET), "{shown}");
        }
    }

    #[test]
    fn url_must_not_contradict_the_option_of_tls() {
        let url = |mode| format!("postgres://db.example.org/uploads?sslmode={mode}");
        for (mode, options) in [("require", Options::default()), ("disable", tls())] {
            assert!(refusal(&url(mode), &options).contains("TLS"), "{mode}");
        }
        for (mode, options, expected) in [
            ("disable", Options::default(), SslMode::Disable),
            ("prefer", Options::default(), SslMode::Disable),
            ("prefer", tls(), SslMode::Require),
            ("require", tls(), SslMode::Require),
        ] {
            let config = parse(&url(mode), &options).expect(mode);
            assert_eq!(config.get_ssl_mode(), expected, "{mode}");
        }
        let socket = "postgres://%2Frun%2Fpostgresql/uploads";
        assert!(refusal(socket, &tls()).contains("socket"));
    }

    #[test]
    fn only_the_primary_is_used() {
        let url = "postgres://a.example.org,b.example.org/uploads?target_session_attrs=any";
        let config = parse(url, &Options::default()).expect("it is a URL");
        let wanted = config.get_target_session_attrs();
        assert_eq!(wanted, TargetSessionAttrs::ReadWrite);
        assert_eq!(config.get_hosts().len(), 2);
    }

    #[test]
    fn url_without_a_host_or_with_options_is_refused() {
        assert!(refusal("postgres:///uploads", &Options::default()).contains("host"));
        let with_options = "postgres://db.example.org/uploads?options=-csynchronous_commit%3Doff";
        assert!(refusal(with_options, &Options::default()).contains("options"));
    }
}
