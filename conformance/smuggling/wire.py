"""A raw connection, and the replies on it."""

import contextlib
import functools
import itertools
import socket
import ssl
import time

# How long a connection waits for a reply that may still come, and for one that should not.
PATIENCE, QUIET = 3.0, 0.1

# Each connection comes from an address of its own, so that limits of an address are those of one case.
_ADDRESSES = itertools.count(2)


def source():
    at = next(_ADDRESSES)
    return f"127.{at >> 16 & 127 | 64}.{at >> 8 & 255}.{at & 255}", 0


@functools.cache
def context_of(authority, protocol):
    context = ssl.create_default_context(cafile=authority)
    context.set_alpn_protocols([protocol])
    return context


def connect(port, authority=None, protocol="http/1.1"):
    """A connection to the port, over TLS if there is an authority."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=10, source_address=source())
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if authority is None:
        return plain
    context = context_of(authority, protocol)
    try:
        return context.wrap_socket(plain, server_hostname="localhost")
    except OSError:
        plain.close()
        raise


class Reply:
    """`whole` is false while the body may go on."""

    def __init__(self, status, head, body, whole):
        self.status, self.head, self.body, self.whole = status, head, body, whole

    def __repr__(self):
        return f"{self.status} {bytes(self.body[:60])!r}"


def replies(data, closed, of_head):
    """The final replies in what a connection has sent. What is no reply counts as one without a status: HTTP/0.9 has no more."""
    found, at = [], 0
    while at < len(data):
        end = data.find(b"\r\n\r\n", at)
        if not data.startswith(b"HTTP/1.", at):
            # Caddy's 100 Continue may be written while its last reply is: the end of that comes twice then.
            is_rest = found and b"\r\nconnection: close" in found[-1].head.lower()
            if (closed or len(data) - at >= 7) and not is_rest:
                found.append(Reply(None, b"", data[at:], closed))
            break
        if end < 0:
            break
        head, at = data[at:end + 2], end + 4
        status = int(head[9:12])
        if status < 200 and status != 101:
            continue
        body, whole, at = body_of(data, at, status, head.lower(), closed, of_head and not found)
        found.append(Reply(status, head, body, whole))
        if not whole:
            break
    return found


def body_of(data, at, status, head, closed, none):
    """The body that begins there, whether it is whole, and where it ends."""
    if none or status in (101, 204, 304):
        return b"", True, at
    if b"\r\ntransfer-encoding: chunked" in head:
        body = b""
        while (line_end := data.find(b"\r\n", at)) >= 0:
            size = int(data[at:line_end].split(b";")[0], 16)
            if len(data) < line_end + 4 + size:
                break
            body += data[line_end + 2:line_end + 2 + size]
            at = line_end + 4 + size
            if size == 0:
                return body, True, at
        return body, False, len(data)
    if (found := head.find(b"\r\ncontent-length:")) >= 0:
        length = int(head[found + 17:head.index(b"\r\n", found + 2)])
        return data[at:at + length], len(data) >= at + length, min(at + length, len(data))
    return data[at:], closed, len(data)


class Exchange:
    """Sends the pieces, each but the first when the ones before have been answered (100 Continue is an answer) or ignored, and reads the replies.

    If the connection stays open after as many replies as there may be, `last` is sent: another request, which ends the connection. Its reply comes
    behind those that should not be there, so that nobody has to wait for them.
    """

    def __init__(self, stream, most, of_head=False):
        self.stream, self.most, self.of_head = stream, most, of_head
        self.data, self.closed = bytearray(), False

    def of(self, pieces, last=b""):
        for n, piece in enumerate(pieces):
            if n:
                self.read(QUIET, enough=1, at_once=True, interim=True)
            self.send(piece)
        found = self.read(PATIENCE, enough=self.most, at_once=bool(last))
        if last and not self.closed and len(found) >= self.most and b"\r\nconnection: close" not in found[-1].head.lower():
            self.send(last)
            found = self.read(PATIENCE, enough=len(found) + 1)
        return found

    def send(self, piece):
        with contextlib.suppress(OSError):
            self.stream.settimeout(PATIENCE)
            self.stream.sendall(piece)

    def read(self, patience, enough, at_once=False, interim=False):
        """Until the connection is closed, or quiet: for a moment if there are enough replies, else for longer."""
        deadline = time.monotonic() + patience
        while True:
            found = replies(bytes(self.data), self.closed, self.of_head)
            if self.closed:
                return found
            has_enough = len(found) >= enough and found[-1].whole
            if at_once and (has_enough or interim and self.data[9:12] == b"100"):
                return found
            wait = QUIET if has_enough else deadline - time.monotonic()
            if wait <= 0 or not self.more(wait):
                return found

    def more(self, wait):
        self.stream.settimeout(wait)
        try:
            got = self.stream.recv(65536)
        except TimeoutError:
            return False
        except OSError:
            got = b""
        self.closed = not got
        self.data += got
        return True
