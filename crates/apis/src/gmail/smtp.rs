//! The SMTP client for the relay.

use std::time::Duration;

use lettre::address::Envelope;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::{self, authentication};
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use windlass_server::handler::Failure;

use super::options::{Options, Relay, Security};

/// How long the relay may take to respond.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Replies that concern the credentials of this server and not the message (RFC 4954, 6).
const AUTHENTICATION_REPLIES: [u16; 5] = [454, 530, 534, 535, 538];

/// Why the relay did not accept a message: its reply, or the error of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It will not accept it later either.
    Permanent(Failure),
    /// It may accept it later.
    Transient(Failure),
}

/// Sends a message. On success the relay has accepted it.
pub(super) async fn send(
    options: &Options,
    relay: &Relay,
    from: &str,
    to: &[String],
    message: &[u8],
) -> Result<(), Refusal> {
    let envelope = envelope(from, to)?;
    let message = with_line_ends(message);
    // lettre appends a line end in any case.
    let message = message.strip_suffix(b"\r\n").unwrap_or(&message);
    let transport = transport(options, relay).map_err(|error| refusal(&error))?;
    let sent = transport.send_raw(&envelope, message).await;
    sent.map(drop).map_err(|error| refusal(&error))
}

/// Returns the message with CRLF as the only line end. Some relays accept a bare LF or CR as a line
/// end, so that an unescaped `.` between two of them would end the message and smuggle in commands
/// (RFC 5321, 2.3.8).
fn with_line_ends(message: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(message.len() + message.len() / 64);
    let mut before = 0;
    for &byte in message {
        match (before, byte) {
            (b'\r', b'\n') => {}
            (_, b'\r' | b'\n') => lines.extend_from_slice(b"\r\n"),
            _ => lines.push(byte),
        }
        before = byte;
    }
    lines
}

fn envelope(from: &str, to: &[String]) -> Result<Envelope, Refusal> {
    let address = |text: &str| text.parse::<lettre::Address>().map_err(not_sendable);
    let to: Result<Vec<_>, _> = to.iter().map(|to| address(to)).collect();
    Envelope::new(Some(address(from)?), to?).map_err(not_sendable)
}

fn not_sendable(error: impl std::fmt::Display) -> Refusal {
    Refusal::Permanent(Failure::new(error.to_string()))
}

fn transport(
    options: &Options,
    relay: &Relay,
) -> Result<AsyncSmtpTransport<Tokio1Executor>, smtp::Error> {
    let helo = relay.helo.as_deref().unwrap_or(options.me.domain());
    let tls = match relay.security {
        Security::None => Tls::None,
        Security::StartTls => Tls::Required(TlsParameters::new(relay.host.clone())?),
        Security::Tls => Tls::Wrapper(TlsParameters::new(relay.host.clone())?),
    };
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&relay.host)
        .port(relay.port)
        .hello_name(ClientId::Domain(helo.to_owned()))
        .timeout(Some(TIMEOUT))
        .tls(tls);
    if let Some(credentials) = &relay.credentials {
        builder = builder.credentials(authentication::Credentials::new(
            credentials.username.clone(),
            credentials.password.clone(),
        ));
    }
    Ok(builder.build())
}

fn refusal(error: &smtp::Error) -> Refusal {
    let status = error.status().map(u16::from);
    let is_about_us = status.is_some_and(|status| AUTHENTICATION_REPLIES.contains(&status));
    // A client error of lettre means that the relay cannot accept such a message.
    let is_permanent = (error.is_permanent() || error.is_client()) && !is_about_us;
    let reason = Failure {
        status,
        text: with_sources(error),
    };
    if is_permanent {
        Refusal::Permanent(reason)
    } else {
        Refusal::Transient(reason)
    }
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<_> = sources.map(ToString::to_string).collect();
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_converted_to_crlf() {
        let table: [(&[u8], &[u8]); 6] = [
            (b"", b""),
            (b"a\r\nb\r\n", b"a\r\nb\r\n"),
            (b"a\nb", b"a\r\nb"),
            (b"a\n.\r\nQUIT\r\n", b"a\r\n.\r\nQUIT\r\n"),
            (b"a\r.\rb", b"a\r\n.\r\nb"),
            (b"\r\r\n\n", b"\r\n\r\n\r\n"),
        ];
        for (message, expected) in table {
            assert_eq!(with_line_ends(message), expected, "{message:?}");
        }
    }
}
