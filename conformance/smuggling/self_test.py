"""That the suite would see a hidden request: at sloppy servers the cases fail."""

import dataclasses

from cases import UPLOAD, Case, with_length
from oracle import Front, Trial
from sloppy import SERVERS, Listener, NoBodies, OneReply, Proxy

# They have no second request.
OTHERS = "trailers: Host changes no URL", "trailers: Authorization is no credential", "host: an absolute target wins over another host", "HTTP/2: a length, and no data"


def failure_at(server, case):
    # What the replies say is of the real server.
    case = dataclasses.replace(case, status=None, also=None)
    with Listener(server) as listener:
        return failure_of(Trial(Front(listener.port, server.animals)), case)


def failure_of(trial, case):
    trial.of(case)
    return next(trial.outcomes())[1]


def two_in_a_row(front):
    """Two requests that nobody hides are answered and carried out; the oracle says so."""
    failure = failure_of(Trial(front), Case("two requests in a row", lambda hidden: hidden.bytes, replies=2))
    assert "was carried out" in str(failure), failure
    failure = failure_of(Trial(front), Case("two requests in a row", lambda hidden: hidden.bytes))
    assert "2 replies" in str(failure), failure


def nothing_at_one_reply(cases):
    failed = {case.name: failure for case in cases if case.name not in OTHERS and (failure := failure_at(OneReply(), case))}
    assert not failed, failed


def each_fails_somewhere(cases):
    at = {case.name: next((server for server in SERVERS if failure_at(server(), case)), None) for case in cases if case.name not in OTHERS}
    unseen = [name for name, server in at.items() if server is None]
    assert not unseen, unseen
    # None of the servers is there for nothing.
    assert set(at.values()) == set(SERVERS), [server.what for server in SERVERS if server not in at.values()]


def poisoned_connection(_):
    """The next client gets the reply to the hidden request."""
    server = NoBodies()
    with Listener(server, idle=5) as listener, Proxy(listener.port) as proxy:
        failure = failure_of(Trial(Front(proxy.port, server.animals)), Case("a body", lambda hidden: with_length(UPLOAD, hidden.bytes)))
    assert "an honest client" in str(failure), failure


TESTS = {
    "at a server that ends each connection after one reply no case fails": nothing_at_one_reply,
    "at servers that read sloppily in one way or another each case fails": each_fails_somewhere,
    "a proxy before a server that reads otherwise is found by the reply that somebody else gets": poisoned_connection,
}
