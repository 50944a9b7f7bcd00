use super::*;

fn origin<'a>(
    settings: &'a Settings,
    headers: &[(&'static str, &'static str)],
    scheme: Scheme,
) -> Origin<'a> {
    let headers = headers
        .iter()
        .map(|(name, value)| {
            let value = http::HeaderValue::from_bytes(value.as_bytes());
            (name.parse().unwrap(), value.unwrap())
        })
        .collect();
    let local = LocalAddress {
        address: "127.0.0.1:8080".parse().unwrap(),
        scheme,
    };
    let uri = Uri::from_static("/upload/farm/v1/animals");
    Origin::of(settings, "", &uri, &headers, Some(local))
}

fn check(settings: &Settings, headers: &[(&'static str, &'static str)], expected: &str) {
    let origin = origin(settings, headers, Scheme::Http);
    assert_eq!(origin.base_url(None), expected);
}

#[test]
fn the_configured_url_wins() {
    let settings = Settings {
        public_url: Some("https://up.example.com/".into()),
        trust_forwarded: true,
        ..Settings::default()
    };
    let headers = [("host", "other"), ("x-forwarded-host", "proxy")];
    check(&settings, &headers, "https://up.example.com");
}

#[test]
fn forwarded_headers_count_only_when_trusted() {
    let headers = [
        ("host", "inner:8080"),
        (
            "forwarded",
            "for=1.2.3.4;host=evil, for=5.6.7.8;proto=https;host=\"up.example.com\"",
        ),
    ];
    check(&Settings::default(), &headers, "http://inner:8080");
    let settings = Settings {
        trust_forwarded: true,
        ..Settings::default()
    };
    check(&settings, &headers, "https://up.example.com");
    let headers = [
        ("host", "inner"),
        ("x-forwarded-host", "evil, up:99"),
        ("x-forwarded-proto", "https"),
    ];
    check(&settings, &headers, "https://up:99");
}

#[test]
fn client_is_the_one_that_the_trusted_proxy_has_added() {
    let trusting = Settings {
        trust_forwarded: true,
        ..Settings::default()
    };
    let default = Settings::default();
    let stated = |settings, headers: &[_]| origin(settings, headers, Scheme::Http).stated_client();
    let address = |text: &str| StatedClient::Address(text.parse().unwrap());
    let (is_for, is_forwarded) = ("x-forwarded-for", "forwarded");
    for (name, value, expected) in [
        (is_for, "192.0.2.1", address("192.0.2.1")),
        (is_for, "10.0.0.1, 192.0.2.1:4711", address("192.0.2.1")),
        (is_for, "\u{fc}, 192.0.2.1", address("192.0.2.1")),
        (is_for, "\", 192.0.2.1", address("192.0.2.1")),
        (is_for, "2001:db8::1", address("2001:db8::1")),
        (is_for, "", StatedClient::Unclear),
        (is_for, "192.0.2.1, unknown", StatedClient::Unclear),
        (
            is_forwarded,
            "for=\"[2001:db8::1]:80\";proto=https",
            address("2001:db8::1"),
        ),
        (
            is_forwarded,
            "for=192.0.2.1;host=\"a, for=10.0.0.1\"",
            address("192.0.2.1"),
        ),
        (
            is_forwarded,
            "for=192.0.2.1;host=\"a;for=10.0.0.1\"",
            address("192.0.2.1"),
        ),
        (
            is_forwarded,
            "for=\"10.0.0.1, for=192.0.2.1",
            address("192.0.2.1"),
        ),
        (
            is_forwarded,
            "for=10.0.0.1, for=unknown",
            StatedClient::Unclear,
        ),
        (is_forwarded, "proto=https", StatedClient::Nothing),
    ] {
        let headers = [(name, value)];
        assert_eq!(stated(&trusting, &headers), Some(expected), "{value}");
        assert_eq!(stated(&default, &headers), None, "{value}");
    }
    assert_eq!(stated(&trusting, &[]), Some(StatedClient::Nothing));

    let both = |forwarded| [(is_for, "192.0.2.1"), (is_forwarded, forwarded)];
    let agreed = stated(&trusting, &both("for=192.0.2.1"));
    assert_eq!(agreed, Some(address("192.0.2.1")));
    let contradicted = stated(&trusting, &both("for=10.0.0.1"));
    assert_eq!(contradicted, Some(StatedClient::Unclear));
}

#[test]
fn a_host_without_its_port_gets_the_port_of_the_socket() {
    check(
        &Settings::default(),
        &[("host", "127.0.0.1")],
        "http://127.0.0.1:8080",
    );
    check(
        &Settings::default(),
        &[("host", "localhost")],
        "http://localhost:8080",
    );
    check(
        &Settings::default(),
        &[("host", "up.example.com")],
        "http://up.example.com",
    );
    check(
        &Settings::default(),
        &[("host", "localhost:81")],
        "http://localhost:81",
    );
}

#[test]
fn without_a_host_the_address_of_the_socket_is_used() {
    check(&Settings::default(), &[], "http://127.0.0.1:8080");
    check(
        &Settings::default(),
        &[("host", "no host at all")],
        "http://127.0.0.1:8080",
    );
}

#[test]
fn under_tls_urls_say_https_unless_a_trusted_proxy_knows_better() {
    let default = Settings::default();
    let url = |settings, headers| origin(settings, headers, Scheme::Https).base_url(None);
    assert_eq!(url(&default, &[]), "https://127.0.0.1:8080");
    assert_eq!(url(&default, &[("host", "a.b")]), "https://a.b");
    let trusting = Settings {
        trust_forwarded: true,
        ..Settings::default()
    };
    let headers = [("host", "a.b"), ("x-forwarded-proto", "http")];
    assert_eq!(url(&trusting, &headers), "http://a.b");
    assert_eq!(url(&trusting, &headers[..1]), "https://a.b");
}

#[test]
fn a_port_is_added_unless_it_is_the_default_one_of_the_scheme() {
    for (scheme, port, expected) in [
        (Scheme::Http, 80, "localhost"),
        (Scheme::Http, 443, "localhost:443"),
        (Scheme::Https, 443, "localhost"),
        (Scheme::Https, 80, "localhost:80"),
    ] {
        let local = LocalAddress {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            scheme,
        };
        let authority = Authority::from_static("localhost");
        assert_eq!(with_port(&authority, Some(local)), expected);
    }
}

#[test]
fn at_a_host_with_apis_of_its_own_the_configured_url_names_that_host() {
    let virtual_host = "disk.example".parse().unwrap();
    for (url, expected) in [
        ("https://up.example.com/", "https://disk.example"),
        (
            "https://up.example.com:8443/base/",
            "https://disk.example:8443/base",
        ),
        ("http://[::1]:80", "http://disk.example:80"),
    ] {
        let settings = Settings {
            public_url: Some(url.into()),
            ..Settings::default()
        };
        let origin = origin(&settings, &[], Scheme::Http);
        assert_eq!(origin.base_url(Some(&virtual_host)), expected);
    }
}

#[test]
fn the_host_is_what_a_trusted_proxy_says_or_else_the_requests_own() {
    let headers = [("host", "Inner.:8080"), ("x-forwarded-host", "[::1]:443")];
    let host = |trust_forwarded| {
        let settings = Settings {
            trust_forwarded,
            ..Settings::default()
        };
        let host = origin(&settings, &headers, Scheme::Http).host();
        host.map(|host| host.to_string())
    };
    assert_eq!(host(false).as_deref(), Some("inner"));
    assert_eq!(host(true).as_deref(), Some("[::1]"));
}

#[test]
fn the_target_says_more_about_the_host_than_a_header() {
    let settings = Settings::default();
    let headers = [(HOST, "b.example".parse().unwrap())].into_iter().collect();
    let uri = Uri::from_static("http://A.example:81/upload/farm/v1/animals");
    let origin = Origin::of(&settings, "/media", &uri, &headers, None);
    assert_eq!(origin.host(), "a.example".parse().ok());
    assert_eq!(origin.base_url(None), "http://A.example:81/media");
}

#[test]
fn mount_path_is_a_path_without_a_slash_at_its_end() {
    for (text, path) in [
        ("", Some("")),
        ("/", Some("")),
        ("/media", Some("/media")),
        ("/a/b.c/", Some("/a/b.c")),
        ("media", None),
        ("//host/media", None),
        ("/a//b", None),
        ("/a?b", None),
        ("/a#b", None),
        ("/a b", None),
        ("http://host/media", None),
    ] {
        assert_eq!(mount_path(text).as_deref(), path, "{text:?}");
    }
}
