"""Requests over HTTP/2, as a proxy writes them in HTTP/1.1 for the server: what would be another request there."""

import contextlib
import struct

from hpack import Decoder, Encoder

from cases import END, Case
from wire import PATIENCE, Reply

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
TARGET = b"/upload/farm/v1/animals?uploadType=media"
PSEUDO = {b":method": b"POST", b":scheme": b"https", b":authority": b"localhost", b":path": TARGET}
IMAGE = [(b"content-type", b"image/png")]


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def fields(those, stream=1, ends=False):
    # Nothing is indexed in the dynamic table, so that every block can be read alone.
    return frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, Encoder().encode([(*it, True) for it in those], huffman=False))


def body(data, ends=True, stream=1):
    return frame(DATA, END_STREAM if ends else 0, stream, data)


class Http2Exchange:
    """Sends the frames of stream 1, and then a request on stream 3."""

    def __init__(self, stream):
        self.stream = stream
        self.decoder = Decoder()
        self.heads, self.bodies, self.ended = {}, {}, set()

    def of(self, frames, target):
        """The replies of both streams; `None` where there is none."""
        self.stream.settimeout(PATIENCE)
        honest = fields((PSEUDO | {b":method": b"GET", b":path": target.encode()}).items(), stream=3, ends=True)
        with contextlib.suppress(OSError, EOFError):
            self.stream.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + frames)
            self.until(1)
            self.stream.sendall(honest)
            self.until(3)
        return self.reply(1), self.reply(3)

    def reply(self, stream):
        if stream not in self.heads:
            return None
        return Reply(self.heads[stream], b"", self.bodies.get(stream, b""), stream in self.ended)

    def until(self, stream):
        while stream not in self.ended:
            length, kind, flags, of = struct.unpack(">IBBI", b"\0" + self.exactly(9))
            payload = self.exactly(length)
            if kind == SETTINGS and not flags & ACK:
                self.stream.sendall(frame(SETTINGS, ACK, 0, b""))
            elif kind == PING and not flags & ACK:
                self.stream.sendall(frame(PING, ACK, 0, payload))
            elif kind == HEADERS:
                status = int(dict(self.decoder.decode(payload)).get(":status", 0))
                if status >= 200:
                    self.heads.setdefault(of, status)
            elif kind == DATA:
                self.bodies[of] = self.bodies.get(of, b"") + payload
            elif kind == GOAWAY and int.from_bytes(payload[4:8]) != 0:
                raise EOFError
            if (kind in (HEADERS, DATA) and flags & END_STREAM) or kind == RST_STREAM:
                self.ended.add(of)

    def exactly(self, count):
        got = b""
        while len(got) < count:
            more = self.stream.recv(count - len(got))
            if not more:
                raise EOFError
            got += more
        return got


def padded(data, padding):
    padding = padding[:255]
    return frame(DATA, END_STREAM | PADDED, 1, bytes([len(padding)]) + data + padding)


def request(*more, data=None, trailers=None, at_end=False, **pseudo):
    """Stream 1: with the hidden request in DATA, unless there is another one for it. `None` in place of a pseudo header field leaves it out."""
    def value(it, hidden):
        return it(hidden) if callable(it) else it

    def bytes_of(hidden):
        given = {f":{name}".encode(): value(it, hidden) for name, it in pseudo.items()}
        first = [(name, it) for name, it in (PSEUDO | given).items() if it is not None]
        rest = [(value(name, hidden), value(it, hidden)) for name, it in more]
        those = [*IMAGE, *rest, *first] if at_end else [*first, *IMAGE, *rest]
        content = hidden.bytes if data is None else value(data, hidden)
        if content == b"":
            return fields(those, ends=True)
        return fields(those) + body(content, ends=trailers is None) + (fields(trailers, ends=True) if trailers else b"")

    return bytes_of


def size(hidden):
    return b"%d" % len(hidden.bytes)


def chunks(hidden):
    return END + hidden.bytes


def after(text):
    return lambda hidden: text + hidden.bytes


LENGTH, CODING = b"content-length", b"transfer-encoding"
CHUNKED = (CODING, b"chunked")
REQUESTS = {
    "a length of zero, and data": request((LENGTH, b"0")),
    "a length that is too short": request((LENGTH, b"5")),
    "a length that is too long": request((LENGTH, b"5000")),
    "a length, and no data": request((LENGTH, b"500"), data=b""),
    "two lengths": request((LENGTH, b"0"), (LENGTH, size)),
    "two lengths, the other way round": request((LENGTH, size), (LENGTH, b"0")),
    "a list of lengths": request((LENGTH, lambda hidden: b"0, " + size(hidden))),
    "a length with a sign": request((LENGTH, b"+0")),
    "a length of 2^64": request((LENGTH, b"18446744073709551616")),
    "an empty length": request((LENGTH, b"")),
    "a length behind a space": request((LENGTH, b" 0")),
    "a length in capitals": request((b"Content-Length", b"0")),
    "a coding": request(CHUNKED, data=chunks),
    "a coding, and a length": request(CHUNKED, (LENGTH, lambda hidden: b"%d" % len(chunks(hidden))), data=chunks),
    "a coding that is none": request((CODING, b"identity"), data=chunks),
    "a coding in capitals": request((b"Transfer-Encoding", b"chunked"), data=chunks),
    "a coding with a space behind the name": request((b"transfer-encoding ", b"chunked"), data=chunks),
    "a coding with a space before the name": request((b" transfer-encoding", b"chunked"), data=chunks),
    "a coding with an underscore": request((b"transfer_encoding", b"chunked"), data=chunks),
    "a coding behind a colon": request((b"transfer-encoding:", b"chunked"), data=chunks),
    "a coding in the trailers": request(trailers=[CHUNKED]),
    "a length in the trailers": request(trailers=[(LENGTH, b"0")]),
    "a pseudo header field in the trailers": request(trailers=[(b":path", b"/")]),
    "a line end in the trailers": request(trailers=[(b"x", b"y\r\n\r\nGET / HTTP/1.1\r\n\r\n")]),
    "a line end and a coding in a value": request((b"x", b"y\r\ntransfer-encoding: chunked"), data=chunks),
    "a line end and a length in a value": request((b"x", b"y\r\ncontent-length: 0")),
    "line ends and the hidden request in a value": request((b"x", after(b"y\r\n\r\n")), data=b""),
    "LF and a coding in a value": request((b"x", b"y\ntransfer-encoding: chunked"), data=chunks),
    "CR and a coding in a value": request((b"x", b"y\rtransfer-encoding: chunked"), data=chunks),
    "NUL in a value": request((b"x", b"y\0content-length: 0")),
    "a line end in a cookie": request((b"cookie", b"a=b\r\ntransfer-encoding: chunked"), data=chunks),
    "a line end and a coding in a name": request((b"x: y\r\ntransfer-encoding", b"chunked"), data=chunks),
    "line ends and the hidden request in a name": request((after(b"x: y\r\n\r\n"), b"z"), data=b""),
    "LF in a name": request((b"x: y\ntransfer-encoding", b"chunked"), data=chunks),
    "a space in a name": request((b"x y", b"z")),
    "a colon in a name": request((b"content-length: 0 x", b"z")),
    "NUL in a name": request((b"x\0", b"y")),
    "an empty name": request((b"", b"y")),
    "a connection field": request((b"connection", b"content-length"), (LENGTH, size)),
    "a connection field that closes": request((b"connection", b"close")),
    "keep-alive and proxy-connection": request((b"keep-alive", b"timeout=5"), (b"proxy-connection", b"keep-alive")),
    "an upgrade": request((b"upgrade", b"h2c"), (b"http2-settings", b"AAMAAABkAAQAAP__")),
    "te of another kind": request((b"te", b"chunked")),
    "a second host": request((b"host", b"evil.example")),
    "a host with a line end": request((b"host", b"localhost\r\ntransfer-encoding: chunked"), data=chunks),
    "Expect": request((b"expect", b"100-continue")),
    "a method with a line": request(method=b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nPOST"),
    "a method with the hidden request": request(method=lambda hidden: b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n" + hidden.bytes + b"GET", data=b""),
    "a method with a space": request(method=b"GET /healthz"),
    "a method in lower case": request(method=b"post"),
    "an empty method": request(method=b""),
    "no method": request(method=None),
    "a path with a line end": request(path=b"/healthz HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nx: ", data=chunks),
    "a path with the hidden request": request(path=after(b"/healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"), data=b""),
    "a path with a version": request(path=TARGET + b" HTTP/1.1"),
    "a path with LF": request(path=TARGET + b"&a=\nb"),
    "a path with NUL": request(path=TARGET + b"&a=\0b"),
    "a path with a fragment": request(path=TARGET + b"#a"),
    "a path without a slash": request(path=b"healthz"),
    "a path that is a URL": request(path=b"http://evil.example" + TARGET),
    "an empty path": request(path=b""),
    "no path": request(path=None),
    "an authority with a line end": request(authority=b"localhost\r\ntransfer-encoding: chunked", data=chunks),
    "an authority with the hidden request": request(authority=after(b"localhost\r\n\r\n"), data=b""),
    "an authority with a path": request(authority=b"localhost/evil"),
    "no authority": request(authority=None),
    "a scheme with a request": request(scheme=b"http://localhost/healthz HTTP/1.1\r\nhost: localhost\r\n\r\nGET"),
    "an unknown scheme": request(scheme=b"cow"),
    "two paths": request((b":path", b"/healthz")),
    "an unknown pseudo header field": request((b":cow", b"moo")),
    "a status": request((b":status", b"200")),
    "pseudo header fields at the end": request(at_end=True),
    "GET with data": request(method=b"GET", path=b"/farm/v1/animals"),
    "HEAD with data": request(method=b"HEAD", path=b"/healthz"),
    "DELETE with data": request(method=b"DELETE", path=b"/farm/v1/animals/nobody"),
    "data of a refused upload": request(path=b"/upload/farm/v1/cows?uploadType=media"),
    "data of a refused upload, and a length": request((LENGTH, size), path=b"/upload/farm/v1/cows?uploadType=media"),
    "CONNECT": request(method=b"CONNECT", scheme=None, path=None),
    "CONNECT with a port": request(method=b"CONNECT", scheme=None, path=None, authority=b"localhost:80"),
    "CONNECT with a length": request((LENGTH, size), method=b"CONNECT", scheme=None, path=None),
    "CONNECT with a length of zero": request((LENGTH, b"0"), method=b"CONNECT", scheme=None, path=None),
    "CONNECT, extended": request((b":protocol", b"websocket"), method=b"CONNECT"),
}


def cases():
    for name, bytes_of in REQUESTS.items():
        yield Case(f"HTTP/2: {name}", bytes_of, http2=True)
    head = fields([*PSEUDO.items(), *IMAGE])
    yield Case("HTTP/2: the hidden request in the padding", lambda hidden: head + padded(b"a", hidden.bytes), http2=True)
    yield Case("HTTP/2: data behind the end of the stream", lambda hidden: head + body(b"a") + body(hidden.bytes), http2=True)
    yield Case("HTTP/2: data of a stream that is not open", lambda hidden: head + body(hidden.bytes, stream=5) + body(b"a"), http2=True)
