//! Classifies the errors of the HTTP library: no such host, no TLS, no HTTP, or no trust.

use std::error::Error as StdError;
use std::io;

use rustls::{AlertDescription, InvalidMessage};

use super::certificate;

/// The texts of resolvers for a name that does not exist: of glibc, of musl, and of the BSD
/// systems. Other errors, such as "Temporary failure in name resolution", may be temporary.
const UNKNOWN_HOST: [&str; 5] = [
    "Name or service not known",
    "No address associated with hostname",
    "Name does not resolve",
    "Name has no usable address",
    "nodename nor servname provided, or not known",
];

/// Returns whether an error means that no host has the name. The standard library has no other sign
/// of it than the text of the resolver.
pub(super) fn is_unknown_host(error: &(dyn StdError + 'static)) -> bool {
    let text = error.to_string();
    let reason = text.strip_prefix("failed to lookup address information: ");
    reason.is_some_and(|reason| UNKNOWN_HOST.contains(&reason))
        || error.source().is_some_and(is_unknown_host)
}

/// Returns a description of the problem if the error is about the server's certificate.
pub(super) fn certificate_error(error: &(dyn StdError + 'static)) -> Option<String> {
    find_tls_error(error, &|error| match error {
        rustls::Error::InvalidCertificate(error) => Some(certificate::problem(error)),
        _ => None,
    })
}

/// Returns whether an error means that the server replied without TLS: its bytes do not begin with
/// a TLS record.
pub(super) fn is_not_tls(error: &(dyn StdError + 'static)) -> bool {
    let not_tls = rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType);
    find_tls_error(error, &|error| (*error == not_tls).then_some(())).is_some()
}

/// The text of `hyper` for a reply that does not begin with a version of HTTP. Only the texts of
/// its parse errors differ.
const NOT_HTTP: &str = "invalid HTTP version parsed";

/// Returns whether an error means that the server's bytes do not begin with an HTTP reply.
pub(super) fn is_not_http(error: &(dyn StdError + 'static)) -> bool {
    error.to_string() == NOT_HTTP || error.source().is_some_and(is_not_http)
}

/// Applies `of` to the TLS error that is `error` or one of its causes.
pub(super) fn find_tls_error<T>(
    error: &(dyn StdError + 'static),
    of: &impl Fn(&rustls::Error) -> Option<T>,
) -> Option<T> {
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return of(error);
    }
    // `io::Error::source` skips the error inside and returns the source of that error, so the error
    // inside is examined separately.
    let inside = error.downcast_ref().and_then(io::Error::get_ref);
    inside
        .and_then(|inside| find_tls_error(inside, of))
        .or_else(|| find_tls_error(error.source()?, of))
}

/// The alerts by which a server refuses a client's certificate, or demands one (RFC 8446, section
/// 6.2).
const REFUSALS: [AlertDescription; 8] = [
    AlertDescription::AccessDenied,
    AlertDescription::BadCertificate,
    AlertDescription::CertificateExpired,
    AlertDescription::CertificateRequired,
    AlertDescription::CertificateRevoked,
    AlertDescription::CertificateUnknown,
    AlertDescription::UnknownCA,
    AlertDescription::UnsupportedCertificate,
];

/// Returns whether an error means that the server refuses the client's certificate, or demands one.
///
/// In TLS 1.3 the alert arrives after the handshake, when HTTP reads from the connection. The texts
/// are compared, because `h2` keeps nothing else of an error of the connection.
pub(super) fn is_certificate_refused(error: &(dyn StdError + 'static)) -> bool {
    let text = error.to_string();
    let says = |alert: &AlertDescription| {
        text.ends_with(&rustls::Error::AlertReceived(*alert).to_string())
    };
    REFUSALS.iter().any(says) || error.source().is_some_and(is_certificate_refused)
}

/// Returns whether the operating system closed the connection because the peer acknowledged no data
/// for too long (`TCP_USER_TIMEOUT`).
pub(super) fn timed_out(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>()
            && error.kind() == io::ErrorKind::TimedOut
        {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::TransportError;

    /// The standard library's error for a name that it cannot resolve, below the layers of an HTTP
    /// client.
    #[derive(Debug, thiserror::Error)]
    #[error("dns error")]
    struct Layer(#[source] io::Error);

    fn lookup_error(reason: &str) -> Layer {
        let text = format!("failed to lookup address information: {reason}");
        Layer(io::Error::other(text))
    }

    #[test]
    fn unknown_host_is_told_from_a_resolver_without_answer() {
        for reason in UNKNOWN_HOST {
            assert!(is_unknown_host(&lookup_error(reason)), "{reason}");
        }
        for reason in [
            "Temporary failure in name resolution",
            "Non-recoverable failure in name resolution",
            "Try again",
        ] {
            let error = lookup_error(reason);
            assert!(!is_unknown_host(&error), "{reason}");
            let connect = TransportError::Connect {
                host: "farm".to_owned(),
                source: error.into(),
            };
            let (first, rest) = reason.split_at(1);
            let expected = format!("cannot connect: {}{rest}", first.to_lowercase());
            assert_eq!(connect.summary(), expected);
        }
        assert!(!is_unknown_host(&io::Error::from(
            io::ErrorKind::ConnectionRefused
        )));
    }

    #[test]
    fn summary_of_a_refused_connection_has_no_number() {
        let source = io::Error::from_raw_os_error(rustix::io::Errno::CONNREFUSED.raw_os_error());
        let error = TransportError::Connect {
            host: "farm".to_owned(),
            source: source.into(),
        };
        assert_eq!(error.summary(), "cannot connect: connection refused");
    }
}
