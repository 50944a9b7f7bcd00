//! The PROXY protocol (docs/configuration.md, `proxy_protocol`).

use windlass_testkit::farm;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Request};
use windlass_testkit::wait;

use crate::server::with_configuration;

/// The header for a connection of the proxy itself.
const OWN: &str = "PROXY UNKNOWN\r\n";

fn server(limits: &str) -> ServerProcess {
    with_configuration(&format!("proxy_protocol = true\n[limits]\n{limits}"))
}

/// A connection that begins with this header.
fn connect(server: &ServerProcess, header: &str) -> RawPeer {
    let mut peer = RawPeer::connect(server.address());
    peer.send(header);
    peer
}

/// The header for a connection of a client to this address.
fn of(client: &str, destination: &str) -> String {
    format!("PROXY TCP4 {client} {destination} 4711 8443\r\n")
}

fn probe() -> Request {
    Request::new("GET", "/healthz")
}

#[test]
fn connections_are_limited_by_the_address_that_the_proxy_states_and_not_by_its_own() {
    let server = server("connections_per_address = 3\n");
    let of = |client| of(client, "198.51.100.1");
    let mut peers: Vec<_> = (0..3).map(|_| connect(&server, &of("192.0.2.1"))).collect();
    for peer in &mut peers {
        peer.exchange(&probe()).expect(200);
    }
    let mut further = connect(&server, &of("192.0.2.1"));
    assert!(further.is_closed(), "it is closed at once");
    connect(&server, &of("192.0.2.2"))
        .exchange(&probe())
        .expect(200);
    let mut own: Vec<_> = (0..5).map(|_| connect(&server, OWN)).collect();
    for peer in &mut own {
        peer.exchange(&probe()).expect(200);
    }
    let metrics = own[0].exchange(&Request::new("GET", "/metrics"));
    let limited = "windlass_limited_total{limit=\"connections_per_address\"} 1\n";
    assert!(metrics.text().contains(limited), "{}", metrics.text());
}

/// The header for a connection of a client to this network of IPv6.
fn of_network(network: &str) -> String {
    format!("PROXY TCP6 {network}::1 2001:db8::1 4711 8443\r\n")
}

#[test]
fn slow_uploads_of_one_owner_of_many_networks_leave_connections_to_others() {
    let server = server("connections = 24\nconnections_per_address = 3\n");
    let upload = "POST /upload/farm/v1/animals?uploadType=media HTTP/1.1\r\n\
        Host: farm.localhost\r\nContent-Type: image/png\r\nContent-Length: 1000\r\n\r\nx";
    // Nine networks of a /56: by /64 alone they could have all connections.
    let mut slow = Vec::new();
    for network in 0..9 {
        for _ in 0..3 {
            let header = of_network(&format!("2001:db8:1:10{network}"));
            slow.push(connect(&server, &format!("{header}{upload}")));
        }
    }
    // A connection for each request: while the server is full, it closes those that are idle.
    let ask = |request: &Request| {
        let mut other = connect(&server, &of_network("2001:db8:2:100"));
        other.exchange(request)
    };
    ask(&probe()).expect(200);
    let limited = "windlass_limited_total{limit=\"connections_per_address\"} 21\n";
    wait::until("the /56 has twice what a /64 has", || {
        let metrics = ask(&Request::new("GET", "/metrics"));
        metrics.text().contains(limited)
    });
}

#[test]
fn urls_follow_the_address_that_the_client_has_connected_to() {
    let server = server("");
    let mut peer = connect(&server, &of("192.0.2.1", "198.51.100.1"));
    let start = farm::start(&farm::named("Hilda")).header("Host", "198.51.100.1");
    let reply = peer.exchange(&start).expect(200);
    let location = reply.header("location").expect("it has a session URI");
    assert!(
        location.starts_with("http://198.51.100.1:8443/"),
        "{location}"
    );
}

#[test]
fn connection_without_a_header_or_with_a_silent_proxy_is_closed() {
    let server = server("head_timeout = '2s'\n");
    let mut direct = connect(
        &server,
        "GET /healthz HTTP/1.1\r\nHost: farm.localhost\r\n\r\n",
    );
    assert!(direct.is_closed(), "it is closed at once");
    let mut silent = connect(&server, "PROXY TCP4 192.0.2.1 ");
    assert!(silent.is_closed(), "limits.head_timeout holds for it");
    connect(&server, OWN).exchange(&probe()).expect(200);
}
