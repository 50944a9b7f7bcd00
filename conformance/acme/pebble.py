"""pebble, an authority of certificates for tests, with a name server that leads every name to this machine."""

import json
import os
import pathlib
import shutil
import ssl
import subprocess
import time
import urllib.request

from server import free_port


def until(what, holds, seconds=30):
    """Waits until something holds, and returns it."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)
    return found


class Pebble:
    """Its directory has a certificate of `certificates`. It can be stopped and started again: it then has forgotten everything."""

    def __init__(self, folder, certificates, tls_port, seconds):
        self.folder, self.certificates = pathlib.Path(folder), certificates
        self.port, self.management, self.names = free_port(), free_port(), free_port()
        self.directory = f"https://127.0.0.1:{self.port}/dir"
        self.log = self.folder / "pebble.log"
        chain, key = certificates.options[1], certificates.options[3]
        (self.folder / "pebble.json").write_text(json.dumps({"pebble": {
            "listenAddress": f"127.0.0.1:{self.port}",
            "managementListenAddress": f"127.0.0.1:{self.management}",
            "certificate": str(chain),
            "privateKey": str(key),
            "tlsPort": tls_port,
            "certificateValidityPeriod": seconds,
        }}), encoding="utf-8")
        self.processes = []

    def start(self):
        environment = {
            **os.environ,
            # No pauses before validation, and no authorization that outlives its order. It still refuses some nonces.
            "PEBBLE_VA_NOSLEEP": "1",
            "PEBBLE_AUTHZREUSE": "0",
        }
        names = [shutil.which("pebble-challtestsrv"), "-dns01", f"127.0.0.1:{self.names}", "-defaultIPv6", "", "-http01", "", "-https01", ""]
        names += ["-tlsalpn01", "", "-management", f"127.0.0.1:{free_port()}"]
        pebble = [shutil.which("pebble"), "-config", str(self.folder / "pebble.json"), "-dnsserver", f"127.0.0.1:{self.names}"]
        with open(self.log, "ab") as log:
            self.processes = [subprocess.Popen(command, stdout=log, stderr=log, env=environment) for command in (names, pebble)]
        until("pebble answers", self.root)

    def root(self):
        """The root of the certificates that it issues, as PEM."""
        trusting = ssl.create_default_context(cafile=self.certificates.authority)
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{self.management}/roots/0", context=trusting) as reply:
                return reply.read().decode()
        except OSError:
            return None

    def orders(self):
        """How many orders were asked for, by all its processes."""
        return self.log.read_text(encoding="utf-8").count("POST /order-plz -> calling handler()")

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
