"""Firebase's library for JavaScript, as far as storage goes, against a windlass server."""

import base64
import os
import sys
import tempfile
import urllib.request

from line import BreakingLine
from node import Node, Refused
from report import Report, media, write
from server import Server

KIB, MIB = 1024, 1024 * 1024
# Up to 256 KiB go in one request; longer media in chunks of 256 KiB, 512 KiB, 1 MiB and so on.
SIZES = {"empty": 0, "small": 1000, "the last in one request": 256 * KIB, "the first in a session": 256 * KIB + 1,
         "several chunks": 5 * MIB + 7}


def main(binary, packages):
    report = Report()
    server = Server(binary, "--api", "firebasestorage")
    try:
        with tempfile.TemporaryDirectory() as scratch:
            library = Library(packages, server.port)
            for part in uploads, life, lists, refusals:
                part(report, library, server, scratch)
            library.close()
            broken(report, packages, server, scratch)
    finally:
        server.remove()
    return report.end()


class Library(Node):
    def __init__(self, packages, port):
        super().__init__(os.path.join(os.path.dirname(os.path.abspath(__file__)), "storage.mjs"), packages, str(port))

    def __getattr__(self, call):
        return lambda name, **options: self.ask(call=call, name=name, **options)


def refused(code, call):
    try:
        call()
    except Refused as error:
        assert str(error) == code, error
    else:
        raise AssertionError("not refused")


def check(library, made, name, data):
    assert (made["fullPath"], made["bucket"], int(made["size"])) == (name, "barn", len(data)), made
    assert base64.b64decode(library.bytes(name)) == data, "other bytes"


def uploads(report, library, _, scratch):
    def upload(call, size, **how):
        data = media(size, seed=size + 1)
        metadata = {"contentType": "text/plain", "customMetadata": {"colour": "brown"}}
        name = f"stall/{call}-{size}"
        made = getattr(library, call)(name, path=write(scratch, data), metadata=metadata, **how)
        check(library, made, name, data)
        assert (made["contentType"], made["customMetadata"]) == ("text/plain", {"colour": "brown"}), made
        library.delete(name)

    for name, size in SIZES.items():
        report.case(f"uploadBytes, {name}", lambda size=size: upload("upload", size))
        report.case(f"uploadBytesResumable, {name}", lambda size=size: upload("resumable", size))
    report.case("uploadBytesResumable, paused and resumed", lambda: upload("resumable", 5 * MIB, pauseAt=256 * KIB))


def life(report, library, server, scratch):
    def whole():
        data = media(1000)
        library.upload("cow", path=write(scratch, data), metadata={"cacheControl": "no-store"})
        url = library.url("cow")
        with urllib.request.urlopen(url) as reply:
            assert (reply.read(), reply.headers["cache-control"]) == (data, "no-store")
        changed = library.update("cow", metadata={"contentType": "text/x-cow", "cacheControl": None})
        assert (changed["contentType"], changed["metageneration"]) == ("text/x-cow", "2"), changed
        assert not library.metadata("cow").get("cacheControl")
        library.delete("cow")
        refused("storage/object-not-found", lambda: library.metadata("cow"))

    def crash():
        data = media(MIB)
        library.resumable("kept", path=write(scratch, data))
        server.kill()
        server.start()
        check(library, library.metadata("kept"), "kept", data)
        library.delete("kept")

    report.case("getDownloadURL, updateMetadata, deleteObject", whole)
    report.case("an object that was uploaded survives kill -9", crash)


def lists(report, library, _, scratch):
    def pages():
        path = write(scratch, b"moo")
        names = ["z/1", "z/2", "z/3", "z/a/1", "z/a/2", "z/b/1"]
        for name in names:
            library.upload(name, path=path)
        assert library.list("z") == {"items": ["z/1", "z/2", "z/3"], "prefixes": ["z/a", "z/b"]}
        for name in names:
            library.delete(name)

    report.case("list, in pages", pages)


def refusals(report, library, server, scratch):
    def cancelled():
        refused("storage/canceled", lambda: library.cancel("gone", path=write(scratch, media(20 * MIB))))
        refused("storage/object-not-found", lambda: library.metadata("gone"))

    def token():
        library.upload("cow", path=write(scratch, b"moo"))
        url = library.url("cow")
        try:
            urllib.request.urlopen(url + "x")
        except urllib.error.HTTPError as error:
            assert error.code == 403, error
        else:
            raise AssertionError("not refused")
        library.delete("cow")

    report.case("an upload that is cancelled leaves no object", cancelled)
    report.case("a wrong token", token)


def broken(report, packages, server, scratch):
    """The library asks how much has arrived after a chunk that broke off, or whose reply is lost."""
    def upload(deaf):
        data = media(5 * MIB + 7, seed=5)
        line = BreakingLine(server.port, MIB, 2, deaf)
        library = Library(packages, line.url.rsplit(":", 1)[1])
        made = library.resumable("broken", path=write(scratch, data))
        assert line.broken, "nothing broke"
        line.close()
        library.close()
        direct = Library(packages, server.port)
        check(direct, made, "broken", data)
        direct.delete("broken")
        direct.close()

    report.case("connections that break in a chunk", lambda: upload(False))
    report.case("replies that are lost", lambda: upload(True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], os.environ["NODE_PACKAGES"]))
