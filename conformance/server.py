"""A windlass server under test."""

import os
import shutil
import signal
import subprocess
import tempfile


class Server:
    """The real binary with a data directory of its own. Can be killed and started again."""

    def __init__(self, binary, *options):
        self.binary, self.options = binary, options
        # Beside the sources' build output: a temporary file system may be one that the server refuses.
        self.data = tempfile.mkdtemp(prefix="conformance-", dir=os.path.dirname(os.path.abspath(binary)))
        self.port = 0
        self.start()

    def command(self):
        serve = [self.binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--data", self.data]
        return [*serve, "--allow-unsafe-filesystem", *self.options]

    def start(self):
        # The library answers a broken connection by sending a head without its body; nobody wants to
        # wait long for that body.
        environment = {**os.environ, "WINDLASS_LIMITS_BODY_TIMEOUT": "2s"}
        self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, text=True, env=environment)
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

    def remove(self):
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.data, ignore_errors=True)
