//! Every setting, once: its key in the file, from which the name of its variable follows, its flag,
//! and the place of its value. Reading, printing and the check of the documentation use this list.

use std::path::Path;

use super::Settings;
use super::slot::{Given, Slot, ValueError};

/// What the names of all variables begin with.
pub(super) const PREFIX: &str = "WINDLASS_";

/// A setting.
#[derive(Debug)]
pub(super) struct Key {
    /// The key in the file, with the table that it is in: `limits.drain`.
    pub(super) name: &'static str,
    /// The flag without its dashes.
    pub(super) flag: Option<&'static str>,
    slot: fn(&mut Settings) -> Slot<'_>,
}

/// Keys outside of tables come first, and those of a table stand together, as in a file.
pub(super) const KEYS: &[Key] = &[
    Key::with_flag("listen", "listen", |all| Slot::Address(&mut all.listen)),
    Key::with_flag("tls_cert", "tls-cert", |all| Slot::File(&mut all.tls_cert)),
    Key::with_flag("tls_key", "tls-key", |all| Slot::File(&mut all.tls_key)),
    Key::with_flag("data", "data", |all| Slot::Directory(&mut all.data)),
    Key::with_flag("apis", "api", |all| Slot::Apis(&mut all.apis)),
    Key::with_flag("public_url", "public-url", |all| {
        Slot::Url(&mut all.server.public_url)
    }),
    Key::with_flag("trust_forwarded", "trust-forwarded", |all| {
        Slot::Switch(&mut all.server.trust_forwarded)
    }),
    Key::with_flag("log", "log", |all| Slot::Log(&mut all.log)),
    Key::new("durability", |all| {
        Slot::Durability(&mut all.store.durability)
    }),
    Key::new("page_cache", |all| Slot::Switch(&mut all.store.page_cache)),
    Key::with_flag(
        "allow_unsafe_filesystem",
        "allow-unsafe-filesystem",
        |all| Slot::Switch(&mut all.store.allow_unsafe_filesystem),
    ),
    Key::new("sessions.lifetime", |all| {
        Slot::Span(&mut all.server.session_lifetime)
    }),
    Key::new("sessions.idle", |all| {
        Slot::OptionalSpan(&mut all.server.session_idle)
    }),
    Key::new("sessions.chunks", |all| {
        Slot::Chunks(&mut all.server.chunks)
    }),
    Key::new("limits.small_media", |all| {
        Slot::Size(&mut all.server.limits.small_media)
    }),
    Key::new("limits.metadata", |all| {
        Slot::SizeInMemory(&mut all.server.limits.metadata)
    }),
    Key::new("limits.media_memory", |all| {
        Slot::Size(&mut all.server.limits.media_memory)
    }),
    Key::new("limits.reading_memory", |all| {
        Slot::Size(&mut all.server.limits.reading_memory)
    }),
    Key::new("limits.metadata_memory", |all| {
        Slot::Size(&mut all.server.limits.metadata_memory)
    }),
    Key::new("limits.reply_memory", |all| {
        Slot::Size(&mut all.server.limits.reply_memory)
    }),
    Key::new("limits.connections", |all| {
        Slot::Count(&mut all.server.limits.connections)
    }),
    Key::new("limits.requests", |all| {
        Slot::Count(&mut all.server.limits.requests)
    }),
    Key::new("limits.uploads", |all| {
        Slot::Count(&mut all.server.limits.uploads)
    }),
    Key::new("limits.downloads", |all| {
        Slot::Count(&mut all.server.limits.downloads)
    }),
    Key::new("limits.head_timeout", |all| {
        Slot::Span(&mut all.server.limits.head_timeout)
    }),
    Key::new("limits.body_timeout", |all| {
        Slot::Span(&mut all.server.limits.body_timeout)
    }),
    Key::new("limits.takeover_timeout", |all| {
        Slot::Span(&mut all.server.limits.takeover_timeout)
    }),
    Key::new("limits.gzip_ratio", |all| {
        Slot::Ratio(&mut all.server.limits.gzip_ratio)
    }),
    Key::new("limits.linger", |all| {
        Slot::Span(&mut all.server.limits.linger)
    }),
    Key::new("limits.drain", |all| {
        Slot::Span(&mut all.server.limits.drain)
    }),
    Key::new("checkpoints.bytes", |all| {
        Slot::Size(&mut all.server.checkpoints.bytes)
    }),
    Key::new("checkpoints.interval", |all| {
        Slot::Span(&mut all.server.checkpoints.interval)
    }),
    Key::new("free_space.soft", |all| {
        Slot::Size(&mut all.server.free_space.soft)
    }),
    Key::new("free_space.hard", |all| {
        Slot::Size(&mut all.server.free_space.hard)
    }),
    #[cfg(feature = "gmail")]
    Key::new("gmail.me", |all| Slot::Mailbox(&mut all.options.gmail.me)),
    #[cfg(feature = "gmail")]
    Key::new("gmail.domains", |all| {
        Slot::Domains(&mut all.options.gmail.domains)
    }),
    #[cfg(feature = "gmail")]
    Key::new("gmail.relay", |all| {
        Slot::Relay(&mut all.options.gmail.relay)
    }),
    #[cfg(feature = "gmail")]
    Key::new("gmail.relay_password_file", |all| {
        Slot::File(&mut all.relay_password)
    }),
];

impl Key {
    const fn new(name: &'static str, slot: fn(&mut Settings) -> Slot<'_>) -> Self {
        Self {
            name,
            flag: None,
            slot,
        }
    }

    const fn with_flag(
        name: &'static str,
        flag: &'static str,
        slot: fn(&mut Settings) -> Slot<'_>,
    ) -> Self {
        Self {
            name,
            flag: Some(flag),
            slot,
        }
    }

    /// The key of this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// The table of this name, if a feature that this build was made without has it.
    pub(super) fn excluded_table(name: &str) -> Option<&'static str> {
        (name == "gmail" && cfg!(not(feature = "gmail"))).then_some("gmail")
    }

    /// The key of this flag.
    pub(super) fn of_flag(flag: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.flag == Some(flag))
    }

    /// The key of this variable.
    pub(super) fn of_variable(variable: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.variable() == variable)
    }

    /// The name that is most like this one, if any is.
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

    /// The variable of the environment: `WINDLASS_LIMITS_DRAIN`.
    pub(super) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.replace('.', "_").to_uppercase())
    }

    /// The table that the key is in: `limits`.
    pub(super) fn table(&self) -> Option<&'static str> {
        self.name.split_once('.').map(|(table, _)| table)
    }

    /// The key within its table: `drain`.
    pub(super) fn leaf(&self) -> &'static str {
        self.name
            .split_once('.')
            .map_or(self.name, |(_, leaf)| leaf)
    }

    /// Sets the value. Paths in it are relative to `base`.
    pub(super) fn set(
        &self,
        settings: &mut Settings,
        given: &Given,
        base: &Path,
    ) -> Result<(), ValueError> {
        (self.slot)(settings).read(given, base)
    }

    /// The value as TOML; `None` when it is not set.
    pub(super) fn show(&self, settings: &Settings) -> Option<String> {
        (self.slot)(&mut settings.clone()).write()
    }
}
