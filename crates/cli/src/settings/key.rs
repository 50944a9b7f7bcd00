//! The list of all settings: key in the file, flag, and a reference to the value. The name of the
//! environment variable follows from the key. Parsing, printing and the check of the documentation
//! use this list. Bounds of values and rules between values are checked after all sources are
//! merged.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::value::{RawValue, ValueError, ValueRef};
use super::{ClientCertificates, Settings};

/// The prefix of all environment variables.
pub(super) const PREFIX: &str = "WINDLASS_";

/// A setting.
#[derive(Debug)]
pub(super) struct Key {
    /// The key in the file, with the table that it is in: `limits.drain`.
    pub(super) name: &'static str,
    /// The flag without its dashes.
    pub(super) flag: Option<&'static str>,
    value_ref: fn(&mut Settings) -> ValueRef<'_>,
}

/// All settings. Keys outside of tables come first, and the keys of a table are adjacent, as in a
/// file.
pub(super) const KEYS: &[Key] = &[
    Key::with_flag("listen", "listen", |all| ValueRef::Address(&mut all.listen)),
    Key::with_flag("tls_cert", "tls-cert", |all| {
        ValueRef::File(&mut all.tls_cert)
    }),
    Key::with_flag("tls_key", "tls-key", |all| ValueRef::File(&mut all.tls_key)),
    Key::new("tls_client_ca", |all| {
        ValueRef::File(&mut all.tls_client_ca)
    }),
    Key::new("tls_client_certificates", |all| {
        ValueRef::ClientCertificates(&mut all.tls_client_certificates)
    }),
    Key::new("tls_client_crl", |all| {
        ValueRef::File(&mut all.tls_client_crl)
    }),
    Key::with_flag("data", "data", |all| ValueRef::Directory(&mut all.data)),
    Key::with_flag("apis", "api", |all| ValueRef::Apis(&mut all.apis)),
    Key::new("created_status", |all| {
        ValueRef::CreatedStatuses(&mut all.created_status)
    }),
    Key::new("access", |all| ValueRef::Accesses(&mut all.access)),
    Key::with_flag("public_url", "public-url", |all| {
        ValueRef::Url(&mut all.server.public_url)
    }),
    Key::with_flag("trust_forwarded", "trust-forwarded", |all| {
        ValueRef::Switch(&mut all.server.trust_forwarded)
    }),
    Key::new("proxy_protocol", |all| {
        ValueRef::Switch(&mut all.proxy_protocol)
    }),
    Key::new("hosts", |all| ValueRef::Hosts(&mut all.server.hosts)),
    Key::new("hsts", |all| ValueRef::Span(&mut all.server.hsts)),
    Key::new("batches", |all| ValueRef::Switch(&mut all.server.batches)),
    Key::with_flag("log", "log", |all| ValueRef::Log(&mut all.log)),
    Key::new("durability", |all| {
        ValueRef::Durability(&mut all.store.durability)
    }),
    Key::new("page_cache", |all| {
        ValueRef::Switch(&mut all.store.page_cache)
    }),
    Key::with_flag(
        "allow_unsafe_filesystem",
        "allow-unsafe-filesystem",
        |all| ValueRef::Switch(&mut all.store.allow_unsafe_filesystem),
    ),
    Key::new("allow_shared_data", |all| {
        ValueRef::Switch(&mut all.store.allow_shared_data)
    }),
    Key::with_flag("allow_unauthenticated", "allow-unauthenticated", |all| {
        ValueRef::Switch(&mut all.allow_unauthenticated)
    }),
    Key::with_flag("dev_tokens", "dev-tokens", |all| {
        ValueRef::Switch(&mut all.dev_tokens)
    }),
    Key::new("landlock", |all| ValueRef::Switch(&mut all.landlock)),
    Key::new("core_dumps", |all| ValueRef::Switch(&mut all.core_dumps)),
    Key::new("acme.domains", |all| {
        ValueRef::AcmeDomains(&mut all.acme.options.domains)
    }),
    Key::new("acme.contact", |all| {
        ValueRef::AcmeContacts(&mut all.acme.options.contact)
    }),
    Key::new("acme.agree_to_terms", |all| {
        ValueRef::Switch(&mut all.acme.options.agree_to_terms)
    }),
    Key::new("acme.directory", |all| {
        ValueRef::AcmeDirectory(&mut all.acme.options.directory)
    }),
    Key::new("acme.root_file", |all| {
        ValueRef::File(&mut all.acme.root_file)
    }),
    Key::new("auth.token_file", |all| ValueRef::File(&mut all.auth_token)),
    Key::new("auth.file", |all| ValueRef::File(&mut all.auth_file)),
    Key::new("auth.unowned", |all| {
        ValueRef::OptionalPrincipal(&mut all.server.unowned_principal)
    }),
    Key::new("backends.secret_file", |all| {
        ValueRef::File(&mut all.backend_secret)
    }),
    Key::new("backends.private_addresses", |all| {
        ValueRef::Switch(&mut all.backend_private_addresses)
    }),
    Key::new("backends.timeout", |all| {
        ValueRef::Span(&mut all.backend_timeout)
    }),
    Key::new("webhooks.finished", |all| {
        ValueRef::ServiceUrl(&mut all.webhook_finished)
    }),
    Key::new("audit.file", |all| ValueRef::File(&mut all.audit_file)),
    Key::new("cors.origins", |all| {
        ValueRef::Origins(&mut all.cors.origins)
    }),
    Key::new("cors.credentials", |all| {
        ValueRef::Switch(&mut all.cors.credentials)
    }),
    Key::new("cors.max_age", |all| ValueRef::Span(&mut all.cors.max_age)),
    Key::new("cors.apis", |all| ValueRef::ApiOrigins(&mut all.cors.apis)),
    Key::new("downloads.inline", |all| {
        ValueRef::MediaRanges(&mut all.server.downloads.inline)
    }),
    Key::new("downloads.resource_policy", |all| {
        ValueRef::ResourcePolicy(&mut all.server.downloads.resource_policy)
    }),
    Key::new("downloads.host", |all| {
        ValueRef::OptionalHost(&mut all.server.downloads.host)
    }),
    Key::new("sessions.lifetime", |all| {
        ValueRef::Span(&mut all.server.session_lifetime)
    }),
    Key::new("sessions.idle", |all| {
        ValueRef::OptionalSpan(&mut all.server.session_idle)
    }),
    Key::new("sessions.chunks", |all| {
        ValueRef::Chunks(&mut all.server.chunks)
    }),
    Key::new("sessions.auth", |all| {
        ValueRef::SessionAuth(&mut all.server.session_auth)
    }),
    Key::new("sessions.bind_origin", |all| {
        ValueRef::Switch(&mut all.server.bind_origin)
    }),
    Key::new("limits.small_media", |all| {
        ValueRef::Size(&mut all.server.limits.small_media)
    }),
    Key::new("limits.head", |all| {
        ValueRef::SizeInMemory(&mut all.server.limits.head)
    }),
    Key::new("limits.part_headers", |all| {
        ValueRef::SizeInMemory(&mut all.server.limits.part_headers)
    }),
    Key::new("limits.metadata", |all| {
        ValueRef::SizeInMemory(&mut all.server.limits.metadata)
    }),
    Key::new("limits.json_values", |all| {
        ValueRef::Count(&mut all.server.limits.json_values)
    }),
    Key::new("limits.json_depth", |all| {
        ValueRef::Count(&mut all.server.limits.json_depth)
    }),
    Key::new("limits.media_memory", |all| {
        ValueRef::Size(&mut all.server.limits.media_memory)
    }),
    Key::new("limits.reading_memory", |all| {
        ValueRef::Size(&mut all.server.limits.reading_memory)
    }),
    Key::new("limits.metadata_memory", |all| {
        ValueRef::Size(&mut all.server.limits.metadata_memory)
    }),
    Key::new("limits.reply_memory", |all| {
        ValueRef::Size(&mut all.server.limits.reply_memory)
    }),
    Key::new("limits.connections", |all| {
        ValueRef::Count(&mut all.server.limits.connections)
    }),
    Key::new("limits.connections_per_address", |all| {
        ValueRef::Count(&mut all.server.limits.connections_per_address)
    }),
    Key::new("limits.resets_per_address", |all| {
        ValueRef::Count(&mut all.server.limits.resets_per_address)
    }),
    Key::new("limits.requests_per_address", |all| {
        ValueRef::Count(&mut all.server.limits.requests_per_address)
    }),
    Key::new("limits.requests_per_principal", |all| {
        ValueRef::Count(&mut all.server.limits.requests_per_principal)
    }),
    Key::new("limits.sessions_per_principal", |all| {
        ValueRef::Count(&mut all.server.limits.sessions_per_principal)
    }),
    Key::new("limits.bytes_per_principal", |all| {
        ValueRef::Size(&mut all.server.limits.bytes_per_principal)
    }),
    Key::new("limits.copies_per_hour", |all| {
        ValueRef::Size(&mut all.server.limits.copies_per_hour)
    }),
    Key::new("limits.min_rate", |all| {
        ValueRef::Size(&mut all.server.limits.min_rate)
    }),
    Key::new("limits.requests", |all| {
        ValueRef::Count(&mut all.server.limits.requests)
    }),
    Key::new("limits.streams", |all| {
        ValueRef::Count(&mut all.server.limits.streams)
    }),
    Key::new("limits.window", |all| {
        ValueRef::SizeInMemory(&mut all.server.limits.window)
    }),
    Key::new("limits.uploads", |all| {
        ValueRef::Count(&mut all.server.limits.uploads)
    }),
    Key::new("limits.downloads", |all| {
        ValueRef::Count(&mut all.server.limits.downloads)
    }),
    Key::new("limits.head_timeout", |all| {
        ValueRef::Span(&mut all.server.limits.head_timeout)
    }),
    Key::new("limits.body_timeout", |all| {
        ValueRef::Span(&mut all.server.limits.body_timeout)
    }),
    Key::new("limits.takeover_timeout", |all| {
        ValueRef::Span(&mut all.server.limits.takeover_timeout)
    }),
    Key::new("limits.gzip_ratio", |all| {
        ValueRef::Ratio(&mut all.server.limits.gzip_ratio)
    }),
    Key::new("limits.linger", |all| {
        ValueRef::Span(&mut all.server.limits.linger)
    }),
    Key::new("limits.drain", |all| {
        ValueRef::Span(&mut all.server.limits.drain)
    }),
    Key::new("checkpoints.bytes", |all| {
        ValueRef::Size(&mut all.server.checkpoints.bytes)
    }),
    Key::new("checkpoints.interval", |all| {
        ValueRef::Span(&mut all.server.checkpoints.interval)
    }),
    Key::new("free_space.soft", |all| {
        ValueRef::Size(&mut all.server.free_space.soft)
    }),
    Key::new("free_space.hard", |all| {
        ValueRef::Size(&mut all.server.free_space.hard)
    }),
    Key::new("metrics.listen", |all| {
        ValueRef::OptionalAddress(&mut all.metrics_listen)
    }),
    Key::new("files.path", |all| {
        ValueRef::FilesPath(&mut all.options.files_path)
    }),
    #[cfg(feature = "gmail")]
    Key::new("gmail.me", |all| {
        ValueRef::Mailbox(&mut all.options.gmail.me)
    }),
    #[cfg(feature = "gmail")]
    Key::new("gmail.domains", |all| {
        ValueRef::Domains(&mut all.options.gmail.domains)
    }),
    #[cfg(feature = "gmail")]
    Key::new("gmail.relay", |all| {
        ValueRef::Relay(&mut all.options.gmail.relay)
    }),
    #[cfg(feature = "gmail")]
    Key::new("gmail.relay_password_file", |all| {
        ValueRef::File(&mut all.relay_password)
    }),
];

impl Key {
    const fn new(name: &'static str, value_ref: fn(&mut Settings) -> ValueRef<'_>) -> Self {
        Self {
            name,
            flag: None,
            value_ref,
        }
    }

    const fn with_flag(
        name: &'static str,
        flag: &'static str,
        value_ref: fn(&mut Settings) -> ValueRef<'_>,
    ) -> Self {
        Self {
            name,
            flag: Some(flag),
            value_ref,
        }
    }

    /// Returns the key of this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// Returns the table of this name if it belongs to a feature that this build is without.
    pub(super) fn excluded_table(name: &str) -> Option<&'static str> {
        (name == "gmail" && cfg!(not(feature = "gmail"))).then_some("gmail")
    }

    /// Returns the key of this flag.
    pub(super) fn of_flag(flag: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.flag == Some(flag))
    }

    /// Returns the key of this environment variable.
    pub(super) fn of_variable(variable: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.variable() == variable)
    }

    /// Returns the key with the most similar name, if one is similar enough.
    pub(super) fn nearest(name: &str) -> Option<&'static Self> {
        let likeness = |key: &Key| {
            let last = key.leaf();
            strsim::jaro_winkler(key.name, name).max(strsim::jaro_winkler(last, name))
        };
        let nearest = KEYS
            .iter()
            .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        nearest.filter(|key| likeness(key) > 0.8)
    }

    /// Returns the most similar name of a key or, for a name outside of tables, of a table, if one
    /// is similar enough.
    pub(super) fn nearest_name(name: &str) -> Option<&'static str> {
        let tables = KEYS.iter().filter_map(Self::table);
        let mut likely = tables.filter(|table| strsim::damerau_levenshtein(table, name) <= 2);
        likely
            .next()
            .or_else(|| Self::nearest(name).map(|key| key.name))
    }

    /// Returns the environment variable: `WINDLASS_LIMITS_DRAIN`.
    pub(super) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.replace('.', "_").to_uppercase())
    }

    /// Returns the table of the key: `limits`.
    pub(super) fn table(&self) -> Option<&'static str> {
        self.name.split_once('.').map(|(table, _)| table)
    }

    /// Returns the key within its table: `drain`.
    pub(super) fn leaf(&self) -> &'static str {
        self.name
            .split_once('.')
            .map_or(self.name, |(_, leaf)| leaf)
    }

    /// Parses and sets the value. Relative paths are resolved against `base`.
    pub(super) fn set(
        &self,
        settings: &mut Settings,
        raw: &RawValue,
        base: &Path,
    ) -> Result<(), ValueError> {
        (self.value_ref)(settings).read(raw, base)
    }

    /// Returns the value as TOML; `None` if it is not set.
    pub(super) fn show(&self, settings: &Settings) -> Option<String> {
        (self.value_ref)(&mut settings.clone()).write()
    }
}

const KIB: u64 = 1024;

/// A rule, reported at the key where it is easiest to correct.
pub(super) struct Rule {
    pub(super) key: &'static str,
    pub(super) requirement: &'static str,
    holds: fn(&Settings) -> bool,
}

const RULES: &[Rule] = &[
    Rule {
        key: "dev_tokens",
        requirement: "must be used on a loopback address only: everybody who reaches the server gets a token",
        holds: |all| !all.dev_tokens || all.listen.ip().to_canonical().is_loopback(),
    },
    Rule {
        key: "listen",
        requirement: "is not a loopback address, and everybody who can reach it could read and delete \
                      everything; set auth.file or auth.token_file, demand client certificates \
                      (tls_client_certificates), or accept it with --allow-unauthenticated",
        holds: |all| {
            let asks = all.auth_token.is_some() || all.auth_file.is_some();
            asks || !is_exposed(all)
        },
    },
    Rule {
        key: "tls_cert",
        requirement: "requires tls_key",
        holds: |all| all.tls_cert.is_none() || all.tls_key.is_some(),
    },
    Rule {
        key: "tls_key",
        requirement: "requires tls_cert",
        holds: |all| all.tls_key.is_none() || all.tls_cert.is_some(),
    },
    Rule {
        key: "tls_client_ca",
        requirement: "requires tls_cert and tls_key, or acme.domains: without TLS there are no \
                      certificates",
        holds: |all| all.tls_client_ca.is_none() || all.tls_cert.is_some() || all.acme.is_wanted(),
    },
    Rule {
        key: "tls_client_ca",
        requirement: "requires auth.file, which maps certificates to principals, or \
                      tls_client_certificates = \"required\"",
        holds: |all| {
            all.tls_client_ca.is_none() || all.auth_file.is_some() || demands_certificates(all)
        },
    },
    Rule {
        key: "tls_client_certificates",
        requirement: "requires tls_client_ca, the authorities that certificates must come from",
        holds: |all| {
            let required = all.tls_client_certificates == ClientCertificates::Required;
            !required || all.tls_client_ca.is_some()
        },
    },
    Rule {
        key: "tls_client_crl",
        requirement: "requires tls_client_ca, whose certificates it revokes",
        holds: |all| all.tls_client_crl.is_none() || all.tls_client_ca.is_some(),
    },
    Rule {
        key: "acme.domains",
        requirement: "must not be set together with tls_cert",
        holds: |all| !all.acme.is_wanted() || all.tls_cert.is_none(),
    },
    Rule {
        key: "acme.contact",
        requirement: "requires acme.domains",
        holds: |all| all.acme.options.contact.is_empty() || all.acme.is_wanted(),
    },
    Rule {
        key: "acme.root_file",
        requirement: "requires acme.domains",
        holds: |all| all.acme.root_file.is_none() || all.acme.is_wanted(),
    },
    Rule {
        key: "acme.agree_to_terms",
        requirement: "must be true: Let's Encrypt issues certificates to those who agree to its terms; \
                      read them at https://letsencrypt.org/repository/",
        holds: |all| {
            let acme = &all.acme;
            !acme.is_wanted()
                || acme.options.agree_to_terms
                || !acme.options.directory.is_lets_encrypt()
        },
    },
    Rule {
        key: "acme.agree_to_terms",
        requirement: "must be true: an authority issues certificates to those who agree to its terms; \
                      their address is `termsOfService` in the document at acme.directory",
        holds: |all| !all.acme.is_wanted() || all.acme.options.agree_to_terms,
    },
    Rule {
        key: "apis",
        requirement: "must name at least one API",
        holds: |all| !all.apis.is_empty(),
    },
    Rule {
        key: "downloads.host",
        requirement: "must not be the host of an API: this host serves only media",
        holds: |all| {
            let host = all.server.downloads.host.as_ref();
            let mut hosts = all.apis.iter().filter_map(|api| api.host.as_ref());
            !hosts.any(|of_api| Some(of_api) == host)
        },
    },
    Rule {
        key: "cors.credentials",
        requirement: "must not be true for the origin * in cors.origins; name the origins",
        holds: |all| all.cors.policy().is_ok(),
    },
    Rule {
        key: "cors.apis",
        requirement: "must not allow credentials to the origin *; name the origins, or add credentials=false",
        holds: |all| {
            let mut apis = all.cors.apis.iter();
            apis.all(|own| own.policy(&all.cors).is_ok())
        },
    },
    Rule {
        key: "backends.timeout",
        requirement: "must be longer than 0s",
        holds: |all| all.backend_timeout > Duration::ZERO,
    },
    Rule {
        key: "webhooks.finished",
        requirement: "requires backends.secret_file, the secret that signs requests",
        holds: |all| all.webhook_finished.is_none() || all.backend_secret.is_some(),
    },
    Rule {
        key: "sessions.lifetime",
        requirement: "must be longer than 0s",
        holds: |all| all.server.session_lifetime > Duration::ZERO,
    },
    Rule {
        key: "sessions.idle",
        requirement: "must be longer than 0s, or not set",
        holds: |all| all.server.session_idle != Some(Duration::ZERO),
    },
    Rule {
        key: "sessions.idle",
        requirement: "must not be longer than sessions.lifetime, which ends a session anyway",
        holds: |all| {
            all.server
                .session_idle
                .is_none_or(|idle| idle <= all.server.session_lifetime)
        },
    },
    Rule {
        key: "limits.small_media",
        requirement: "must be at most 64KB; larger media is stored in files",
        holds: |all| all.server.limits.small_media <= 64 * KIB,
    },
    Rule {
        key: "limits.head",
        requirement: "must be from 8KB to 1MB; each connection may hold twice as much",
        holds: |all| (8 * KIB..=KIB * KIB).contains(&(all.server.limits.head as u64)),
    },
    Rule {
        key: "limits.part_headers",
        requirement: "must be at least 1KB; less would refuse common requests",
        holds: |all| all.server.limits.part_headers as u64 >= KIB,
    },
    Rule {
        key: "limits.json_values",
        requirement: "must be at least 100; less would refuse common requests",
        holds: |all| all.server.limits.json_values >= 100,
    },
    Rule {
        key: "limits.json_depth",
        requirement: "must be from 5 to 100; less would refuse common requests, and more is not parsed",
        holds: |all| (5..=100).contains(&all.server.limits.json_depth),
    },
    Rule {
        key: "limits.metadata",
        requirement: "must be at least 1KB; less would refuse common requests",
        holds: |all| all.server.limits.metadata as u64 >= KIB,
    },
    Rule {
        key: "limits.media_memory",
        requirement: "must be at least 1MB, which is one large write",
        holds: |all| all.server.limits.media_memory >= KIB * KIB,
    },
    Rule {
        key: "limits.reading_memory",
        requirement: "must be at least 1MB; less would let one message in at a time",
        holds: |all| all.server.limits.reading_memory >= KIB * KIB,
    },
    #[cfg(feature = "gmail")]
    Rule {
        key: "gmail.relay",
        requirement: "a user name in it requires gmail.relay_password_file",
        holds: |all| {
            let relay = all.options.gmail.relay.as_ref();
            all.relay_password.is_some() || relay.is_none_or(|it| it.credentials.is_none())
        },
    },
    #[cfg(feature = "gmail")]
    Rule {
        key: "gmail.relay_password_file",
        requirement: "requires a user name in gmail.relay: smtps://NAME@HOST",
        holds: |all| {
            let relay = all.options.gmail.relay.as_ref();
            all.relay_password.is_none() || relay.is_some_and(|it| it.credentials.is_some())
        },
    },
    Rule {
        key: "limits.metadata_memory",
        requirement: "must be at least 1MB; less would refuse documents that limits.metadata allows",
        holds: |all| all.server.limits.metadata_memory >= KIB * KIB,
    },
    Rule {
        key: "limits.reply_memory",
        requirement: "must be at least 1MB; less would refuse common lists",
        holds: |all| all.server.limits.reply_memory >= KIB * KIB,
    },
    Rule {
        key: "limits.connections",
        requirement: "must be at least 1",
        holds: |all| all.server.limits.connections >= 1,
    },
    Rule {
        key: "limits.requests",
        requirement: "must be at least 1",
        holds: |all| all.server.limits.requests >= 1,
    },
    Rule {
        key: "limits.streams",
        requirement: "must be at least 1",
        holds: |all| all.server.limits.streams >= 1,
    },
    Rule {
        key: "limits.window",
        requirement: "must be from 64KB, which clients assume at first, to 1GB",
        holds: |all| (64 * KIB..=KIB * KIB * KIB).contains(&(all.server.limits.window as u64)),
    },
    Rule {
        key: "limits.uploads",
        requirement: "must be at least 1",
        holds: |all| all.server.limits.uploads >= 1,
    },
    Rule {
        key: "limits.downloads",
        requirement: "must be at least 1",
        holds: |all| all.server.limits.downloads >= 1,
    },
    Rule {
        key: "limits.head_timeout",
        requirement: "must be longer than 0s",
        holds: |all| all.server.limits.head_timeout > Duration::ZERO,
    },
    Rule {
        key: "limits.body_timeout",
        requirement: "must be longer than 0s",
        holds: |all| all.server.limits.body_timeout > Duration::ZERO,
    },
    Rule {
        key: "limits.takeover_timeout",
        requirement: "must be longer than 0s",
        holds: |all| all.server.limits.takeover_timeout > Duration::ZERO,
    },
    Rule {
        key: "limits.gzip_ratio",
        requirement: "must be at least 1",
        holds: |all| all.server.limits.gzip_ratio >= 1,
    },
    Rule {
        key: "checkpoints.bytes",
        requirement: "must be at least 256KB; each checkpoint costs a sync",
        holds: |all| all.server.checkpoints.bytes >= 256 * KIB,
    },
    Rule {
        key: "checkpoints.interval",
        requirement: "must be at least 10ms; each checkpoint costs a sync",
        holds: |all| all.server.checkpoints.interval >= Duration::from_millis(10),
    },
    Rule {
        key: "metrics.listen",
        requirement: "must not be the address of `listen`",
        holds: |all| {
            let apart = |address: SocketAddr| address != all.listen || address.port() == 0;
            all.metrics_listen.is_none_or(apart)
        },
    },
    Rule {
        key: "free_space.hard",
        requirement: "must not be more than free_space.soft; set both",
        holds: |all| all.server.free_space.hard <= all.server.free_space.soft,
    },
];

/// Whether nobody without a certificate can open a connection.
pub(super) fn demands_certificates(settings: &Settings) -> bool {
    settings.tls_client_ca.is_some()
        && settings.tls_client_certificates == ClientCertificates::Required
}

/// Whether a caller without a certificate can connect from another machine, and no flag accepts the
/// access that the caller would have without credentials.
pub(super) fn is_exposed(settings: &Settings) -> bool {
    is_beyond_loopback(settings)
        && !(demands_certificates(settings) || settings.allow_unauthenticated)
}

/// Whether other machines can open a connection.
pub(super) fn is_beyond_loopback(settings: &Settings) -> bool {
    !settings.listen.ip().to_canonical().is_loopback()
}

/// Returns the first violated rule.
pub(super) fn first_violated(settings: &Settings) -> Option<&'static Rule> {
    RULES.iter().find(|rule| !(rule.holds)(settings))
}
