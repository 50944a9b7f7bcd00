"""A windlass server under test, and a line to it that breaks on demand."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading


class Server:
    """The real binary with a data directory of its own. Can be killed and started again."""

    def __init__(self, binary):
        self.binary = binary
        # Beside the sources' build output: a temporary file system may be one that the server refuses.
        self.data = tempfile.mkdtemp(prefix="conformance-", dir=os.path.dirname(os.path.abspath(binary)))
        self.port = 0
        self.start()

    def start(self):
        command = [self.binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--data", self.data]
        command.append("--allow-unsafe-filesystem")
        # The library answers a broken connection by sending a head without its body; nobody wants to
        # wait long for that body.
        environment = {**os.environ, "WINDLASS_LIMITS_BODY_TIMEOUT": "2s"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        line = self.process.stdout.readline()
        if not line.startswith("listening on http://"):
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


class BreakingLine:
    """A TCP proxy that breaks the first `breaks` connections that carry `after` bytes upstream."""

    def __init__(self, port, after, breaks):
        self.port, self.after, self.left = port, after, breaks
        self.broken = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            threading.Thread(target=self._upstream, args=(client, server), daemon=True).start()
            threading.Thread(target=self._downstream, args=(server, client), daemon=True).start()

    def _upstream(self, client, server):
        sent = 0
        try:
            while data := client.recv(16 * 1024):
                server.sendall(data)
                sent += len(data)
                if sent >= self.after and self._may_break():
                    break
        except OSError:
            pass
        self._close(client, server)

    def _downstream(self, server, client):
        try:
            while data := server.recv(16 * 1024):
                client.sendall(data)
        except OSError:
            pass
        self._close(client, server)

    def _may_break(self):
        with self.lock:
            if self.left == 0:
                return False
            self.left -= 1
            self.broken += 1
            return True

    @staticmethod
    def _close(*sockets):
        for end in sockets:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()
