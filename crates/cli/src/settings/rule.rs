//! Bounds of values and rules between values, checked after all sources are merged.

use std::time::Duration;

use super::Settings;

const KIB: u64 = 1024;

/// A rule, reported at the key where it is easiest to correct.
pub(super) struct Rule {
    pub(super) key: &'static str,
    pub(super) requirement: &'static str,
    holds: fn(&Settings) -> bool,
}

const RULES: &[Rule] = &[
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
        key: "apis",
        requirement: "must name at least one API",
        holds: |all| !all.apis.is_empty(),
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
        key: "free_space.hard",
        requirement: "must not be more than free_space.soft",
        holds: |all| all.server.free_space.hard <= all.server.free_space.soft,
    },
];

/// Returns the first violated rule.
pub(super) fn first_violated(settings: &Settings) -> Option<&'static Rule> {
    RULES.iter().find(|rule| !(rule.holds)(settings))
}
