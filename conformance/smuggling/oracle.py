"""A case is tried at a server, or at a proxy before it: what the hidden request leaves behind when it gets through."""

import contextlib
import dataclasses
import http.client
import itertools
import json
import re

from http2 import Http2Exchange
from wire import Exchange, connect, source

ANIMALS = "/farm/v1/animals"
JSON = {"Content-Type": "application/json"}
_TAGS = itertools.count(1)


class Calls:
    """Calls of the server itself, past all proxies, each on a connection of its own."""

    def __init__(self, port, token=None):
        self.port, self.made = port, 0
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def call(self, method, target, body=None, **headers):
        self.made += 1
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10, source_address=source())
        with contextlib.closing(connection):
            connection.request(method, target, body, {**self.headers, **headers, "Connection": "close"})
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()

    def animal(self, name):
        status, _, body = self.call("POST", ANIMALS, json.dumps({"name": name}), **JSON)
        assert status == 200, (status, body)
        return f"{ANIMALS}/{json.loads(body)['id']}"

    def session(self):
        _, headers, _ = self.call("POST", "/upload/farm/v1/animals?uploadType=resumable", "{}", **JSON)
        return "/upload/" + headers["Location"].partition("/upload/")[2]

    def names(self):
        """Of all animals."""
        names, page = set(), ""
        while page is not None:
            _, _, body = self.call("GET", f"{ANIMALS}?maxResults=1000&fields=items/name,nextPageToken{page}")
            listed = json.loads(body)
            names |= {it.get("name") for it in listed.get("items", ())}
            page = f"&pageToken={listed['nextPageToken']}" if "nextPageToken" in listed else None
        return names

    def of_others(self):
        """How many requests the server has read that were not made here."""
        _, _, body = self.call("GET", "/metrics")
        return sum(int(it) for it in re.findall(r"^windlass_requests_total\{.*\} (\d+)$", body.decode(), re.MULTILINE)) - self.made


class Hidden:
    """The request that is hidden in another one; in truth two, so that one is found where the first bytes are lost: one deletes a sentinel, one makes
    an animal whose name is a tag."""

    def __init__(self, calls):
        number = next(_TAGS)
        self.calls, self.tag, self.guard = calls, f"smuggled-{number}", f"sentinel-{number}"
        self.sentinel = calls.animal(self.guard)
        self.authorization = "".join(f"{name}: {value}\r\n" for name, value in calls.headers.items()).encode()
        self.metadata = json.dumps({"name": self.tag}).encode()
        common = b" HTTP/1.1\r\nHost: localhost\r\n" + self.authorization
        create = b"POST " + ANIMALS.encode() + common + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(self.metadata) + self.metadata
        self.bytes = b"DELETE " + self.sentinel.encode() + common + b"\r\n" + create

    def at(self, head):
        """The head with URIs in place of their names."""
        if b"ANIMAL" in head:
            head = head.replace(b"ANIMAL", self.calls.animal("other").encode())
        if b"SESSION" in head:
            head = head.replace(b"SESSION", self.calls.session().encode())
        if b"DONE" in head:
            session = self.calls.session()
            self.calls.call("PUT", session, b"done")
            head = head.replace(b"DONE", session.encode())
        if b"GONE" in head:
            session = self.calls.session()
            self.calls.call("DELETE", session)
            head = head.replace(b"GONE", session.encode())
        return head

    def assert_unheard(self, names):
        assert self.tag not in names, f"the hidden request was carried out: {self.tag} is there"
        assert self.guard in names, f"the hidden request was carried out: {self.guard} is gone"


@dataclasses.dataclass
class Front:
    """Where the requests of the cases go, and the server that they come to."""

    port: int
    calls: Calls
    # Of a proxy.
    authority: str | None = None
    # Cases in which it reads more requests than a strict reader, with the reason.
    reads_two: dict = dataclasses.field(default_factory=dict)

    def connect(self, protocol="http/1.1"):
        return contextlib.closing(connect(self.port, self.authority, protocol))


class Trial:
    """Cases, one after the other; what became of each is known at the end, when nothing can come later."""

    def __init__(self, front):
        self.front = front
        self.tried = []
        honest = [(f"honest-{n}", front.calls.animal(f"honest-{n}")) for n in range(5)]
        self.turn = itertools.cycle(honest)
        self.read = front.calls.of_others()

    def of(self, case):
        hidden = Hidden(self.front.calls)
        failure = None
        try:
            self.try_it(case, hidden)
        except Exception as thrown:  # pylint: disable=broad-except
            failure = thrown
        self.tried.append((case, hidden, failure))

    def try_it(self, case, hidden):
        pieces = case.bytes_of(hidden)
        exchange = self.exchange_frames if case.http2 else self.exchange
        replies, own = exchange([pieces] if isinstance(pieces, bytes) else pieces, case)
        self.assert_own_reply()
        before, self.read = self.read, self.front.calls.of_others()
        # One is that of somebody else.
        read = self.read - before - 1
        # Of a proxy each reply is to a request that it has read. If the server has read more, it has taken a body for a request. One may be without a
        # reply, where the body never ends or the stream is reset.
        assert read <= max(len(replies), 1) + own, f"the server has read {read} requests, and {len(replies) + own} were answered: {replies}"
        if case.name in self.front.reads_two:
            return
        assert len(replies) <= case.replies, f"{len(replies)} replies: {replies}"
        if case.status is not None and self.front.authority is None:
            assert replies and replies[0].status == case.status, f"the reply is {replies}"
        if case.also:
            case.also(replies)

    def exchange(self, pieces, case):
        """The replies to the case, and whether the connection has answered another request after it."""
        name, target = next(self.turn)
        last = self.honest(target)
        with self.front.connect() as stream:
            replies = Exchange(stream, case.replies, case.of_head).of(pieces, b"" if case.alone else last)
        own = bool(replies) and is_of(replies[-1], name)
        return replies[:-1] if own else replies, own

    def exchange_frames(self, pieces, _):
        name, target = next(self.turn)
        with self.front.connect("h2") as stream:
            reply, last = Http2Exchange(stream).of(b"".join(pieces), target)
        return [] if reply is None else [reply], last is not None and is_of(last, name)

    def honest(self, target):
        authorization = "".join(f"{field}: {value}\r\n" for field, value in self.front.calls.headers.items())
        return f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{authorization}Connection: close\r\n\r\n".encode()

    def assert_own_reply(self):
        """Somebody else gets the reply to their request: nothing is left on the connections of the proxy."""
        name, target = next(self.turn)
        with self.front.connect() as stream:
            replies = Exchange(stream, 1).of([self.honest(target)])
        assert len(replies) == 1 and is_of(replies[0], name), f"an honest client wants {name} and gets {replies}"

    def outcomes(self):
        """Each case with its failure."""
        names = self.front.calls.names()
        for case, hidden, failure in self.tried:
            if failure is None and case.name not in self.front.reads_two:
                try:
                    hidden.assert_unheard(names)
                except AssertionError as thrown:
                    failure = thrown
            yield case, failure


def is_of(reply, name):
    """Whether it is that to the request for the animal of this name."""
    try:
        return reply.status == 200 and json.loads(reply.body)["name"] == name
    except (ValueError, KeyError, TypeError):
        return False
