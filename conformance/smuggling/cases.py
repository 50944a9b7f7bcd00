"""What a case is, and the pieces that many are made of."""

import dataclasses
from collections.abc import Callable

# Of an upload that the server takes, whatever its body is: the connection stays open.
UPLOAD = b"POST /upload/farm/v1/animals?uploadType=media HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@dataclasses.dataclass(frozen=True)
class Case:
    """A request in which another one is hidden.

    `bytes_of` makes it of a `Hidden` request. A list of bytes is sent piece by piece. `replies` are the most that a strict reading of RFC 9112
    allows; the hidden request is never among those that may be answered. Where the RFC lets a recipient choose between two readings, the hidden
    request is where neither has a second request.
    """

    name: str
    bytes_of: Callable
    replies: int = 1
    # The reply to HEAD has no body.
    of_head: bool = False
    # At the server that demands a token and limits the requests of an address.
    guarded: bool = False
    # No other request follows on the connection.
    alone: bool = False
    # The bytes are frames.
    http2: bool = False
    # The first reply must be this one, so that the case is what it says; only where no proxy answers itself.
    status: int | None = None
    # Looks at the replies: what they must not say.
    also: Callable | None = None


def length(of):
    return b"Content-Length: %d\r\n" % of


def chunk(data, size=None):
    return (b"%x" % len(data) if size is None else size) + b"\r\n" + data + b"\r\n"


END = b"0\r\n\r\n"


def with_length(head, body):
    return head + length(len(body)) + b"\r\n" + body


def in_chunks(head, body):
    return head + CHUNKED + b"\r\n" + chunk(body) + END
