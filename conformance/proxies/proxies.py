"""The recipes of docs/proxies.md: each proxy, with its configuration as the document has it, before the real server with its command there.

    proxies.py BINARY
"""

import contextlib
import http.client
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import requests

from certificates import Certificates
from recipes import NAMES, Proxy, arguments, tcp_arguments, tcp_settings, url_of
from report import Report, check, media, write
from server import Server, free_port

UPLOADS = "/upload/farm/v1/animals"
KIB, MIB = 1024, 1024 * 1024
LARGE = media(5 * MIB + 321)
PATIENCE = 30


def head_of(replies):
    """Reads the head of a reply; its status."""
    status = int(replies.readline().split()[1])
    while replies.readline().strip():
        pass
    return status


class Client:
    def __init__(self, proxy, server, certificates):
        self.proxy, self.server, self.certificates = proxy, server, certificates
        self.http = requests.Session()
        self.http.verify = certificates.authority
        self.http.trust_env = False

    def request(self, verb, target, **more):
        url = target if target.startswith("https:") else self.proxy.url + target
        return self.http.request(verb, url, timeout=PATIENCE, allow_redirects=False, **more)

    def simple(self):
        reply = self.request("POST", f"{UPLOADS}?uploadType=media", data=LARGE, headers={"Content-Type": "image/jpeg"})
        animal = check(reply.json(), LARGE)
        assert animal["selfLink"].startswith(f"{self.proxy.url}/farm/v1/"), animal["selfLink"]
        media_of = f"/farm/v1/animals/{animal['id']}?alt=media"
        assert self.request("GET", media_of).content == LARGE
        part = self.request("GET", media_of, headers={"Range": "bytes=100000-299999"})
        assert part.status_code == 206 and part.content == LARGE[100000:300000], part.status_code

    def chunked(self):
        """A body without a length, as curl sends standard input."""
        pieces = (LARGE[at:at + 100_000] for at in range(0, len(LARGE), 100_000))
        reply = self.request("POST", f"{UPLOADS}?uploadType=media", data=pieces, headers={"Content-Type": "image/jpeg"})
        check(reply.json(), LARGE)

    def multipart(self):
        body = b"--b\r\nContent-Type: application/json\r\n\r\n{\"name\": \"Llama\"}\r\n--b\r\nContent-Type: image/jpeg\r\n\r\n" + LARGE + b"\r\n--b--\r\n"
        reply = self.request("POST", f"{UPLOADS}?uploadType=multipart", data=body, headers={"Content-Type": "multipart/related; boundary=b"})
        check(reply.json(), LARGE, name="Llama")

    def session(self):
        reply = self.request("POST", f"{UPLOADS}?uploadType=resumable", headers={"X-Upload-Content-Type": "image/jpeg"})
        location = reply.headers["location"]
        assert location.startswith(f"{self.proxy.url}{UPLOADS}?"), "the session is at another URL"
        return location

    def put(self, session, data, content_range):
        return self.request("PUT", session, data=data, headers={"Content-Range": content_range})

    def resumable(self):
        session, chunk = self.session(), 256 * KIB
        for at in range(0, len(LARGE), chunk):
            piece = LARGE[at:at + chunk]
            reply = self.put(session, piece, f"bytes {at}-{at + len(piece) - 1}/{len(LARGE)}")
            assert reply.status_code == (308 if at + chunk < len(LARGE) else 201), reply.status_code
        check(reply.json(), LARGE)

    def interrupted(self):
        """What has arrived when a connection breaks is kept: the proxy has not held it back."""
        session, sent = self.session(), 3 * MIB

        def beginning():
            yield LARGE[:sent]
            deadline = time.monotonic() + PATIENCE
            # On another connection: until the server has what was sent, or gives up waiting for the rest.
            while time.monotonic() < deadline:
                reply = requests.put(session, headers={"Content-Range": "bytes */*"}, verify=self.certificates.authority, timeout=PATIENCE)
                if int(reply.headers.get("range", "bytes=0--1").partition("-")[2]) + 1 >= sent - 256 * KIB:
                    break
                time.sleep(0.1)
            raise InterruptedError

        with contextlib.suppress(InterruptedError, requests.exceptions.ConnectionError):
            self.put(session, beginning(), f"bytes 0-{len(LARGE) - 1}/{len(LARGE)}")
        self.http.close()
        reply = self.put(session, b"", "bytes */*")
        committed = int(reply.headers["range"].partition("-")[2]) + 1
        assert sent - 256 * KIB <= committed <= sent, committed
        reply = self.put(session, LARGE[committed:], f"bytes {committed}-{len(LARGE) - 1}/{len(LARGE)}")
        check(reply.json(), LARGE)

    def connect(self, source):
        """A connection from an address of this machine."""
        context = ssl.create_default_context(cafile=self.certificates.authority)
        return http.client.HTTPSConnection("localhost", self.proxy.port, timeout=PATIENCE, source_address=(source, 0), context=context)

    def status(self, source, **headers):
        with contextlib.closing(self.connect(source)) as connection:
            connection.request("GET", "/farm/v1/animals", headers=headers)
            return connection.getresponse().status

    def together(self):
        """All connections come from the proxy's address: the limit for one address is for the requests of each client, and not for them."""
        with contextlib.ExitStack() as stack:
            uploads = [stack.enter_context(contextlib.closing(self.connect(source))) for source in ("127.0.0.1", "127.0.0.1", "127.0.0.2")]
            for upload in uploads:
                upload.putrequest("POST", f"{UPLOADS}?uploadType=media")
                upload.putheader("Content-Type", "image/jpeg")
                upload.putheader("Content-Length", str(len(LARGE)))
                upload.endheaders(LARGE[:KIB])
            deadline = time.monotonic() + PATIENCE
            while self.status("127.0.0.1") != 429:
                assert time.monotonic() < deadline, "a client with two uploads under way is not limited"
            assert self.status("127.0.0.2") == 200, "the limit of one client is that of another"
            for upload in uploads:
                upload.send(LARGE[KIB:])
                assert (status := upload.getresponse().status) == 200, status

    def waits_for_100(self):
        """A client that sends the body only after `100 Continue`."""
        head = (f"POST {UPLOADS}?uploadType=media HTTP/1.1\r\nHost: localhost:{self.proxy.port}\r\nConnection: close\r\nContent-Type: image/jpeg\r\n"
                f"Content-Length: {len(LARGE)}\r\nExpect: 100-continue\r\n\r\n")
        context = ssl.create_default_context(cafile=self.certificates.authority)
        with socket.create_connection(("127.0.0.1", self.proxy.port), timeout=PATIENCE) as plain, \
                context.wrap_socket(plain, server_hostname="localhost") as stream, stream.makefile("rb") as replies:
            stream.sendall(head.encode())
            status = head_of(replies)
            assert status == 100, status
            stream.sendall(LARGE)
            # Caddy passes on that of the server, and sends one of its own.
            while status == 100:
                status = head_of(replies)
            assert status == 200, status

    def refused(self):
        """The server refuses before the body has come; who reads while it sends learns the reason."""
        with tempfile.TemporaryDirectory() as folder:
            path = write(folder, LARGE * 4)
            target = f"{self.proxy.url}{UPLOADS}?uploadType=resumable&upload_id={'A' * 40}"
            command = ["curl", "--silent", "--show-error", "--cacert", self.certificates.authority, "--output", os.devnull, "--write-out", "%{http_code}"]
            ran = subprocess.run([*command, "--upload-file", path, target], capture_output=True, text=True, check=False, timeout=PATIENCE)
            assert ran.stdout == "404", (ran.stdout, ran.stderr)

    def addresses(self):
        """The server counts the requests of each client by the address that the proxy has seen, and not by one that the client made up."""
        def status(source, stated):
            return self.status(source, **{"X-Forwarded-For": stated})

        assert any(status("127.0.0.1", f"198.51.100.{n}") == 429 for n in range(200)), "a client that makes up addresses is not limited"
        assert status("127.0.0.2", "198.51.100.1") == 200, "the limit of one client is that of another"

    def http2(self):
        """TLS is the server's, which offers HTTP/2."""
        command = ["curl", "--silent", "--cacert", self.certificates.authority, "--output", os.devnull, "--write-out", "%{http_version} %{http_code}"]
        ran = subprocess.run([*command, f"{self.proxy.url}/healthz"], capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert ran.stdout == "2 200", (ran.stdout, ran.stderr)

    def own_client(self):
        with tempfile.TemporaryDirectory() as folder:
            path = write(folder, media(64 * MIB))
            command = [self.server.binary, "upload", path, f"{self.proxy.url}{UPLOADS}", "--content-type", "image/jpeg", "--chunk-size", "8M"]
            environment = {**os.environ, "SSL_CERT_FILE": self.certificates.authority, "XDG_STATE_HOME": folder}
            ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)
            assert ran.returncode == 0, ran.stderr

    def logged(self):
        """The access log has the client's address, and no session URI."""
        self.put(self.session(), LARGE, f"bytes 0-{len(LARGE) - 1}/{len(LARGE)}")
        log, line, deadline = pathlib.Path(self.proxy.folder, "access.log"), f'"PUT {UPLOADS}" 201', time.monotonic() + PATIENCE
        while line not in (text := log.read_text(encoding="utf-8")) and time.monotonic() < deadline:
            time.sleep(0.05)
        lines = [it for it in text.splitlines() if line in it]
        assert lines and all(it.startswith("127.0.0.1 ") for it in lines), text
        assert "upload_id" not in text, "a session URI is in the log"

    def hidden(self):
        assert self.request("GET", "/metrics").status_code == 404

    def forged(self):
        """A client cannot choose the URLs of its replies."""
        headers = {"X-Forwarded-Proto": "ftp", "X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example;proto=http"}
        reply = self.request("POST", f"{UPLOADS}?uploadType=resumable", headers=headers)
        assert reply.headers["location"].startswith(f"{self.proxy.url}/"), "the session is at another URL"


# Of the server as the document starts it, and of one that knows its URL by what the proxy states alone.
CASES = ("simple", "chunked", "multipart", "resumable", "interrupted", "together", "waits_for_100", "refused", "own_client", "hidden", "logged")
LEFT_OUT = {
    ("caddy", "refused"): "it may close the connection before the reply is read; docs/proxies.md says so",
    ("caddy", "logged"): "it writes no access log",
    ("haproxy", "logged"): "it writes no access log",
}
OF_FORWARDED = ("session", "forged", "addresses")
OF_TCP = ("simple", "chunked", "multipart", "resumable", "interrupted", "waits_for_100", "refused", "own_client", "http2")


@contextlib.contextmanager
def behind(name, binary, certificates, options, **settings):
    """A client of a server behind the proxy."""
    port = free_port()
    with tempfile.TemporaryDirectory() as place, Server(binary, *options(url_of(port)), **settings) as server, \
            Proxy(name, port, server, certificates, place) as proxy:
        yield Client(proxy, server, certificates)


def main():
    binary, report = sys.argv[1], Report()
    Server.log = subprocess.DEVNULL
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(folder)
        for name in NAMES:
            with behind(name, binary, certificates, arguments, limits_connections_per_address="2") as client:
                for case in CASES:
                    if (reason := LEFT_OUT.get((name, case))) is not None:
                        report.left_out(f"{name}: {case}", reason)
                    else:
                        report.case(f"{name}: {case}", getattr(client, case))
            with behind(name, binary, certificates, lambda _: ["--trust-forwarded"], limits_requests_per_address="5") as client:
                for case in OF_FORWARDED:
                    report.case(f"{name}, without a public URL: {case}", getattr(client, case))

        def options(url):
            return tcp_arguments(url, certificates)

        with behind("haproxy tcp", binary, certificates, options, **tcp_settings()) as client:
            for case in OF_TCP:
                report.case(f"haproxy, TLS passed on: {case}", getattr(client, case))
        with behind("haproxy tcp", binary, certificates, options, limits_requests_per_address="5", **tcp_settings()) as client:
            report.case("haproxy, TLS passed on: addresses", client.addresses)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
