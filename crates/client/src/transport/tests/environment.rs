//! The effects of environment variables. The test process starts a second process, which runs the
//! same test with other variables: the first is the server, the second the client.

use std::env;
use std::process::Stdio;

use tokio::process::Command;

use super::tls::TlsServer;
use super::*;

/// Environment variable with the URL to which the second process sends its request. It is set only
/// there.
const URL: &str = "WINDLASS_TEST_URL";

/// Runs the test in a second process and asserts that it passes.
async fn run_again<const N: usize>(test: &str, url: &str, variables: [(&str, &str); N]) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test]).env(URL, url);
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command
            .env_remove(name)
            .env_remove(name.to_ascii_uppercase());
    }
    let child = command
        .envs(variables)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = child.await.unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}");
    assert!(stdout.contains("1 passed"), "{stdout}");
}

/// Returns whether this is the second process. If so, sends the request first.
async fn is_second_process() -> bool {
    let Ok(url) = env::var(URL) else {
        return false;
    };
    let transport = HttpTransport::new(long_timeouts(), HttpTransportOptions::default()).unwrap();
    let url = url.parse().unwrap();
    let reply = transport.send(put(&url, media(5))).await.unwrap();
    assert_eq!(reply.body, "hello");
    true
}

async fn answer(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> String {
    let head = read_head(stream).await;
    stream.read_exact(&mut [0; 5]).await.unwrap();
    write(stream, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await;
    head
}

#[tokio::test]
async fn proxy_of_the_environment_is_used() {
    if is_second_process().await {
        return;
    }
    let (listener, url) = listen().await;
    let proxy = format!("http://{}", url.authority());
    let peer = async {
        let head = answer(&mut accept(&listener).await).await;
        assert!(
            head.starts_with("put http://farm.invalid/animals http/1.1\r\n"),
            "{head}"
        );
    };
    let second = run_again(
        "transport::tests::environment::proxy_of_the_environment_is_used",
        "http://farm.invalid/animals",
        [("HTTP_PROXY", &proxy)],
    );
    tokio::join!(peer, second);
}

#[tokio::test]
async fn no_proxy_hosts_of_the_environment_are_honoured() {
    if is_second_process().await {
        return;
    }
    let (listener, mut url) = listen().await;
    // It leads here, and is no loopback address.
    url.set_host(Some("0.0.0.0")).unwrap();
    let peer = async {
        let head = answer(&mut accept(&listener).await).await;
        assert!(head.starts_with("put /upload/farm"), "{head}");
    };
    let second = run_again(
        "transport::tests::environment::no_proxy_hosts_of_the_environment_are_honoured",
        url.as_str(),
        [
            ("HTTP_PROXY", "http://127.0.0.1:1"),
            ("NO_PROXY", "0.0.0.0"),
        ],
    );
    tokio::join!(peer, second);
}

#[tokio::test]
async fn this_machine_is_reached_without_the_proxy_of_the_environment() {
    if is_second_process().await {
        return;
    }
    let (listener, url) = listen().await;
    for host in ["127.0.0.1", "localhost", "farm.localhost"] {
        let peer = async {
            let head = answer(&mut accept(&listener).await).await;
            assert!(head.starts_with("put /upload/farm"), "{head}");
        };
        let mut url = url.clone();
        url.set_host(Some(host)).unwrap();
        let second = run_again(
            "transport::tests::environment::this_machine_is_reached_without_the_proxy_of_the_environment",
            url.as_str(),
            [("HTTP_PROXY", "http://127.0.0.1:1")],
        );
        tokio::join!(peer, second);
    }
}

#[tokio::test]
async fn root_certificates_of_the_environment_are_trusted() {
    if is_second_process().await {
        return;
    }
    let server = TlsServer::with_alpn("http/1.1").await;
    let roots = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(roots.path(), server.issuer.pem()).unwrap();
    let peer = async {
        answer(&mut server.accept().await.unwrap()).await;
    };
    let second = run_again(
        "transport::tests::environment::root_certificates_of_the_environment_are_trusted",
        server.url.as_str(),
        [("SSL_CERT_FILE", roots.path().to_str().unwrap())],
    );
    tokio::join!(peer, second);
}
