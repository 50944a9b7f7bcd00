//! The failure of an attempt to get a certificate: its cause, the time of the next attempt, and a
//! hint for the operator.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime};

use instant_acme::Problem;
use thiserror::Error;

use super::client::Refusal;
use super::issued::NotACertificate;
use super::state::StateError;

/// Longest description of a failure in the log, in characters. Authorities set no bound on their
/// texts.
const MAX_LEN: usize = 800;

/// A failed attempt.
#[derive(Debug, Error)]
pub(super) enum Failure {
    #[error("{step}")]
    Exchange {
        /// The step that failed, as a message.
        step: &'static str,
        source: instant_acme::Error,
        refusal: Option<Refusal>,
    },
    #[error("the authority could not validate {domain}")]
    Validation {
        domain: String,
        #[source]
        problem: Option<Problem>,
    },
    #[error("the authority does not offer the challenge tls-alpn-01 for {domain}")]
    NoChallenge { domain: String },
    #[error("a challenge cannot be answered")]
    Challenge(#[source] rcgen::Error),
    #[error("the authority's reply is not a certificate")]
    Unusable(#[from] NotACertificate),
    #[error("the issued certificate is valid only until {}, so it is already due for renewal", humantime::format_rfc3339_seconds(*not_after))]
    ShortLived { not_after: SystemTime },
    #[error("the issued certificate lacks some of the domains")]
    OtherDomains,
    #[error("the ACME account cannot be read or stored")]
    State(#[from] StateError),
    #[error("the authority did not complete the order within {} s", .0.as_secs())]
    Timeout(Duration),
}

impl Failure {
    /// Returns the least time until the next attempt that the authority has asked for.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let Self::Exchange {
            source, refusal, ..
        } = self
        else {
            return None;
        };
        match source {
            instant_acme::Error::Timeout(Some(next)) => {
                Some(next.saturating_duration_since(Instant::now()))
            }
            _ => refusal.and_then(|refusal| refusal.retry_after),
        }
    }

    /// Whether the authority does not know the account.
    pub(super) fn is_of_unknown_account(&self) -> bool {
        self.problem() == Some("accountDoesNotExist")
    }

    /// Returns the last word of the type of the authority's problem (RFC 8555, section 6.7).
    fn problem(&self) -> Option<&str> {
        let problem = match self {
            Self::Exchange {
                source: instant_acme::Error::Api(problem),
                ..
            } => Some(problem),
            Self::Validation { problem, .. } => problem.as_ref(),
            _ => None,
        };
        problem?.r#type.as_deref()?.rsplit(':').next()
    }

    /// Returns a hint for the operator.
    pub(super) fn next_step(&self) -> &'static str {
        match (self.problem(), self) {
            (Some("rateLimited"), _) => {
                "wait: the authority limits orders; for tests use its staging directory"
            }
            (Some("caa"), _) => "let the CAA records of the domain allow this authority",
            (Some("externalAccountRequired"), _) => {
                "use another authority: this one requires external account binding"
            }
            (Some("rejectedIdentifier" | "unsupportedIdentifier"), _) => {
                "check acme.domains: the authority issues no certificate for one of them"
            }
            (Some("invalidContact" | "unsupportedContact"), _) => "check acme.contact",
            (Some("userActionRequired"), _) => {
                "read the new terms of the authority, and agree to them there"
            }
            (Some("accountDoesNotExist"), _) => "nothing: the next attempt makes a new account",
            (Some("connection" | "dns" | "tls" | "unauthorized" | "incorrectResponse"), _)
            | (_, Self::Validation { .. }) => {
                "let each of acme.domains lead to this server: the authority connects to port 443 \
                 of its addresses, and TLS must end here and not in a proxy"
            }
            (_, Self::Exchange { .. }) => {
                "check that this machine reaches acme.directory; one of a private authority may need \
                 acme.root_file"
            }
            (_, Self::NoChallenge { .. }) => "use an authority that has tls-alpn-01",
            (_, Self::ShortLived { .. }) => "check the clock of this machine",
            (_, Self::State(_)) => {
                "let the data directory be writable by the user that the server runs as"
            }
            (_, Self::Timeout(_)) => "look at the authority's own reports of its state",
            (_, Self::Challenge(_) | Self::Unusable(_) | Self::OtherDomains) => {
                "ask the authority: the certificate differs from the order"
            }
        }
    }

    /// Returns the failure with its causes, on one line.
    pub(super) fn description(&self) -> String {
        let mut text = self.to_string();
        if let Self::Exchange {
            refusal: Some(refusal),
            ..
        } = self
        {
            write!(text, " (status {})", refusal.status.as_u16()).ok();
        }
        let mut error: &dyn StdError = self;
        while let Some(cause) = error.source() {
            write!(text, ": {cause}").ok();
            error = cause;
        }
        let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        plain.take(MAX_LEN).collect()
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn problem(kind: &str, detail: &str) -> Problem {
        Problem {
            r#type: Some(format!("urn:ietf:params:acme:error:{kind}")),
            detail: Some(detail.to_owned()),
            status: None,
            subproblems: Vec::new(),
        }
    }

    fn refused(kind: &str, detail: &str, retry_after: Option<u64>) -> Failure {
        Failure::Exchange {
            step: "an order cannot be made",
            source: instant_acme::Error::Api(problem(kind, detail)),
            refusal: Some(Refusal {
                status: StatusCode::TOO_MANY_REQUESTS,
                retry_after: retry_after.map(Duration::from_secs),
            }),
        }
    }

    #[test]
    fn limits_of_the_authority_are_told_and_kept() {
        let failure = refused("rateLimited", "too many", Some(7200));
        assert_eq!(failure.retry_after(), Some(Duration::from_secs(7200)));
        assert!(failure.next_step().contains("staging"));
        let text = failure.description();
        assert!(
            text.starts_with("an order cannot be made (status 429): "),
            "{text}"
        );
        assert!(text.contains("too many"), "{text}");
    }

    #[test]
    fn foreign_text_is_one_short_line() {
        let text =
            refused("caa", &format!("a\nb\u{1b}[31m{}", "x".repeat(5000)), None).description();
        assert!(
            !text.chars().any(char::is_control) && text.contains("a b [31m"),
            "{text}"
        );
        assert_eq!(text.chars().count(), MAX_LEN);
    }

    #[test]
    fn each_kind_of_problem_has_its_next_step() {
        let validation = |kind| Failure::Validation {
            domain: "up.example.com".into(),
            problem: Some(problem(kind, "")),
        };
        for (failure, expected) in [
            (refused("caa", "", None), "CAA"),
            (validation("caa"), "CAA"),
            (validation("dns"), "port 443"),
            (validation("something new"), "port 443"),
            (refused("serverInternal", "", None), "acme.directory"),
            (refused("rejectedIdentifier", "", None), "acme.domains"),
            (refused("invalidContact", "", None), "acme.contact"),
            (Failure::Timeout(Duration::from_secs(600)), "reports"),
        ] {
            let step = failure.next_step();
            assert!(step.contains(expected), "{failure}: {step}");
        }
        assert!(refused("accountDoesNotExist", "", None).is_of_unknown_account());
        assert!(!refused("unauthorized", "", None).is_of_unknown_account());
    }
}
