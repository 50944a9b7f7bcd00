"""`windlass upload` and `windlass download` against emulators of Cloud Storage.

    storage.py BINARY

Each emulator keeps to the protocol in its own way and breaks it in its own way. Cases are made of what it keeps
to; what is left out is said, with the reason.
"""

import base64
import hashlib
import itertools
import json
import pathlib
import signal
import sys
import tempfile

from client import Client
from emulators import FakeGcsServer, GcpStorageEmulator
from faults import CUT, LOST_FINAL_REPLY, LOST_START, FaultProxy
from report import Report, check, media

KIB, MIB = 1024, 1024 * 1024
CHUNK = 256 * KIB
SIZES = {"3 MiB and a bit": 3 * MIB + 12_345, "256 KiB": CHUNK, "empty": 0}
SMALL, LARGE = media(1000), media(SIZES["3 MiB and a bit"], seed=2)
ONE_REQUEST, CHUNKS = ("--type", "resumable"), ("--type", "resumable", "--chunk-size", "256K")


class Storage:
    """A bucket of an emulator, and a client that uploads to it."""

    def __init__(self, emulator, client, folder):
        self.emulator, self.client, self.folder = emulator, client, folder
        self.numbers = itertools.count()
        emulator.call("POST", "/storage/v1/b?project=farm", {"name": "barn"})

    def name(self):
        return f"cow-{next(self.numbers)}"

    def url(self, name, bucket="barn", base=None):
        return f"{base or self.emulator.url}/upload/storage/v1/b/{bucket}/o?name={name}"

    def object(self, name):
        return f"/storage/v1/b/barn/o/{name}"

    def file(self, data):
        path = self.folder / f"file-{next(self.numbers)}"
        path.write_bytes(data)
        return path

    def upload(self, data, *args, base=None, restarts=0, **fields):
        """Uploads a file and verifies what came of it; gives the event."""
        name = self.name()
        outcome = self.client.upload(self.file(data), self.url(name, base=base), *args)
        return self.verify(outcome, name, data, restarts=restarts, **fields)

    def verify(self, outcome, name, data, digests=("size", "crc32c", "md5"), restarts=0, **fields):
        event = outcome.one("uploaded")
        assert event["size"] == len(data), event["size"]
        assert event["verified"] == list(digests), event["verified"]
        assert event["restarts"] == restarts, f"it began anew {event['restarts']} times"
        check(event["resource"], data, name=name, bucket="barn", md5Hash=md5(data), **fields)
        assert self.emulator.call("GET", self.object(name) + "?alt=media") == data, "other bytes are stored"
        self.nothing_left()
        return event

    def refused(self, status, *args, url=None):
        outcome = self.client.upload(self.file(SMALL), url or self.url(self.name()), *args, code=1)
        failed = outcome.one("failed")
        assert (failed["kind"], failed["status"], failed["exit_code"]) == ("refused", status, 1), failed
        self.nothing_left()

    def nothing_left(self):
        left = self.client.unfinished()
        assert left == [], f"the journal holds {left}"

    def over(self, fault, how, restarts=0, after=None):
        """Uploads over a line on which a fault strikes once; a cut after so many bytes."""
        with FaultProxy(self.emulator.port, fault, after=after) as line:
            self.upload(LARGE, *how, base=line.url, restarts=restarts)
            assert line.struck == 1, "the fault did not strike"


def md5(data):
    return base64.b64encode(hashlib.md5(data).digest()).decode()


def one_request(report, storage):
    def printed():
        name = storage.name()
        done = storage.client.run("upload", storage.file(SMALL), storage.url(name), "--no-journal")
        check(json.loads(done.stdout), SMALL, name=name, md5Hash=md5(SMALL))

    def metadata(data):
        how = "--type", "multipart", "--content-type", "video/mp4", "--metadata", '{"metadata": {"herd": "north"}}'
        return lambda: storage.upload(data, *how, contentType="video/mp4", metadata={"herd": "north"})

    simple = "--type", "media", "--content-type", "video/mp4"
    report.case("the resource is printed", printed)
    report.case("simple", lambda: storage.upload(SMALL, *simple, contentType="video/mp4"))
    report.case("simple, larger", lambda: storage.upload(LARGE, *simple, contentType="video/mp4"))
    report.case("multipart", metadata(SMALL))
    report.case("multipart, larger", metadata(LARGE))
    report.case("multipart, empty", metadata(b""))


def resumable(report, storage):
    # A type that the metadata names: not every emulator reads X-Upload-Content-Type.
    described = "--metadata", '{"contentType": "video/mp4", "metadata": {"herd": "north"}}'
    for size, length in SIZES.items():
        data = LARGE[:length]
        report.case(f"resumable in one request, {size}", lambda data=data: storage.upload(data, *ONE_REQUEST))
        report.case(f"resumable in chunks, {size}", lambda data=data: storage.upload(data, *CHUNKS))
    report.case("resumable with metadata", lambda: storage.upload(
        LARGE, *ONE_REQUEST, *described, contentType="video/mp4", metadata={"herd": "north"}))
    report.case("resumable in chunks with metadata", lambda: storage.upload(
        LARGE, *CHUNKS, *described, contentType="video/mp4", metadata={"herd": "north"}))


def standard_input(report, storage):
    def piped(data, how):
        name = storage.name()
        outcome = storage.client.upload("-", storage.url(name), *how, stdin=data)
        # What can be read only once is not read again for its MD5.
        storage.verify(outcome, name, data, digests=("size", "crc32c"))

    for size, length in SIZES.items():
        data = LARGE[:length]
        report.case(f"standard input in one request, {size}", lambda data=data: piped(data, ONE_REQUEST))
        report.case(f"standard input in chunks, {size}", lambda data=data: piped(data, CHUNKS))


def several(report, storage):
    def at_once(*how):
        media_of = {str(storage.file(media(700 * KIB + n, seed=n))): media(700 * KIB + n, seed=n) for n in range(6)}
        name = storage.name()
        *others, last = media_of
        outcome = storage.client.run("upload", *media_of, storage.url(name), "--json", "--concurrency", "3",
                                     "--journal", storage.client.journal, *how)
        uploaded = {event["source"]: event["resource"] for event in outcome.events("uploaded")}
        assert uploaded.keys() == media_of.keys(), uploaded.keys()
        for source, data in media_of.items():
            check(uploaded[source], data, name=name, md5Hash=md5(data))
        # They have one name, that of the URL: the bucket has the one that came last.
        assert storage.emulator.call("GET", storage.object(name) + "?alt=media") in media_of.values(), "other bytes are stored"
        storage.nothing_left()

    report.case("several files at once, simple", lambda: at_once("--type", "media"))
    report.case("several files at once, in chunks", lambda: at_once(*CHUNKS))


def downloads(report, storage):
    def fetched(data):
        name = storage.name()
        storage.client.upload(storage.file(data), storage.url(name), *ONE_REQUEST)
        target = storage.folder / name
        outcome = storage.client.run("download", storage.emulator.url + storage.object(name), "-o", target, "--json")
        event = outcome.one("downloaded")
        assert (event["size"], event["verified"]) == (len(data), ["crc32c", "md5"]), event
        assert target.read_bytes() == data, "other bytes came back"

    def missing():
        target = storage.folder / storage.name()
        outcome = storage.client.run("download", storage.emulator.url + storage.object("none"), "-o", target, "--json", code=1)
        assert outcome.one("failed")["status"] == 404, outcome
        assert not target.exists(), "a file was made"

    report.case("download", lambda: fetched(LARGE))
    report.case("download, empty", lambda: fetched(b""))
    report.case("download of what is not there is refused", missing)


def refusals(report, storage):
    nowhere = storage.url("cow", bucket="none")
    for how in "media", "multipart", "resumable":
        report.case(f"a bucket that is not there is refused, {how}", lambda how=how: storage.refused(404, "--type", how, url=nowhere))


def broken(report, storage):
    """Nowhere here does the client have to ask a session how far it is, but for one that has gone."""
    over, simple = storage.over, ("--type", "media")
    multipart = "--type", "multipart", "--metadata", "{}"
    report.case("simple, the line breaks in the middle", lambda: over(CUT, simple, after=700 * KIB))
    report.case("simple, the reply is lost", lambda: over(LOST_FINAL_REPLY, simple))
    report.case("multipart, the line breaks in the middle", lambda: over(CUT, multipart, after=700 * KIB))
    report.case("resumable, the reply to the start is lost", lambda: over(LOST_START, ONE_REQUEST))
    report.case("resumable, the final reply is lost, and the session with it",
                lambda: over(LOST_FINAL_REPLY, ONE_REQUEST, restarts=1))


def gcp_storage_emulator(report, storage):
    over = storage.over

    def killed():
        name, file = storage.name(), storage.file(LARGE)
        event = storage.client.killed(file, storage.url(name), *CHUNKS, "--max-rate", "1M", committed=CHUNK)
        left, = storage.client.unfinished()
        assert left["id"] == event["upload"], left
        storage.verify(storage.client.resume(), name, LARGE)

    wrong = json.dumps({"md5Hash": md5(b"other")})
    report.case("resumable, the line breaks in the middle", lambda: over(CUT, ONE_REQUEST, after=700 * KIB))
    report.case("resumable in chunks, the line breaks in the middle", lambda: over(CUT, CHUNKS, after=100 * KIB))
    report.case("resumed after kill -9 of the client", killed)
    for how in "multipart", "resumable":
        report.case(f"a wrong digest is refused, {how}", lambda how=how: storage.refused(400, "--type", how, "--metadata", wrong))
    report.left_out("simple, empty", "it breaks the connection when a simple upload has no bytes")
    report.left_out("resumable, the line breaks before the first byte", "it says that it has one when it has none")
    report.left_out("cancel", "it knows no DELETE of a session")


def fake_gcs_server(report, storage):
    def noticed():
        with FaultProxy(storage.emulator.port, CUT, after=700 * KIB) as line:
            outcome = storage.client.upload(storage.file(LARGE), storage.url(storage.name(), base=line.url), *ONE_REQUEST, code=5)
        assert outcome.one("failed")["kind"] == "mismatch", outcome

    def cancelled():
        event = storage.client.killed(storage.file(LARGE), storage.url(storage.name()), *CHUNKS, "--max-rate", "1M", committed=CHUNK)
        storage.client.cancel(event["upload"])
        storage.nothing_left()

    report.case("simple, empty", lambda: storage.upload(b"", "--type", "media"))
    report.case("a server that cuts the media short is noticed", noticed)
    report.case("cancelled after kill -9 of the client", cancelled)
    report.left_out("resumable, the line breaks in the middle", "it takes a client that asks how far it is for the end of the media")
    report.left_out("resumed after kill -9 of the client", "for the same reason")
    report.left_out("a wrong digest is refused", "it does not read digests in metadata")


def against(report, kind, binary, own):
    beside = pathlib.Path(binary).resolve().parent
    with tempfile.TemporaryDirectory(prefix="conformance-", dir=beside) as folder, kind() as emulator:
        print(f"{emulator.package} {emulator.version}")
        folder = pathlib.Path(folder)
        storage = Storage(emulator, Client(binary, folder), folder)
        for cases in one_request, resumable, standard_input, several, downloads, refusals, broken, own:
            cases(report, storage)


def main():
    # So that what was started is ended, however this ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    binary, report = sys.argv[1], Report()
    against(report, GcpStorageEmulator, binary, gcp_storage_emulator)
    if reason := FakeGcsServer.unusable():
        report.left_out(FakeGcsServer.package, reason)
    else:
        against(report, FakeGcsServer, binary, fake_gcs_server)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
