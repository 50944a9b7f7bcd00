"""`windlass upload` by tus to the server of tus for JavaScript, `@tus/server`.

    suite.py BINARY
"""

import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from client import Client, environment
from faults import CUT, LOST_FINAL_REPLY, LOST_START, UNAVAILABLE, FaultProxy
from report import Report, media

MIB = 1024 * 1024
SMALL, LARGE = media(1000), media(3 * MIB + 12_345, seed=2)
CHUNKS = ("--chunk-size", "256K")
# Events of progress come once a second.
SLOWLY = ("--max-rate", "1M", *CHUNKS)


class TusServer:
    """`@tus/server` with a directory of its own. Can be started again on its port."""

    def __init__(self, folder):
        self.files = folder / "files"
        self.files.mkdir()
        self.port = 0
        self.start()

    def start(self):
        server = pathlib.Path(__file__).parent / "server.mjs"
        command = ["node", server, self.files, str(self.port)]
        environ = {**environment(), "NODE_PACKAGES": os.environ["NODE_PACKAGES"]}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}/files"

    def stop(self):
        self.process.kill()
        self.process.wait()

    def uploads(self):
        """The uploads, with what the server knows of each."""
        return [json.loads(info.read_text()) for info in self.files.glob("*.json")]

    def clear(self):
        """Forgets all uploads, and gives what they had."""
        stored = {path.name: path.read_bytes() for path in self.files.iterdir()}
        for name in stored:
            (self.files / name).unlink()
        return stored

    def check(self, data, **metadata):
        """There must be one upload, of these bytes."""
        uploads = self.uploads()
        files = self.clear()
        assert len(uploads) == 1, f"there are {len(uploads)} uploads"
        (info,) = uploads
        stored = files[info["id"]]
        assert stored == data, f"{len(stored)} bytes are stored, {len(data)} were sent"
        for name, value in metadata.items():
            assert info["metadata"].get(name) == value, f"{name} is {info['metadata'].get(name)!r}"


class Suite:
    def __init__(self, server, client, folder):
        self.server, self.client, self.folder = server, client, folder
        self.numbers = itertools.count()

    def file(self, data):
        path = self.folder / f"cow-{next(self.numbers)}.jpg"
        path.write_bytes(data)
        return path

    def upload(self, data, *args, url=None, restarts=0):
        """Uploads a file, and checks what the command says of it."""
        file = self.file(data)
        outcome = self.client.upload(file, url or self.server.url, "--content-type", "image/jpeg", *args)
        self.uploaded(outcome, data, restarts)
        self.server.check(data, filename=file.name, filetype="image/jpeg")

    @staticmethod
    def uploaded(outcome, data, restarts=0):
        event = outcome.one("uploaded")
        assert (event["protocol"], event["type"]) == ("tus", "resumable"), event
        # No reply to an empty upload states an offset.
        assert (event["size"], event["verified"]) == (len(data), ["size"] if data else []), event
        assert event["restarts"] == restarts, event

    def struck(self, data, fault, *args, times=1):
        with FaultProxy(self.server.port, fault, times=times) as proxy:
            self.upload(data, *args, url=f"{proxy.url}/files")
            assert proxy.struck == times, f"struck {proxy.struck} times"
            return proxy

    def cut(self):
        proxy = self.struck(LARGE, CUT)
        offsets = [int(request.headers["upload-offset"]) for request in proxy.seen if request.kind == "data"]
        assert offsets[0] == 0 and offsets[-1] > 0, f"sent from {offsets}"

    def metadata(self):
        file = self.file(SMALL)
        metadata = json.dumps({"name": "Bella, Kuh ü", "filename": "bella"})
        self.uploaded(self.client.upload(file, self.server.url, "--metadata", metadata), SMALL)
        self.server.check(SMALL, name="Bella, Kuh ü", filename="bella")

    def unusable_metadata(self):
        outcome = self.client.upload(self.file(SMALL), self.server.url, "--metadata", '{"age": 7}', code=2)
        assert "only strings" in outcome.one("failed")["message"], outcome
        assert not self.server.uploads()

    def unusable_type(self):
        args = ("--protocol", "tus", "--type", "media")
        outcome = self.client.upload(self.file(SMALL), self.server.url, *args, code=2)
        assert "is a session" in outcome.one("failed")["message"], outcome

    def stream(self, data, *args):
        outcome = self.client.upload("-", self.server.url, *args, stdin=data)
        self.uploaded(outcome, data)
        self.server.check(data)

    def killed(self, meanwhile=lambda: None):
        """The client dies, and another process continues."""
        file = self.file(LARGE)
        self.client.killed(file, self.server.url, *SLOWLY, committed=MIB // 2)
        (unfinished,) = self.client.unfinished()
        assert unfinished["protocol"] == "tus", unfinished
        meanwhile()
        outcome = self.client.resume()
        self.uploaded(outcome, LARGE)
        self.server.check(LARGE, filename=file.name)
        assert not self.client.unfinished()

    def restarted(self):
        self.server.stop()
        self.server.start()

    def gone(self):
        """The server forgets the upload, and the client starts again."""
        file = self.file(LARGE)
        self.client.killed(file, self.server.url, *SLOWLY, committed=MIB // 2)
        self.server.clear()
        outcome = self.client.upload(file, self.server.url)
        self.uploaded(outcome, LARGE, restarts=1)
        self.server.check(LARGE)

    def lost_start(self):
        """The client creates a second upload, and the first one stays empty."""
        with FaultProxy(self.server.port, LOST_START) as proxy:
            outcome = self.client.upload(self.file(LARGE), f"{proxy.url}/files")
            assert proxy.struck == 1
        self.uploaded(outcome, LARGE)
        stored = [(self.server.files / info["id"]).read_bytes() for info in self.server.uploads()]
        assert sorted(map(len, stored)) == [0, len(LARGE)] and LARGE in stored, [len(data) for data in stored]
        self.server.clear()

    def cancelled(self):
        file = self.file(LARGE)
        self.client.killed(file, self.server.url, *SLOWLY, committed=MIB // 2)
        (unfinished,) = self.client.unfinished()
        self.client.cancel(unfinished["id"])
        assert not self.client.unfinished() and not self.server.uploads()


def main(binary):
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        server = TusServer(folder)
        try:
            cases(report, Suite(server, Client(binary, folder), folder))
        finally:
            server.stop()
    return report.end()


def cases(report, suite):
    report.case("small, found by OPTIONS", lambda: suite.upload(SMALL))
    report.case("small, by the flag", lambda: suite.upload(SMALL, "--protocol", "tus"))
    report.case("empty", lambda: suite.upload(b""))
    report.case("one request", lambda: suite.upload(LARGE))
    report.case("chunks", lambda: suite.upload(LARGE, *CHUNKS))
    report.case("metadata", suite.metadata)
    report.case("metadata that is no text", suite.unusable_metadata)
    report.case("a type without a session", suite.unusable_type)
    report.case("a stream of unknown length", lambda: suite.stream(LARGE))
    report.case("a stream in chunks", lambda: suite.stream(LARGE, *CHUNKS))
    report.case("a stream that ends with a chunk", lambda: suite.stream(LARGE[: 2 * MIB], *CHUNKS))
    report.case("an empty stream", lambda: suite.stream(b""))
    report.case("cut", suite.cut)
    report.case("cut, in chunks", lambda: suite.struck(LARGE, CUT, *CHUNKS, times=2))
    report.case("503 in the middle", lambda: suite.struck(LARGE, UNAVAILABLE, *CHUNKS))
    report.case("the final reply is lost", lambda: suite.struck(LARGE, LOST_FINAL_REPLY))
    report.case("replies to chunks are lost", lambda: suite.struck(LARGE, LOST_FINAL_REPLY, *CHUNKS, times=2))
    report.case("a killed client", suite.killed)
    report.case("a killed client and server", lambda: suite.killed(suite.restarted))
    report.case("an upload that the server has lost", suite.gone)
    report.case("cancelled", suite.cancelled)
    report.case("the reply to the creation is lost", suite.lost_start)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
