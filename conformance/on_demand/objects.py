"""What every library for Cloud Storage is asked to do, through a small program that calls it."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from faults import CUT, LOST_DOWNLOAD, LOST_FINAL_REPLY, LOST_REPLY, LOST_START, UNAVAILABLE, FaultProxy
from report import check, media
from server import Server

MIB = 1024 * 1024
SMALL, LARGE = media(1000), media(20 * MIB + 7, seed=2)
# Name, media, size of the chunks, or 0 where the library is to send all in one request.
UPLOADS = [("empty", b"", 0), ("small", SMALL, 0), ("large in one request", LARGE, 0), ("empty in chunks", b"", MIB),
           ("small in chunks", SMALL, MIB), ("several chunks", LARGE, MIB), ("whole chunks", LARGE[:4 * MIB], MIB)]
FAULTS = UNAVAILABLE, CUT, LOST_FINAL_REPLY
FAULTS_OF_CHUNKS = LOST_START, UNAVAILABLE, CUT, LOST_REPLY, LOST_FINAL_REPLY
# One of these is in what a library says of an object that is not there.
NOT_FOUND = "doesn't exist", "notfound", "not found"


class Program:
    """`command` URL VERB ARGUMENT... calls the library.

    `lacks` says why a verb, or a verb with what it is about, has no case.
    """

    def __init__(self, name, command, lacks=None):
        self.name, self.command, self.lacks = name, command, lacks or {}

    def run(self, url, *arguments):
        return subprocess.run([*self.command, url, *map(str, arguments)], capture_output=True, timeout=120, check=False)

    def call(self, url, *arguments, code=0):
        done = self.run(url, *arguments)
        assert done.returncode == code, f"exit code {done.returncode}: {done.stderr.decode()}"
        return done.stdout


class Barn:
    """A server of Cloud Storage with the bucket `barn`, as it is seen past the libraries."""

    def __init__(self, binary):
        self.server = Server(binary, "--api", "storage")
        request = urllib.request.Request(f"{self.server.url}/storage/v1/b?project=test", data=b'{"name": "barn"}')
        request.add_header("Content-Type", "application/json")
        urllib.request.urlopen(request).close()

    def _url(self, name, query=""):
        return f"{self.server.url}/storage/v1/b/barn/o/{urllib.parse.quote(name, safe='')}{query}"

    def verify(self, name, data, **fields):
        with urllib.request.urlopen(self._url(name)) as reply:
            resource = check(json.load(reply), data, **fields)
        with urllib.request.urlopen(self._url(name, "?alt=media")) as reply:
            assert reply.read() == data, "other bytes came back"
        return resource

    def exists(self, name):
        try:
            urllib.request.urlopen(self._url(name)).close()
        except urllib.error.HTTPError as error:
            assert error.code == 404, error
            return False
        return True


def run(report, binary, folder, program):
    barn = Barn(binary)
    with barn.server:
        Cases(report, barn, folder, program).all()


class Cases:
    def __init__(self, report, barn, folder, program):
        self.report, self.barn, self.folder, self.program = report, barn, folder, program
        self.url = barn.server.url

    def all(self):
        for size, data, chunk in UPLOADS:
            self.case("put in chunks" if chunk else "put", size, lambda data=data, chunk=chunk: self.put(data, chunk))
        self.case("get", "parts", self.parts)
        self.case("get", "no object", self.no_object)
        for verb in "list", "copy", "compose", "delete":
            self.case(verb, "objects", getattr(self, verb))
        for fault in FAULTS:
            self.case("put", fault, lambda fault=fault: self.struck(fault, 0))
        for fault in FAULTS_OF_CHUNKS:
            self.case("put in chunks", fault, lambda fault=fault: self.struck(fault, MIB))
        self.case("get", LOST_DOWNLOAD, self.struck_download)

    def case(self, verb, what, function):
        name = f"{self.program.name}: {verb}, {what}"
        reason = self.program.lacks.get((verb, what)) or self.program.lacks.get(verb)
        if reason:
            self.report.left_out(name, reason)
        else:
            self.report.case(name, function)

    def file(self, data):
        path = self.folder / "media"
        path.write_bytes(data)
        return path

    def put(self, data, chunk):
        self.program.call(self.url, "put", "stall/a cow", self.file(data), chunk)
        self.barn.verify("stall/a cow", data)
        assert self.program.call(self.url, "get", "stall/a cow", 0, -1) == data, "other bytes came back"

    def prepared(self, name, data=LARGE):
        self.program.call(self.url, "put", name, self.file(data), 0)

    def parts(self):
        self.prepared("large")
        for offset, length in (0, 10), (9 * MIB, 1000), (len(LARGE) - 7, -1):
            end = None if length < 0 else offset + length
            assert self.program.call(self.url, "get", "large", offset, length) == LARGE[offset:end], (offset, length)

    def no_object(self):
        done = self.program.run(self.url, "get", "none", 0, -1)
        said = done.stderr.decode().lower()
        assert done.returncode == 1 and any(words in said for words in NOT_FOUND), said

    def list(self):
        names = ["l/1", "l/2", "l/a/1", "l/ü ☃"]
        for name in names:
            self.prepared(name, SMALL)
        assert self.program.call(self.url, "list", "l/").decode().splitlines() == names

    def copy(self):
        self.prepared("from")
        self.program.call(self.url, "copy", "from", "to")
        self.barn.verify("to", LARGE)

    def compose(self):
        parts = [media(MIB + n, seed=n) for n in range(3)]
        for n, data in enumerate(parts):
            self.prepared(f"part-{n}", data)
        self.program.call(self.url, "compose", "whole", "part-0", "part-1", "part-2")
        self.barn.verify("whole", b"".join(parts))

    def delete(self):
        for n in range(3):
            self.prepared(f"gone-{n}", SMALL)
        self.program.call(self.url, "delete", *(f"gone-{n}" for n in range(3)))
        assert not any(self.barn.exists(f"gone-{n}") for n in range(3))

    def on_line(self, fault, *arguments):
        with FaultProxy(self.barn.server.port, fault) as line:
            said = self.program.call(line.url, *arguments)
            assert line.struck, "the fault did not strike"
            return said

    def struck(self, fault, chunk):
        self.on_line(fault, "put", "struck", self.file(LARGE), chunk)
        self.barn.verify("struck", LARGE)

    def struck_download(self):
        self.prepared("struck")
        assert self.on_line(LOST_DOWNLOAD, "get", "struck", 0, -1) == LARGE
