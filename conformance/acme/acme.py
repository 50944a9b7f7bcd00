"""A certificate by ACME: ordered, used, renewed while requests run, kept over a restart, and waited for.

    acme.py BINARY
"""

import contextlib
import http.client
import os
import pathlib
import re
import signal
import socket
import ssl
import stat
import sys
import tempfile
import threading
import urllib.request

from certificates import Certificates
from pebble import Pebble, until
from report import Report
from server import Server, free_port

DOMAINS = ["up.example.com", "media.example.com"]
# Certificates are renewed when a third of this is left.
LIFETIME = 18


class Ordering(Server):
    """A server that orders its certificate."""

    def __init__(self, binary, folder, port, directory, root):  # pylint: disable=super-init-not-called
        self.binary, self.options, self.port = binary, (), port
        self.log_path = pathlib.Path(folder, "windlass.log")
        self.metrics = free_port()
        settings = {
            "acme_domains": ",".join(DOMAINS),
            "acme_contact": "ops@example.com",
            "acme_agree_to_terms": "true",
            "acme_directory": directory,
            "acme_root_file": root,
            "metrics_listen": f"127.0.0.1:{self.metrics}",
        }
        self.settings = {f"WINDLASS_{name.upper()}": value for name, value in settings.items()}
        self.data = tempfile.mkdtemp(prefix="conformance-", dir=os.path.dirname(os.path.abspath(binary)))
        self.start()

    def start(self):
        with open(self.log_path, "ab") as self.log:
            super().start()

    def said(self):
        return self.log_path.read_text(encoding="utf-8")

    def metric(self, name):
        """A value of the metrics; `None` if it has none."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics") as reply:
            found = re.search(rf"^{name} (\S+)$", reply.read().decode(), re.MULTILINE)
        return found and float(found.group(1))

    def connect(self, root, name=DOMAINS[0], protocols=()):
        """A TLS connection that trusts this root alone."""
        context = ssl.create_default_context(cadata=root) if root else ssl._create_unverified_context()  # pylint: disable=protected-access
        if protocols:
            context.set_alpn_protocols(protocols)
        with contextlib.ExitStack() as stack:
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=10))
            safe = context.wrap_socket(plain, server_hostname=name)
            stack.pop_all()
        return safe

    def serial(self, root):
        """The number of the certificate in use."""
        with self.connect(root) as safe:
            return safe.getpeercert()["serialNumber"]

    def state(self):
        return sorted(path for path in pathlib.Path(self.data, "acme").rglob("*"))


def status(safe, path="/healthz"):
    """The status of a request on a connection, which stays open."""
    connection = http.client.HTTPConnection(DOMAINS[0])
    connection.sock = safe
    connection.request("GET", path)
    reply = connection.getresponse()
    reply.read()
    return reply.status


def refused(server, **how):
    """The handshake must fail, because of the server."""
    try:
        with server.connect(None, **how):
            pass
    except ssl.SSLError as error:
        assert "alert" in str(error).lower(), error
    else:
        raise AssertionError("the handshake succeeded")


class Requests:
    """Requests without an end: each on a connection of its own, and all on one connection."""

    def __init__(self, server, root):
        self.server, self.root = server, root
        self.stopped = threading.Event()
        self.counts, self.failures = {"new": 0, "one": 0}, []
        self.threads = [threading.Thread(target=self.repeat, args=of) for of in (("new", self.on_new_ones), ("one", self.on_one()))]

    def on_new_ones(self):
        with self.server.connect(self.root) as safe:
            return status(safe)

    def on_one(self):
        safe = self.server.connect(self.root)
        return lambda: status(safe)

    def repeat(self, name, request):
        while not self.stopped.wait(0.01):
            try:
                assert request() == 200
                self.counts[name] += 1
            except Exception as error:  # pylint: disable=broad-except
                self.failures.append(f"{name}: {error!r}")
                return

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


def before_the_authority(server):
    refused(server)
    refused(server, name="other.example.com")
    said = until("a failure in the log", lambda: server.said() if "again_in" in server.said() else None)
    assert "there is no certificate yet" in said and DOMAINS[1] in said, said
    assert "next_step" in said, said
    assert server.metric("windlass_acme_failed_attempts_total") == 1
    assert server.metric("windlass_acme_certificate_expiry_seconds") is None


def issued(server, pebble):
    root = pebble.root()
    until("a certificate", lambda: server.metric("windlass_acme_issued_total") == 1)
    for name in DOMAINS:
        with server.connect(root, name) as safe:
            names = {value for kind, value in safe.getpeercert()["subjectAltName"] if kind == "DNS"}
            assert names == set(DOMAINS), names
            assert status(safe) == 200
    with server.connect(root, protocols=["acme-tls/1", "http/1.1"]) as safe:
        assert (safe.selected_alpn_protocol(), status(safe)) == ("http/1.1", 200)
    left = server.metric("windlass_acme_certificate_expiry_seconds")
    assert 0 < left <= LIFETIME, left


def other_names(server):
    refused(server, name="other.example.com")
    # There is no challenge now.
    refused(server, protocols=["acme-tls/1"])


def files(server):
    kinds = {path.name: stat.S_IMODE(path.stat().st_mode) for path in server.state()}
    modes = {"account.json": 0o600, "certificate.pem": 0o600}
    assert {name: kinds.get(name) for name in modes} == modes, kinds
    folders = {stat.S_IMODE(path.stat().st_mode) for path in server.state() if path.is_dir()}
    assert folders == {0o700} and stat.S_IMODE(pathlib.Path(server.data, "acme").stat().st_mode) == 0o700
    said = server.said()
    for path in server.state():
        if path.is_file():
            words = re.findall(r"[A-Za-z0-9+/_-]{40,}", path.read_text(encoding="utf-8"))
            assert words and not any(word in said for word in words), path


def renewed(server, pebble):
    root = pebble.root()
    old = server.serial(root)
    with Requests(server, root) as requests:
        server.process.send_signal(signal.SIGHUP)
        until("another certificate", lambda: server.serial(root) != old, LIFETIME)
    assert not requests.failures, requests.failures
    assert min(requests.counts.values()) > 20, requests.counts
    assert server.metric("windlass_acme_issued_total") >= 2
    with server.connect(root) as safe:
        assert status(safe) == 200


def restarted(server, pebble):
    root = pebble.root()
    serial, orders = server.serial(root), pebble.orders()
    assert server.stop() == 0
    server.start()
    assert server.serial(root) == serial
    assert (pebble.orders(), server.metric("windlass_acme_issued_total")) == (orders, 0)


def without_authority(server, pebble):
    root = pebble.root()
    serial = server.serial(root)
    pebble.stop()
    until("a failed renewal", lambda: server.metric("windlass_acme_failed_attempts_total") > 0, LIFETIME)
    assert server.serial(root) == serial
    assert "no new certificate; the old one is used" in server.said()


def unknown_account(server, pebble):
    """The authority has forgotten everything, the account of the server too, and issues by another root."""
    server.stop()
    pebble.start()
    server.start()
    until("a new account", lambda: "nothing: the next attempt makes a new account" in server.said())
    until("a certificate", lambda: server.metric("windlass_acme_issued_total") == 1)
    with server.connect(pebble.root()) as safe:
        assert status(safe) == 200


def main(binary):
    report, port = Report(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(folder)
        with Pebble(folder, certificates, port, LIFETIME) as pebble:
            with Ordering(binary, folder, port, pebble.directory, certificates.authority) as server:
                report.case("without its authority the server waits, and handshakes fail", lambda: before_the_authority(server))
                pebble.start()
                report.case("a certificate is issued, and used by clients that trust its root", lambda: issued(server, pebble))
                report.case("handshakes with other names, and challenges that nobody has, fail", lambda: other_names(server))
                report.case("key and account are the owner's alone, and in no log", lambda: files(server))
                report.case("renewed while requests run, none of which fails, also by SIGHUP", lambda: renewed(server, pebble))
                report.case("after a restart the stored certificate is used without an order", lambda: restarted(server, pebble))
                report.case("without its authority the server serves on, and tries again", lambda: without_authority(server, pebble))
                report.case("an account that the authority has forgotten is replaced", lambda: unknown_account(server, pebble))
                if report.failed:
                    print(server.said())
                    print(pebble.log.read_text(encoding="utf-8"))
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
