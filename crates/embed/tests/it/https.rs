//! HTTPS with a certificate that the server orders itself.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use windlass_embed::Ended;
use windlass_embed::acme::{Acme, Options};
use windlass_server::outbound::{Outbound, OutboundError, OutboundLimits};
use windlass_testkit::acme::{AcmeAuthority, DIRECTORY};
use windlass_testkit::wait;

use super::{ALBUM, directory, open};

const DOMAIN: &str = "up.example.com";

/// The way to an authority in this process.
struct WithoutNetwork(Arc<AcmeAuthority>);

#[async_trait]
impl Outbound for WithoutNetwork {
    async fn send(
        &self,
        request: Request<Bytes>,
        _: OutboundLimits,
    ) -> Result<Response<Bytes>, OutboundError> {
        let authority = Arc::clone(&self.0);
        let reply = spawn_blocking(move || authority.reply(&request)).await;
        Ok(reply.expect("the authority does not panic"))
    }
}

fn acme(authority: &Arc<AcmeAuthority>) -> Acme {
    let options = Options {
        domains: vec![DOMAIN.parse().expect("a domain")],
        directory: DIRECTORY.parse().expect("a URL"),
        agree_to_terms: true,
        ..Options::default()
    };
    let outbound = Arc::new(WithoutNetwork(Arc::clone(authority)));
    Acme::new(options, outbound).expect("the options suffice")
}

/// The reply to a request by HTTPS, as soon as there is a certificate.
async fn reply(authority: &Arc<AcmeAuthority>) -> String {
    let authority = Arc::clone(authority);
    let asked = spawn_blocking(move || {
        let request = format!(
            "GET /discovery/v1/apis HTTP/1.1\r\nhost: {DOMAIN}\r\nconnection: close\r\n\r\n"
        );
        let mut reply = None;
        wait::until("there is a certificate", || {
            reply = authority.exchange(DOMAIN, &request).ok();
            reply.is_some()
        });
        reply.expect("it was waited for")
    });
    String::from_utf8(asked.await.expect("no panic")).expect("it is text")
}

/// Serves until a request has a reply, and stops.
async fn serve_once(data: &Path, listener: TcpListener, authority: &Arc<AcmeAuthority>) {
    let uploads = open(data)
        .api(ALBUM)
        .public_url(format!("https://{DOMAIN}"))
        .start()
        .await
        .expect("it starts");
    let (acme, stop) = (acme(authority), Arc::new(Notify::new()));
    let stopped = Arc::clone(&stop);
    let served = tokio::spawn(async move {
        let stopped = stopped.notified();
        uploads.run_https(listener, acme, stopped).await
    });
    let reply = reply(authority).await;
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
    stop.notify_one();
    assert_eq!(served.await.expect("no panic"), Ended::Drained);
}

#[tokio::test]
async fn certificate_is_ordered_once_and_kept_over_a_restart() {
    let directory = directory();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let authority = Arc::new(AcmeAuthority::new(address));
    serve_once(directory.path(), listener, &authority).await;
    assert_eq!(authority.issued(), 1);
    let listener = TcpListener::bind(address).await.expect("it is free again");
    serve_once(directory.path(), listener, &authority).await;
    assert_eq!(authority.issued(), 1);
}
