//! Settings without an effect, because another setting is missing or overrides them. They are no
//! error, because servers with different settings may share a file. But an operator who sets
//! `limits.bytes_per_principal` believes that it holds.
//!
//! A default never counts, and neither does a value that switches something off. Settings that are
//! refused without others, such as `tls_key` without `tls_cert`, are rules of [`key`](super::key).

use std::fmt;

use windlass_server::config::SessionAuth;

use super::key::{demands_certificates, is_beyond_loopback};
use super::{Merged, Origin, Settings};

/// Facts outside the settings that decide whether a setting has an effect.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Surroundings {
    /// Whether any credentials lead to a principal.
    pub(crate) has_principals: bool,
    /// Whether client certificates lead to a principal.
    pub(crate) has_certificates: bool,
    /// Whether a description names services of the operator.
    pub(crate) calls_services: bool,
    /// Whether the API `files` is served.
    pub(crate) serves_files: bool,
    /// Whether the API `gmail` is served.
    #[cfg_attr(
        not(feature = "gmail"),
        expect(dead_code, reason = "only the settings of Gmail need it")
    )]
    pub(crate) serves_gmail: bool,
}

/// A setting without an effect.
#[derive(Debug)]
pub(crate) struct IdleSetting<'a> {
    key: &'static str,
    origin: &'a Origin,
    reason: &'static str,
}

impl fmt::Display for IdleSetting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            origin,
            reason,
        } = self;
        write!(f, "{key} ({origin}) has no effect: {reason}")
    }
}

impl Merged {
    /// Returns the settings that were set and have no effect.
    pub(crate) fn idle(&self, around: Surroundings) -> impl Iterator<Item = IdleSetting<'_>> {
        let idle = CASES
            .iter()
            .filter(move |case| (case.is_idle)(&self.settings, around));
        idle.filter_map(|case| {
            Some(IdleSetting {
                key: case.key,
                origin: self.origins.get(case.key)?,
                reason: case.reason,
            })
        })
    }
}

/// A case in which a setting has no effect, whatever its origin is.
struct Case {
    key: &'static str,
    reason: &'static str,
    is_idle: fn(&Settings, Surroundings) -> bool,
}

const NOBODY: &str =
    "no credentials are configured (auth.file, auth.token_file), so requests have no principal";

const NO_SERVICES: &str = "no description of a served API names a service";

const NO_ORIGINS: &str = "cors.origins and cors.apis name no origin";

#[cfg(feature = "gmail")]
const NO_GMAIL: &str = "the API gmail is not served";

const CASES: &[Case] = &[
    Case {
        key: "tls_client_ca",
        reason: "auth.file names no certificates, and clients may do without one",
        is_idle: |all, around| {
            all.tls_client_ca.is_some() && !around.has_certificates && !demands_certificates(all)
        },
    },
    Case {
        key: "tls_client_certificates",
        reason: "without tls_client_ca no certificate is asked for",
        is_idle: |all, _| all.tls_client_ca.is_none(),
    },
    Case {
        key: "access",
        reason: NOBODY,
        is_idle: |all, around| !all.access.is_empty() && !around.has_principals,
    },
    Case {
        key: "hsts",
        reason: "no client reaches the server by https (tls_cert, acme.domains, an https \
                 public_url, or trust_forwarded)",
        is_idle: |all, _| !all.server.hsts.is_zero() && !may_be_https(all),
    },
    Case {
        key: "allow_unauthenticated",
        reason: "nobody without credentials can reach the server from another machine",
        is_idle: |all, _| {
            let asks_everybody = all.auth_token.is_some() && all.auth_file.is_none();
            let is_open = is_beyond_loopback(all) && !demands_certificates(all);
            all.allow_unauthenticated && (asks_everybody || !is_open)
        },
    },
    Case {
        key: "acme.agree_to_terms",
        reason: "acme.domains names no domain",
        is_idle: |all, _| all.acme.options.agree_to_terms && !all.acme.is_wanted(),
    },
    Case {
        key: "acme.directory",
        reason: "acme.domains names no domain",
        is_idle: |all, _| !all.acme.is_wanted(),
    },
    Case {
        key: "auth.unowned",
        reason: NOBODY,
        is_idle: |_, around| !around.has_principals,
    },
    Case {
        key: "backends.secret_file",
        reason: NO_SERVICES,
        is_idle: |_, around| !around.calls_services,
    },
    Case {
        key: "backends.private_addresses",
        reason: NO_SERVICES,
        is_idle: |all, around| all.backend_private_addresses && !around.calls_services,
    },
    Case {
        key: "backends.timeout",
        reason: NO_SERVICES,
        is_idle: |_, around| !around.calls_services,
    },
    Case {
        key: "cors.credentials",
        reason: NO_ORIGINS,
        is_idle: |all, _| all.cors.credentials && has_no_origins(all),
    },
    Case {
        key: "cors.max_age",
        reason: NO_ORIGINS,
        is_idle: |all, _| has_no_origins(all),
    },
    Case {
        key: "sessions.idle",
        reason: "sessions.lifetime ends a session as soon",
        is_idle: |all, _| all.server.session_idle == Some(all.server.session_lifetime),
    },
    Case {
        key: "sessions.auth",
        reason: NOBODY,
        is_idle: |all, around| {
            all.server.session_auth == SessionAuth::Owner && !around.has_principals
        },
    },
    Case {
        key: "limits.connections_per_address",
        reason: "the limit for all addresses together is not higher; it is limits.connections, or \
                 limits.requests with trust_forwarded",
        is_idle: |all, _| {
            let limits = &all.server.limits;
            let of_all = if all.server.trust_forwarded {
                limits.requests
            } else {
                limits.connections
            };
            limits.connections_per_address >= of_all
        },
    },
    Case {
        key: "limits.resets_per_address",
        reason: "trust_forwarded turns it off: the proxy's connections carry the requests of all clients",
        is_idle: |all, _| all.server.limits.resets_per_address > 0 && all.server.trust_forwarded,
    },
    Case {
        key: "limits.requests_per_principal",
        reason: NOBODY,
        is_idle: |all, around| {
            all.server.limits.requests_per_principal > 0 && !around.has_principals
        },
    },
    Case {
        key: "limits.sessions_per_principal",
        reason: NOBODY,
        is_idle: |all, around| {
            all.server.limits.sessions_per_principal > 0 && !around.has_principals
        },
    },
    Case {
        key: "limits.bytes_per_principal",
        reason: NOBODY,
        is_idle: |all, around| all.server.limits.bytes_per_principal > 0 && !around.has_principals,
    },
    Case {
        key: "files.path",
        reason: "the API files is not served",
        is_idle: |_, around| !around.serves_files,
    },
    #[cfg(feature = "gmail")]
    Case {
        key: "gmail.me",
        reason: NO_GMAIL,
        is_idle: |_, around| !around.serves_gmail,
    },
    #[cfg(feature = "gmail")]
    Case {
        key: "gmail.domains",
        reason: NO_GMAIL,
        is_idle: |_, around| !around.serves_gmail,
    },
    #[cfg(feature = "gmail")]
    Case {
        key: "gmail.relay",
        reason: NO_GMAIL,
        is_idle: |_, around| !around.serves_gmail,
    },
    #[cfg(feature = "gmail")]
    Case {
        key: "gmail.relay_password_file",
        reason: NO_GMAIL,
        is_idle: |_, around| !around.serves_gmail,
    },
];

/// Whether clients may reach the server by https URLs.
fn may_be_https(settings: &Settings) -> bool {
    let url = settings.server.public_url.as_deref();
    settings.tls_cert.is_some()
        || settings.acme.is_wanted()
        || settings.server.trust_forwarded
        || url.is_some_and(|url| url.starts_with("https:"))
}

fn has_no_origins(settings: &Settings) -> bool {
    settings.cors.origins.is_empty() && settings.cors.apis.is_empty()
}

#[cfg(test)]
mod tests;
