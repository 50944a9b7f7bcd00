"""A windlass server under test."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.request


def free_port():
    """A port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """The real binary with a data directory of its own. Can be killed and started again.

    Settings are those of docs/configuration.md, with `_` for the dot: sessions_lifetime="1s".
    """

    # Where the log goes; `None` for that of the suite.
    log = None

    def __init__(self, binary, *options, **settings):
        self.binary, self.options = binary, options
        # The library answers a broken connection by sending a head without its body; nobody wants to
        # wait long for that body.
        settings = {"limits_body_timeout": "2s", **settings}
        self.settings = {f"WINDLASS_{name.upper()}": value for name, value in settings.items()}
        # Beside the sources' build output: a temporary file system may be one that the server refuses.
        self.data = tempfile.mkdtemp(prefix="conformance-", dir=os.path.dirname(os.path.abspath(binary)))
        self.port = 0
        self.start()

    def command(self):
        serve = [self.binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--data", self.data]
        return [*serve, "--allow-unsafe-filesystem", *self.options]

    def start(self):
        environment = {**os.environ, **self.settings}
        self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        line = self.process.stdout.readline()
        if not line.startswith(("listening on http://", "listening on https://")):
            raise RuntimeError(f"the server did not start: {line!r}")
        self.url = line.split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])

    def kill(self):
        """As a power cut for the process: no chance to clean up."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Asks it to drain, and returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=15)

    def limited(self, api, version, folder, accept, max_size):
        """A file that describes an API as the server does, with other limits to media: an `--api` for another server."""
        with urllib.request.urlopen(f"{self.url}/discovery/v1/apis/{api}/{version}/rest") as reply:
            document = json.load(reply)
        for upload in uploads(document):
            upload.update(accept=[accept], maxSize=str(max_size))
        path = os.path.join(folder, f"{api}.{version}.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        return path

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.data, ignore_errors=True)


def uploads(node):
    """What the methods of a document say of media."""
    yield from (method["mediaUpload"] for method in node.get("methods", {}).values() if "mediaUpload" in method)
    for inner in node.get("resources", {}).values():
        yield from uploads(inner)
