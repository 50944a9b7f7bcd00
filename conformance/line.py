"""A line to a server that breaks on demand."""

import socket
import threading


class BreakingLine:
    """A TCP proxy that breaks the first `breaks` connections that carry `after` bytes upstream.

    With `deaf`, all that is sent still arrives; what is lost is the reply.
    """

    def __init__(self, port, after, breaks, deaf=False):
        self.port, self.after, self.left, self.deaf = port, after, breaks, deaf
        self.broken = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def close(self):
        # Closing alone does not wake the thread that waits for a connection.
        hang_up(self.listener)
        self.thread.join(timeout=1)

    def may_break(self, sent):
        with self.lock:
            if sent < self.after or self.left == 0:
                return False
            self.left -= 1
            self.broken += 1
            return True

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                hang_up(client)
            else:
                Connection(self, client, server)


class Connection:
    """Both directions of one connection, a thread for each."""

    def __init__(self, line, client, server):
        self.line, self.client, self.server = line, client, server
        self.sent = 0
        for direction in self._upstream, self._downstream:
            threading.Thread(target=self._carry, args=(direction,), daemon=True).start()

    def _carry(self, direction):
        try:
            direction()
        except OSError:
            pass
        hang_up(self.client)
        hang_up(self.server)

    def _upstream(self):
        while data := self.client.recv(16 * 1024):
            # Counted before it is sent: the reply may be here sooner than the next line.
            self.sent += len(data)
            self.server.sendall(data)
            if not self.line.deaf and self.line.may_break(self.sent):
                return

    def _downstream(self):
        while data := self.server.recv(16 * 1024):
            if self.line.deaf and self.line.may_break(self.sent):
                return
            self.client.sendall(data)


def hang_up(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()
