"""Lines of the head: the request line, targets, versions, names and values of fields, upgrades."""

from urllib.parse import quote

from cases import CHUNKED, END, UPLOAD, Case, in_chunks, length, with_length
from framing import no_evil

TARGET = b"/upload/farm/v1/animals?uploadType=media"
FIELDS = b"Host: localhost\r\nContent-Type: image/png\r\n"
# Request lines. The hidden request is the body: who cannot read the line must not read on behind the head.
LINES = {
    "in lower case": b"post " + TARGET + b" HTTP/1.1",
    "two spaces before the target": b"POST  " + TARGET + b" HTTP/1.1",
    "two spaces before the version": b"POST " + TARGET + b"  HTTP/1.1",
    "tabs": b"POST\t" + TARGET + b"\tHTTP/1.1",
    "vertical tabs": b"POST\x0b" + TARGET + b"\x0bHTTP/1.1",
    "space in front": b" POST " + TARGET + b" HTTP/1.1",
    "tab in front": b"\tPOST " + TARGET + b" HTTP/1.1",
    "an empty line in front": b"\r\nPOST " + TARGET + b" HTTP/1.1",
    "empty lines in front": b"\r\n\r\n\r\nPOST " + TARGET + b" HTTP/1.1",
    "LF in front": b"\nPOST " + TARGET + b" HTTP/1.1",
    "NUL in front": b"\0POST " + TARGET + b" HTTP/1.1",
    "CR in front": b"\rPOST " + TARGET + b" HTTP/1.1",
    "space at the end": b"POST " + TARGET + b" HTTP/1.1 ",
    "words at the end": b"POST " + TARGET + b" HTTP/1.1 GET / HTTP/1.1",
    "CR CR at the end": b"POST " + TARGET + b" HTTP/1.1\r",
    "NUL at the end": b"POST " + TARGET + b" HTTP/1.1\0",
    "colon in the method": b"POST: " + TARGET + b" HTTP/1.1",
    "unknown method": b"SMUGGLE " + TARGET + b" HTTP/1.1",
    "method of 5 KB": b"P" * 5000 + b" " + TARGET + b" HTTP/1.1",
    "no method": b" " + TARGET + b" HTTP/1.1",
    "no target": b"POST HTTP/1.1",
    "no version": b"POST " + TARGET,
    "target of 100 KB": b"POST " + TARGET + b"&a=" + b"b" * 100_000 + b" HTTP/1.1",
    "HTTP/1.2": b"POST " + TARGET + b" HTTP/1.2",
    "HTTP/1.10": b"POST " + TARGET + b" HTTP/1.10",
    "HTTP/01.1": b"POST " + TARGET + b" HTTP/01.1",
    "HTTP/0.9": b"POST " + TARGET + b" HTTP/0.9",
    "HTTP/2.0": b"POST " + TARGET + b" HTTP/2.0",
    "HTTP/3": b"POST " + TARGET + b" HTTP/3",
    "http/1.1": b"POST " + TARGET + b" http/1.1",
    "HTTP /1.1": b"POST " + TARGET + b" HTTP /1.1",
    "HTTP/ 1.1": b"POST " + TARGET + b" HTTP/ 1.1",
    "HTTP/1,1": b"POST " + TARGET + b" HTTP/1,1",
    "ICY/1.1": b"POST " + TARGET + b" ICY/1.1",
}
TARGETS = {
    "fragment": TARGET + b"#fragment",
    "space": TARGET + b"&a=b c",
    "tab": TARGET + b"&a=b\tc",
    "bare CR": TARGET + b"&a=b\rc",
    "bare LF": TARGET + b"&a=b\nc",
    "NUL": TARGET + b"&a=b\0c",
    "DEL": TARGET + b"&a=b\x7fc",
    "vertical tab": TARGET + b"&a=b\x0bc",
    "bytes beyond ASCII": TARGET + b"&a=\xff\xfe",
    "overlong slash": b"/upload/farm/v1\xc0\xafanimals?uploadType=media",
    "braces and quotes": TARGET + b'&a={"b"}',
    "backslash": b"\\upload\\farm\\v1\\animals?uploadType=media",
    "no slash": b"upload/farm/v1/animals?uploadType=media",
    "two slashes": b"//localhost" + TARGET,
    "dots": b"/healthz/.." + TARGET,
    "encoded slash": b"/upload%2ffarm/v1/animals?uploadType=media",
    "encoded NUL": TARGET + b"&a=%00",
    "malformed escape": TARGET + b"&a=%zz%",
    "asterisk": b"*",
    "authority alone": b"localhost:80",
    "empty path of an absolute URL": b"http://localhost",
    "absolute": b"http://localhost" + TARGET,
    "absolute, another scheme": b"ftp://localhost" + TARGET,
    "absolute, a user": b"http://user:word@localhost" + TARGET,
    "absolute, malformed host": b"http://[::1" + TARGET,
    "absolute, a space in it": b"http://local host" + TARGET,
}


def of_lines():
    def body(line, fields=FIELDS):
        return lambda hidden: with_length(line + b"\r\n" + fields, hidden.bytes)

    for name, line in LINES.items():
        yield Case(f"request line: {name}", body(line))
    for name, target in TARGETS.items():
        yield Case(f"target: {name}", body(b"POST " + target + b" HTTP/1.1"))
    for name, method in {"CONNECT": b"CONNECT localhost:80", "CONNECT with a path": b"CONNECT /healthz", "PRI": b"PRI *", "TRACE": b"TRACE /healthz"}.items():
        yield Case(f"method: {name}", body(method + b" HTTP/1.1"))
    connect = b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n"
    yield Case("method: CONNECT, in chunks", lambda hidden: in_chunks(connect, hidden.bytes))
    # What follows the head is for the tunnel, and no request where there is none (RFC 9110, 9.3.6).
    yield Case("method: CONNECT, the hidden request behind it", lambda hidden: connect + b"\r\n" + hidden.bytes)
    yield Case("target: an encoded line end and the hidden request", encoded_in_target)
    yield Case("target: an encoded line end and the hidden request, in the path", lambda hidden: encoded_in_target(hidden, b"/farm/v1/animals/a"))
    yield Case("target: a version, and the hidden request behind CR", lambda hidden: b"GET /healthz HTTP/1.1\r" + hidden.bytes)
    yield Case("HTTP/0.9: a line alone", lambda hidden: b"GET /healthz\r\n" + hidden.bytes)
    yield Case("HTTP/0.9: a line, and an empty one", lambda hidden: b"GET /healthz\r\n\r\n" + hidden.bytes)
    yield Case("HTTP/2: the preface, and the hidden request", lambda hidden: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden.bytes)


def encoded_in_target(hidden, path=b"/healthz?a="):
    inner = quote(" HTTP/1.1\r\nHost: localhost\r\n\r\n" + hidden.bytes.decode(), safe="").encode()
    return b"GET " + path + inner + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"


# Fields before those of the framing. The hidden request is the body.
NAMES = {
    "space in it": b"X Y: z\r\n",
    "no name": b": y\r\n",
    "no colon": b"X\r\n",
    "control byte": b"X\x01: y\r\n",
    "NUL": b"X\0: y\r\n",
    "DEL": b"X\x7f: y\r\n",
    "bytes beyond ASCII": b"X\xc3\xa9: y\r\n",
    "brackets": b"X[]: y\r\n",
    "a slash": b"X/Y: z\r\n",
    "space before the colon": b"X : y\r\n",
    "space before it": b" X: y\r\n",
    "of 100 KB": b"X" * 100_000 + b": y\r\n",
    "a space and a length of zero": b"Content-Length : 0\r\n",
    "a tab and a length of zero": b"Content-Length\t: 0\r\n",
    "a vertical tab and a length of zero": b"Content-Length\x0b: 0\r\n",
    "NUL and a length of zero": b"Content-Length\0: 0\r\n",
    "NUL before a length of zero": b"\0Content-Length: 0\r\n",
    "a length of zero with a space inside": b"Content Length: 0\r\n",
    "a length of zero with an underscore": b"Content_Length: 0\r\n",
    "a coding with a vertical tab": b"Transfer-Encoding\x0b: chunked\r\n",
    "a pseudo header field": b":method: GET\r\n",
}
VALUES = {
    "NUL": b"X: a\0b\r\n",
    "control byte": b"X: a\x01b\r\n",
    "DEL": b"X: a\x7fb\r\n",
    "bare CR, and a length of zero": b"X: a\rContent-Length: 0\r\n",
    "bare CR, twice": b"X: a\r\rb\r\n",
    "LF, and a length of zero": b"X: a\nContent-Length: 0\r\n",
    "LF CR, and a length of zero": b"X: a\n\rContent-Length: 0\r\n",
    "encoded line end": b"X: a%0d%0aContent-Length: 0\r\n",
    "line end of Unicode": "X: a\u560d\u560aContent-Length: 0\r\n".encode(),
    "folded": b"X: a\r\n b\r\n",
    "folded, and a length of zero": b"X: a\r\n Content-Length: 0\r\n",
    "folded, the first line": b" folded\r\nX: a\r\n",
    "of 100 KB": b"X: " + b"a" * 100_000 + b"\r\n",
    "200 of them": b"X: a\r\n" * 200,
    "a second host": b"Host: evil.example\r\n",
    "of Connection, close and keep-alive": b"Connection: close, keep-alive\r\n",
    "of Connection, Host": b"Connection: Host\r\n",
    "of Content-Encoding, chunked": b"Content-Encoding: chunked\r\n",
    "of TE, chunked": b"TE: chunked\r\nConnection: TE\r\n",
    "of Upgrade, h2c": b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nConnection: Upgrade, HTTP2-Settings\r\n",
    "of Upgrade, h2c without its settings": b"Upgrade: h2c\r\nConnection: Upgrade\r\n",
    "of Upgrade, websocket": b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    "of Upgrade, TLS": b"Upgrade: TLS/1.3\r\nConnection: Upgrade\r\n",
    "of X-HTTP-Method-Override": b"X-HTTP-Method-Override: GET\r\n",
}
# What some take for the end of the head, with the hidden request behind it.
NO_ENDS = {
    "CR CR LF": b"X: y\r\r\n",
    "CR CR": b"X: y\r\r",
    "CR LF CR": b"X: y\r\n\r",
    "CR LF CR CR LF": b"X: y\r\n\r\r\n",
    "LF CR": b"X: y\n\r",
    "a line with a space": b"X: y\r\n \r\n",
    "a line with a tab": b"X: y\r\n\t\r\n",
    "a line with NUL": b"X: y\r\n\0\r\n",
    "a line with a vertical tab": b"X: y\r\n\x0b\r\n",
    "a line with a dot": b"X: y\r\n.\r\n",
}


def of_fields():
    def body(lines):
        return lambda hidden: with_length(UPLOAD + lines, hidden.bytes)

    for name, lines in NAMES.items():
        yield Case(f"name of a field: {name}", body(lines))
    for name, lines in VALUES.items():
        yield Case(f"value of a field: {name}", body(lines))
    for name, lines in NO_ENDS.items():
        yield Case(f"end of the head: {name}", lambda hidden, lines=lines: b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + lines + hidden.bytes)
    yield Case("end of the head: all lines end with LF", lambda hidden: with_length(UPLOAD, hidden.bytes).replace(b"\r\n", b"\n", 5))
    yield Case("end of the head: the hidden request is in a value", lambda hidden: UPLOAD + b"X: " + hidden.bytes.replace(b"\r\n", b"\r\n\t") + b"\r\n" + length(0) + b"\r\n")


# Hosts; the hidden request is the body.
HOSTS = {
    "none": b"",
    "empty": b"Host: \r\n",
    "two alike": b"Host: localhost\r\nHost: localhost\r\n",
    "with a line end, encoded": b"Host: localhost%0d%0aContent-Length: 0\r\n",
    "with a space": b"Host: localhost evil.example\r\n",
    "with a path": b"Host: localhost/evil\r\n",
    "with a user": b"Host: evil.example@localhost\r\n",
    "with a port that is none": b"Host: localhost:evil\r\n",
    "folded": b"Host:\r\n localhost\r\n",
    "with NUL": b"Host: localhost\0evil.example\r\n",
    "with a comma": b"Host: localhost, evil.example\r\n",
}


def of_hosts():
    line = b"POST " + TARGET + b" HTTP/1.1\r\nContent-Type: image/png\r\n"
    for name, host in HOSTS.items():
        yield Case(f"host: {name}", lambda hidden, host=host: with_length(line + host, hidden.bytes))
    start = b"POST %s/upload/farm/v1/animals?uploadType=resumable HTTP/1.1\r\nHost: %s\r\n"
    yield Case("host: an absolute target wins over another host", lambda hidden: with_length(start % (b"http://localhost", b"evil.example"), b"{}"), also=no_evil)


def of_versions():
    old, kept = UPLOAD.replace(b"HTTP/1.1", b"HTTP/1.0"), b"Connection: keep-alive\r\n"

    def shortened(hidden):
        size = b"%x\r\n" % len(hidden.bytes)
        return old + kept + CHUNKED + length(len(size)) + b"\r\n" + size + hidden.bytes + b"\r\n" + END

    yield Case("HTTP/1.0: chunks", lambda hidden: old + CHUNKED + b"\r\n" + END + hidden.bytes)
    yield Case("HTTP/1.0: chunks, kept alive", lambda hidden: old + kept + CHUNKED + b"\r\n" + END + hidden.bytes)
    yield Case("HTTP/1.0: chunks around the hidden request, kept alive", lambda hidden: in_chunks(old + kept, hidden.bytes))
    yield Case("HTTP/1.0: length and chunks, the chunks end first",
               lambda hidden: old + kept + length(len(END + hidden.bytes)) + CHUNKED + b"\r\n" + END + hidden.bytes)
    yield Case("HTTP/1.0: length and chunks, the length ends first", shortened)
    yield Case("HTTP/1.0: no length", lambda hidden: old + b"\r\n" + hidden.bytes)
    yield Case("HTTP/1.0: not kept alive", lambda hidden: old + length(0) + b"\r\n" + hidden.bytes)
    yield Case("HTTP/1.0: a body, kept alive", lambda hidden: with_length(old + kept, hidden.bytes))
    yield Case("Connection: close, and the hidden request behind it", lambda hidden: UPLOAD + b"Connection: close\r\n" + length(0) + b"\r\n" + hidden.bytes)
    yield Case("Connection: close among others, and the hidden request behind it",
               lambda hidden: UPLOAD + b"Connection: keep-alive\r\nConnection: x, CLOSE\r\n" + length(0) + b"\r\n" + hidden.bytes)


def cases():
    yield from of_lines()
    yield from of_fields()
    yield from of_hosts()
    yield from of_versions()
