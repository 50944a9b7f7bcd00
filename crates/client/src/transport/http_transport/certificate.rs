//! Why a server's certificate is not trusted, and why TLS failed otherwise, in words.

use std::error::Error as StdError;

use rustls::CertificateError;

/// Most names of a certificate that are shown.
const MAX_NAMES: usize = 5;

/// Describes a problem with a server's certificate for users. The errors of the TLS library are
/// only the names of its types.
pub(super) fn problem(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired, or the clock of this machine is wrong".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet, or the clock of this machine is wrong".to_owned()
        }
        CertificateError::NotValidForName => "its certificate is for another name".to_owned(),
        CertificateError::NotValidForNameContext { presented, .. } => other_names(presented),
        CertificateError::UnknownIssuer => {
            "its certificate is from an authority that is not known here".to_owned()
        }
        CertificateError::Revoked => "its certificate is revoked".to_owned(),
        CertificateError::BadSignature => {
            "its certificate is not signed by the authority of that name that is known here"
                .to_owned()
        }
        CertificateError::BadEncoding => "its certificate is damaged".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            NOT_FOR_SERVERS.to_owned()
        }
        CertificateError::UnknownRevocationStatus
        | CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => {
            "nothing current says whether its certificate is revoked".to_owned()
        }
        CertificateError::Other(other) => of_verifier(&*other.0).to_owned(),
        _ => "its certificate is not valid, or uses what is not supported here".to_owned(),
    }
}

const NOT_FOR_SERVERS: &str = "its certificate is not one for servers";

/// Describes an error of the verifier by its debug text. Its types are private to the TLS library.
fn of_verifier(error: &(dyn StdError + 'static)) -> &'static str {
    let name = format!("{error:?}");
    if name.contains("CaUsedAsEndEntity") {
        "its certificate is one of an authority (CA:TRUE), as `openssl req -x509` makes it; \
         a server needs one with CA:FALSE"
    } else if name.contains("EndEntityUsedAsCa") {
        "the certificate that has signed its own is not one of an authority"
    } else if name.contains("Eku") {
        NOT_FOR_SERVERS
    } else {
        "its certificate is not valid, or uses what is not supported here"
    }
}

/// Says why TLS failed for a reason other than the server's certificate.
pub(super) fn tls_problem(error: &rustls::Error) -> String {
    match error {
        // The numbers of alerts are in RFC 8446, section 6.
        rustls::Error::AlertReceived(alert) => {
            format!("the server ended TLS with the alert {}", u8::from(*alert))
        }
        rustls::Error::PeerIncompatible(_) => {
            "the server offers no version or cipher of TLS that is supported here".to_owned()
        }
        rustls::Error::NoApplicationProtocol => {
            "the server offers no version of HTTP that is supported here".to_owned()
        }
        _ => {
            "TLS failed: the server, or something on the way, does not follow its rules".to_owned()
        }
    }
}

/// Says for which names a certificate is. They come as `DnsName("farm.example")`.
fn other_names(presented: &[String]) -> String {
    let inner = |name: &String| {
        let inner = name.split_once('(').map_or(&**name, |(_, inner)| inner);
        inner.trim_end_matches(')').trim_matches('"').to_owned()
    };
    let names: Vec<_> = presented.iter().take(MAX_NAMES).map(inner).collect();
    let more = if presented.len() > MAX_NAMES {
        ", .."
    } else {
        ""
    };
    if names.is_empty() {
        return "its certificate has no name".to_owned();
    }
    format!(
        "its certificate is for another name: {}{more}",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;
    use rustls::pki_types::{ServerName, UnixTime};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{self:?}")]
    enum OfVerifier {
        CaUsedAsEndEntity,
        MalformedExtensions,
    }

    #[test]
    fn tls_problems_are_words_for_users() {
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::HandshakeFailure);
        let incompatible = rustls::PeerIncompatible::NoCipherSuitesInCommon;
        for (error, expected) in [
            (alert, "alert 40"),
            (
                rustls::Error::PeerIncompatible(incompatible),
                "no version or cipher",
            ),
            (rustls::Error::DecryptError, "TLS failed"),
        ] {
            let words = tls_problem(&error);
            assert!(words.contains(expected), "{error:?}: {words}");
        }
    }

    #[test]
    fn certificate_problems_are_words_for_users() {
        let other = |error: OfVerifier| CertificateError::Other(OtherError(Arc::new(error)));
        let time = UnixTime::since_unix_epoch(std::time::Duration::ZERO);
        let expired = CertificateError::ExpiredContext {
            time,
            not_after: time,
        };
        let for_name = |presented: &[&str]| CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("farm.example").unwrap(),
            presented: presented.iter().map(ToString::to_string).collect(),
        };
        for (error, expected) in [
            (expired, "has expired"),
            (CertificateError::UnknownIssuer, "not known here"),
            (other(OfVerifier::CaUsedAsEndEntity), "CA:FALSE"),
            (other(OfVerifier::MalformedExtensions), "is not valid"),
            (CertificateError::NotValidForName, "for another name"),
            (for_name(&[]), "has no name"),
            (
                for_name(&["DnsName(\"localhost\")", "IpAddress(127.0.0.1)"]),
                "for another name: localhost, 127.0.0.1",
            ),
        ] {
            let words = problem(&error);
            assert!(words.contains(expected), "{error:?}: {words}");
            assert!(!words.contains(&format!("{error:?}")), "{words}");
        }
    }
}
