"""Google's libraries for JavaScript, unmodified, against Cloud Storage and Drive: @google-cloud/storage and @googleapis/drive.

    suite.py BINARY
"""

import base64
import hashlib
import itertools
import os
import sys
import tempfile

from faults import CUT, EXPIRED, LOST_FINAL_REPLY, LOST_REPLY, UNAVAILABLE, FaultProxy
from node import Node, Refused, thrown
from report import Gone, Report, check, media, write
from server import Server

STORAGE, DRIVE = "@google-cloud/storage", "@googleapis/drive"
KIB, MIB = 1024, 1024 * 1024
CHUNK = 256 * KIB
SMALL, LARGE = media(1000), media(3 * MIB + 12_345, seed=2)
ONE_REQUEST, MULTIPART = {"resumable": True}, {"resumable": False}
CHUNKS = {"resumable": True, "chunkSize": CHUNK}


class Libraries(Node):
    def __init__(self, url, scratch):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libraries.mjs")
        super().__init__(script, os.environ["NODE_PACKAGES"], url)
        self.scratch = scratch

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def save(self, name, data, options, call="save"):
        return self.ask(call=call, name=name, path=write(self.scratch, data), options=options)

    def create(self, data, mime_type="video/mp4", metadata=None, whole=True):
        return self.ask(call="create", path=write(self.scratch, data), mimeType=mime_type, metadata=metadata, whole=whole)

    def bytes(self, **of):
        return base64.b64decode(self.ask(**of))


class Suite:
    """A server of both APIs with the bucket `barn`, and the libraries."""

    def __init__(self, report, server, scratch):
        self.report, self.server, self.scratch = report, server, scratch
        self.numbers = itertools.count()
        self.direct = self.over(server.url)
        self.direct.ask(call="bucket")

    def over(self, url):
        return Libraries(url, self.scratch)

    def name(self):
        return f"cow-{next(self.numbers)}"


def storage(suite):
    report, direct = suite.report, suite.direct

    def verify(name, made, data):
        check(made, data, name=name, bucket="barn", md5Hash=base64.b64encode(hashlib.md5(data).digest()).decode())
        assert direct.bytes(call="bytes", name=name) == data, "other bytes came back"

    def saved(data, options, call="save"):
        def case():
            name = suite.name()
            verify(name, direct.save(name, data, options, call), data)
        return case

    def over(fault, options, **how):
        def case():
            name = suite.name()
            with FaultProxy(suite.server.port, fault, **how) as line, suite.over(line.url) as library:
                made = library.save(name, LARGE, options)
                assert line.struck == 1, f"it struck {line.struck} times"
            verify(name, made, LARGE)
        return case

    def anew():
        """A query that is answered 200, because the object is there, is taken for a session without any bytes: they are sent again."""
        with FaultProxy(suite.server.port, LOST_FINAL_REPLY) as line, suite.over(line.url) as library:
            library.save(suite.name(), LARGE[:CHUNK], ONE_REQUEST)
            ranges = [request.headers.get("content-range") for request in line.seen]
        if not (ranges[-2] == "bytes */*" and ranges[-1].startswith("bytes 0-")):
            raise Gone(f"it sent {ranges}")

    def given_up():
        """As above; but of chunks only the last one is still in memory, and the library gives up. The object is there."""
        name = suite.name()
        with FaultProxy(suite.server.port, LOST_FINAL_REPLY) as line, suite.over(line.url) as library:
            try:
                library.save(name, LARGE, CHUNKS)
            except Refused as error:
                assert error.name == "RangeError" and "The server has 0 bytes" in str(error), error
            else:
                raise Gone("the upload ends well")
        assert direct.bytes(call="bytes", name=name) == LARGE, "other bytes came back"

    def combined():
        names = [suite.name() for _ in range(3)]
        pieces = [LARGE, b"", LARGE[:CHUNK]]
        for name, piece in zip(names, pieces):
            direct.save(name, piece, MULTIPART)
        whole = suite.name()
        made = direct.bytes(call="combine", names=names, into=whole)
        assert made == b"".join(pieces), "other bytes came back"

    report.case("storage: multipart", saved(LARGE, MULTIPART), STORAGE, "multipart")
    report.case("storage: multipart, empty", saved(b"", MULTIPART), STORAGE, "empty")
    report.case("storage: resumable", saved(LARGE, ONE_REQUEST), STORAGE, "resumable")
    report.case("storage: resumable, empty", saved(b"", ONE_REQUEST), STORAGE, "empty")
    report.case("storage: resumable in chunks", saved(LARGE, CHUNKS), STORAGE, "chunks")
    report.case("storage: resumable in chunks, exact multiple", saved(LARGE[:2 * CHUNK], CHUNKS), STORAGE, "chunks")
    report.case("storage: resumable in chunks, empty", saved(b"", CHUNKS), STORAGE, "empty")
    report.case("storage: a stream", saved(LARGE, ONE_REQUEST, "stream"), STORAGE, "unknown length")
    report.case("storage: a stream in chunks", saved(LARGE, CHUNKS, "stream"), STORAGE, "unknown length")
    report.case("storage: 503 to a chunk", over(UNAVAILABLE, CHUNKS, skip=2), STORAGE, "503 in the middle")
    report.case("storage: the line breaks in a chunk", over(CUT, CHUNKS, skip=2), STORAGE, "cut")
    report.case("storage: the reply to a chunk is lost", over(LOST_REPLY, CHUNKS, skip=2), STORAGE, "lost reply")
    report.case("storage: the final reply is lost, in one request", anew, fault="query answered 200")
    report.case("storage: the final reply is lost, in chunks", given_up, STORAGE, "lost final reply", fault="query answered 200")
    report.case("storage: combine", combined)
    report.left_out("storage: uploadFileInChunks", "it needs multipart uploads of the XML API, which is not served")


def drive(suite):
    report, direct = suite.report, suite.direct

    def created(data, metadata=None, whole=False):
        def case():
            file = direct.create(data, metadata=metadata, whole=whole)
            assert (file["size"], file["mimeType"]) == (str(len(data)), "video/mp4"), file
            assert file["md5Checksum"] == hashlib.md5(data).hexdigest(), file
            assert file["name"] == (metadata or {"name": "Untitled"})["name"], file
            assert direct.bytes(call="content", fileId=file["id"]) == data, "other bytes came back"
        return case

    def again(fault):
        """The library throws; what the application uploads again is stored."""
        def case():
            with FaultProxy(suite.server.port, fault) as line, suite.over(line.url) as library:
                try:
                    library.create(LARGE)
                except Refused:
                    file = library.create(LARGE)
                else:
                    raise Gone("the library has tried again")
                assert line.struck == 1, f"it struck {line.struck} times"
            assert direct.bytes(call="content", fileId=file["id"]) == LARGE, "other bytes came back"
        return case

    for fault in UNAVAILABLE, CUT, LOST_FINAL_REPLY:
        report.case(f"drive: {fault}, and once more", again(fault), DRIVE, fault, throws=True)
    report.case("drive: simple", created(LARGE, whole=True), DRIVE, "simple")
    report.case("drive: simple, a stream", created(LARGE), DRIVE, "unknown length")
    report.case("drive: multipart, a stream", created(LARGE, {"name": "Llama"}), DRIVE, "multipart")
    report.case("drive: simple, empty", created(b""), DRIVE, "empty")
    report.case("drive: multipart, empty", created(b"", {"name": "Llama"}), DRIVE, "empty")


def limits(suite, binary):
    """What the libraries throw, of servers with lower limits."""
    report = suite.report

    def expired():
        with Server(binary, "--api", "storage", sessions_lifetime="1s") as short:
            with suite.over(short.url) as library:
                library.ask(call="bucket")
            with FaultProxy(short.port, EXPIRED, skip=1) as line, suite.over(line.url) as library:
                return thrown(lambda: library.save("cow", LARGE, CHUNKS))

    def limited(api, version, upload):
        with Server(binary, "--api", suite.server.limited(api, version, suite.scratch, "video/*", MIB)) as low:
            with suite.over(low.url) as library:
                if api == "storage":
                    library.ask(call="bucket")
                return thrown(lambda: upload(library))

    def saved(data, content_type):
        return lambda: limited("storage", "v1", lambda library: library.save("cow", data, {**MULTIPART, "contentType": content_type}))

    def created(data, content_type):
        return lambda: limited("drive", "v3", lambda library: library.create(data, content_type))

    report.case("storage: an expired session", expired, STORAGE, "expired")
    report.case("storage: a type that is not accepted", saved(SMALL, "image/png"), STORAGE, "wrong type")
    report.case("storage: too large", saved(LARGE, "video/mp4"), STORAGE, "too large")
    report.case("drive: a type that is not accepted", created(SMALL, "image/png"), DRIVE, "wrong type")
    report.case("drive: too large", created(LARGE, "video/mp4"), DRIVE, "too large")


def main(binary):
    report = Report()
    with Server(binary, "--api", "storage", "--api", "drive") as server, tempfile.TemporaryDirectory() as scratch:
        suite = Suite(report, server, scratch)
        storage(suite)
        drive(suite)
        limits(suite, binary)
        suite.direct.close()
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
