"""Requests that hide another request, at the server alone and behind each proxy of docs/proxies.md.

    smuggling.py BINARY
"""

import concurrent.futures
import contextlib
import os
import subprocess
import sys
import tempfile

import framing
import heads
import http2
import refusals
import self_test
from certificates import Certificates
from oracle import Calls, Front, Trial
from own_readings import reads_two
from recipes import NAMES, Proxy, arguments, url_of
from report import Report
from server import Server, free_port

TOKEN = "a-token-of-this-suite"
CASES = [*framing.cases(), *heads.cases(), *refusals.cases(), *http2.cases()]


@contextlib.contextmanager
def front(name, binary, certificates, guarded):
    """A server, alone or behind a proxy."""
    port = free_port()
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory())
        settings, token = {"limits_body_timeout": "1s"}, None
        if guarded:
            token, path = TOKEN, os.path.join(place, "token")
            with open(path, "w", encoding="utf-8", opener=lambda *given: os.open(*given, mode=0o600)) as file:
                file.write(TOKEN)
            settings |= {"auth_token_file": path, "limits_requests_per_address": str(refusals.PER_SECOND)}
        options = [] if name == "server" else arguments(url_of(port))
        server = stack.enter_context(Server(binary, *options, **settings))
        calls = Calls(server.port, token)
        if name == "server":
            yield Front(server.port, calls, reads_two=reads_two(name))
        else:
            stack.enter_context(Proxy(name, port, server, certificates, place))
            yield Front(port, calls, certificates.authority, reads_two(name))


def at_front(name, guarded, binary, certificates):
    """What came of each case there."""
    with front(name, binary, certificates, guarded) as place:
        self_test.two_in_a_row(place)
        trial = Trial(place)
        for case in CASES:
            # The recipe of nginx has no HTTP/2.
            if case.guarded == guarded and not (name == "nginx" and case.http2):
                trial.of(case)
        return list(trial.outcomes())


def throw(failure):
    if failure is not None:
        raise failure


def main():
    binary, report = sys.argv[1], Report()
    Server.log = subprocess.DEVNULL
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
        certificates = Certificates(folder)
        fronts = [(name, guarded, pool.submit(at_front, name, guarded, binary, certificates)) for name in ("server", *NAMES) for guarded in (False, True)]
        of_oracle = [(name, pool.submit(function, CASES)) for name, function in self_test.TESTS.items()]
        for name, guarded, outcomes in fronts:
            report.case(f"{name}{', with credentials' if guarded else ''}: two requests that are not hidden are seen, and all cases end", outcomes.result)
            if outcomes.exception() is None:
                own = reads_two(name)
                for case, failure in outcomes.result():
                    here = f" (here {own[case.name]})" if case.name in own else ""
                    report.case(f"{name}: {case.name}{here}", lambda failure=failure: throw(failure))
        for name, done in of_oracle:
            report.case(f"oracle: {name}", done.result)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
