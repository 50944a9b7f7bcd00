"""Small servers, and a proxy, that let hidden requests through, each in a way of its own: the cases have to fail with them."""

import contextlib
import itertools
import json
import re
import socket
import struct
import threading
from urllib.parse import unquote_to_bytes

from hpack import Decoder, Encoder

import http2
from oracle import ANIMALS

REQUEST = re.compile(rb"(?:GET|HEAD|POST|PUT|DELETE) [^\s\0]+ HTTP/1\.1\r\n")
# A connection on which nothing comes for this long is closed.
IDLE = 0.2


class Animals:
    """What the servers have, and what `oracle.Calls` asks of a real one."""

    headers = {}

    def __init__(self):
        self.ids, self.all, self.read = itertools.count(), {}, 0

    def animal(self, name):
        target = f"{ANIMALS}/{next(self.ids)}"
        self.all[target] = name
        return target

    def session(self):
        return "/session"

    def call(self, *_, **__):
        return 200, {}, b""

    def names(self):
        return set(self.all.values())

    def of_others(self):
        return self.read

    def answer(self, method, target, body):
        """The reply."""
        self.read += 1
        status, said = b"200 OK", {}
        if method == "DELETE" and self.all.pop(target, None):
            status = b"204 No Content"
        elif method == "POST" and target == ANIMALS and b'"name"' in body:
            with contextlib.suppress(ValueError):
                self.animal(json.loads(body)["name"])
        elif method == "GET" and target in self.all:
            said = {"name": self.all[target]}
        content = b"" if status[:3] == b"204" else json.dumps(said).encode()
        length = b"" if status[:3] == b"204" else b"Content-Length: %d\r\n" % len(content)
        return b"HTTP/1.1 " + status + b"\r\n" + length + b"\r\n" + (b"" if method == "HEAD" else content)


class Bytes:
    """What a client sends: from its connection, or from memory."""

    def __init__(self, data=b"", stream=None):
        self.data, self.stream = data, stream

    def more(self):
        try:
            got = self.stream.recv(65536) if self.stream else b""
        except OSError:
            got = b""
        if not got:
            raise EOFError
        self.data += got

    def until(self, pattern):
        while not (found := pattern.search(self.data)):
            self.more()
        taken, self.data = self.data[:found.end()], self.data[found.end():]
        return taken

    def skip_line_ends(self):
        self.data = self.data.lstrip(b"\r\n")
        while not self.data:
            self.more()
            self.data = self.data.lstrip(b"\r\n")

    def exactly(self, count):
        while len(self.data) < count:
            self.more()
        taken, self.data = self.data[:count], self.data[count:]
        return taken


LINE, HEAD = re.compile(rb"\n"), re.compile(rb"\r?\n\r?\n")


class Sloppy:
    """Reads heads up to an empty line, and takes from each what it understands."""

    what = "ends each connection after one reply"
    end_of_head = HEAD
    stays = True

    def __init__(self):
        self.animals = Animals()

    def carry_out(self, taken):
        """The replies to the requests, one by one."""
        while True:
            taken.skip_line_ends()
            head = taken.until(self.end_of_head)
            method, target = (head.split(None, 2)[:2] + [b"", b""])[:2]
            body = self.body(head, taken)
            yield self.animals.answer(method.decode("latin-1"), target.decode("latin-1"), body)
            if not self.stays or b"\r\nConnection: close\r\n" in head:
                return

    def body(self, head, taken):
        return taken.exactly(number(head))


def number(head):
    """The length, for who is not exact."""
    found = re.search(rb"(?im)^content-length *: *(\d{1,9})", head)
    return int(found[1]) if found else 0


class OneReply(Sloppy):
    stays = False


class NoBodies(Sloppy):
    what = "reads no bodies"

    def body(self, head, taken):
        # But for a call that makes an animal.
        if head.startswith(b"POST " + ANIMALS.encode()) and taken.data.startswith(b"{"):
            return super().body(head, taken)
        return b""


class Lengths(Sloppy):
    what = "counts the length where there are chunks as well"


class Chunks(Sloppy):
    what = "counts chunks wherever it reads chunked, whatever their sizes look like"

    def body(self, head, taken):
        if not re.search(rb"(?i)transfer.encoding|chunked", head):
            return super().body(head, taken)
        body = b""
        while True:
            line = taken.until(LINE)
            digits = re.match(rb"[0-9a-fA-F]*", line)[0]
            size = int(digits or b"0", 16) % (1 << 32)
            if not size:
                break
            body += taken.exactly(size)
            taken.until(LINE)
        # A line with another one in it counts as the empty line, too.
        while not line.endswith(b"\n\n") and taken.until(LINE).strip():
            pass
        return body


class Ends(Sloppy):
    what = "ends the head at whatever looks like an empty line, and the line at a CR"
    end_of_head = re.compile(rb"\r?\n[ \t\0\x0b.]*\r?\n|\r\r|\r\n\r|\n\r|HTTP/1.1\r(?=[A-Z])")


class Decodes(Sloppy):
    what = "decodes the head before it reads it"

    def carry_out(self, taken):
        head = taken.until(HEAD)
        taken.data = unquote_to_bytes(head) + taken.data
        yield from super().carry_out(taken)


class Scans(Sloppy):
    what = "looks for the next request in all that comes"

    def carry_out(self, taken):
        while True:
            line = taken.until(REQUEST)
            method, target = REQUEST.search(line)[0].split()[:2]
            rest = taken.until(HEAD) if not taken.data.startswith(b"\r\n") else b""
            body = taken.exactly(number(b"\n" + rest)) if target == ANIMALS.encode() else b""
            yield self.animals.answer(method.decode(), target.decode(), body)


SERVERS = Lengths, Chunks, Ends, Decodes, NoBodies, Scans


class Listener:
    """Serves HTTP/1.1, and HTTP/2, each request of which it writes in HTTP/1.1 as it is."""

    def __init__(self, server, idle=IDLE):
        self.server, self.idle = server, idle
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                self.serve(self.socket.accept()[0])

    def serve(self, stream):
        stream.settimeout(self.idle)
        with contextlib.closing(stream), contextlib.suppress(EOFError, OSError):
            taken = Bytes(stream=stream)
            while len(taken.data) < len(http2.PREFACE) and http2.PREFACE.startswith(taken.data):
                taken.more()
            # The settings that follow tell a real one from the case that only has the preface.
            if taken.data.startswith(http2.PREFACE + b"\0\0\0\x04"):
                self.translate(stream, taken)
            else:
                for reply in self.server.carry_out(taken):
                    stream.sendall(reply)

    def translate(self, stream, taken):
        taken.exactly(len(http2.PREFACE))
        stream.sendall(http2.frame(http2.SETTINGS, 0, 0, b""))
        decoder, requests, done = Decoder(), {}, set()
        while True:
            length, kind, flags, of = struct.unpack(">IBBI", b"\0" + taken.exactly(9))
            payload = taken.exactly(length)
            if kind == http2.DATA and self.server.stays and (of in done or of not in requests):
                list(self.replies_to([(b"content-length", b"0")], payload))
            if kind not in (http2.HEADERS, http2.DATA) or of in done or (kind == http2.DATA and of not in requests):
                continue
            fields, content = requests.setdefault(of, ([], []))
            if kind == http2.HEADERS:
                fields += decoder.decode(payload, raw=True)
            else:
                content.append(payload)
            if flags & http2.END_STREAM:
                done.add(of)
                reply = next(iter(list(self.replies_to(fields, b"".join(content)))), b"HTTP/1.1 400 ")
                head = Encoder().encode([(b":status", reply[9:12])])
                stream.sendall(http2.frame(http2.HEADERS, http2.END_HEADERS, of, head) + http2.body(reply.partition(b"\r\n\r\n")[2], stream=of))

    def replies_to(self, fields, content):
        pseudo = dict(fields)
        head = pseudo.get(b":method", b"GET") + b" " + pseudo.get(b":path", b"/") + b" HTTP/1.1\r\n"
        # The authority goes first, as most write it.
        head += b"host: " + pseudo.get(b":authority", b"") + b"\r\n"
        head += b"".join(name + b": " + value + b"\r\n" for name, value in fields if not name.startswith(b":"))
        with contextlib.suppress(EOFError):
            yield from self.server.carry_out(Bytes(head + b"\r\n" + content))


class Proxy(Listener):
    """Passes each request on as it is, by its length, on the one connection that it has to a server, and takes the next reply there for that to it."""

    def __init__(self, to):
        self.upstream = socket.create_connection(("127.0.0.1", to))
        self.replies = Bytes(stream=self.upstream)
        super().__init__(None)

    def serve(self, stream):
        stream.settimeout(self.idle)
        with contextlib.closing(stream), contextlib.suppress(EOFError, OSError):
            taken = Bytes(stream=stream)
            head = taken.until(HEAD)
            self.upstream.sendall(head.replace(b"Connection: close\r\n", b"") + taken.exactly(number(head)))
            reply = self.replies.until(HEAD)
            stream.sendall(reply + self.replies.exactly(number(reply)))

    def __exit__(self, *_):
        super().__exit__()
        self.upstream.close()
