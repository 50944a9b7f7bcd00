//! The list of all settings: key in the file, flag, and a reference to the value. The name of the
//! environment variable follows from the key. Parsing, printing and the check of the documentation use
//! this list.

use std::path::Path;

use super::Settings;
use super::value::{RawValue, ValueError, ValueRef};

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
    Key::with_flag("data", "data", |all| ValueRef::Directory(&mut all.data)),
    Key::with_flag("apis", "api", |all| ValueRef::Apis(&mut all.apis)),
    Key::with_flag("public_url", "public-url", |all| {
        ValueRef::Url(&mut all.server.public_url)
    }),
    Key::with_flag("trust_forwarded", "trust-forwarded", |all| {
        ValueRef::Switch(&mut all.server.trust_forwarded)
    }),
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
    Key::new("sessions.lifetime", |all| {
        ValueRef::Span(&mut all.server.session_lifetime)
    }),
    Key::new("sessions.idle", |all| {
        ValueRef::OptionalSpan(&mut all.server.session_idle)
    }),
    Key::new("sessions.chunks", |all| {
        ValueRef::Chunks(&mut all.server.chunks)
    }),
    Key::new("limits.small_media", |all| {
        ValueRef::Size(&mut all.server.limits.small_media)
    }),
    Key::new("limits.metadata", |all| {
        ValueRef::SizeInMemory(&mut all.server.limits.metadata)
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
    Key::new("limits.requests", |all| {
        ValueRef::Count(&mut all.server.limits.requests)
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
