use windlass_store::Timestamp;

use super::*;
use crate::outbound::NoOutbound;

fn backends(secret: &str) -> Backends {
    let secret = secret.parse().expect("a secret");
    Backends::new(Arc::new(NoOutbound), secret, OutboundAddresses::Public)
}

/// The example of the libraries of Standard Webhooks.
#[test]
fn requests_are_signed_as_standard_webhooks_says() {
    let backends = backends("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let mut request = Request::new(Bytes::from_static(b"{\"test\": 2432232314}"));
    let now = Timestamp::from_millis(1_614_265_330_999);
    backends.sign(&mut request, "msg_p5jXN8AQM9LWM0D4loKWxJek", now);
    let header = |name| request.headers()[name].to_str().expect("a text");
    assert_eq!(header("webhook-timestamp"), "1614265330");
    assert_eq!(
        header("webhook-signature"),
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    );
}

#[test]
fn secrets_are_of_24_to_64_bytes_and_are_not_shown() {
    for (len, fits) in [(23, false), (24, true), (64, true), (65, false)] {
        let text = STANDARD.encode(vec![7; len]);
        assert_eq!(text.parse::<ServiceSecret>().is_ok(), fits, "{len}");
        let text = format!("whsec_{text}\n");
        assert_eq!(text.parse::<ServiceSecret>().is_ok(), fits, "{len}");
    }
    assert!("s3cret, not base64".parse::<ServiceSecret>().is_err());
    let shown = format!("{:?}", backends(&STANDARD.encode([7; 32])));
    assert_eq!(shown, "Backends { .. }");
}

#[test]
fn names_lead_to_public_addresses_and_addresses_to_themselves() {
    let backends = backends(&STANDARD.encode([7; 32]));
    for (url, expected) in [
        ("http://127.0.0.1:9000/", OutboundAddresses::Any),
        ("http://[::1]:9000/", OutboundAddresses::Any),
        ("http://LocalHost/", OutboundAddresses::Any),
        ("https://backend.example/", OutboundAddresses::Public),
        ("https://localhost.example/", OutboundAddresses::Public),
    ] {
        let uri = url.parse().expect("a URL");
        assert_eq!(backends.addresses_for(&uri), expected, "{url}");
    }
}

#[test]
fn messages_of_services_are_cut_and_have_no_control_characters() {
    for (body, expected) in [
        (r#"{"error": {"message": "no"}}"#, "no"),
        (r#"{"error": "no"}"#, "no"),
        (r#"{"message": "no\u001b[31m"}"#, "no[31m"),
        ("<html>", "the service behind this method refuses the call"),
    ] {
        assert_eq!(message(body.as_bytes()), expected, "{body}");
    }
    let long = format!(r#"{{"error": "{}"}}"#, "x".repeat(2 * MAX_MESSAGE));
    assert_eq!(message(long.as_bytes()).len(), MAX_MESSAGE);
}
