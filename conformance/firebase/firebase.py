"""Firebase's library for JavaScript, as far as storage goes, against a windlass server."""

import base64
import os
import sys
import tempfile
import urllib.request

from faults import CUT, EXPIRED, LOST_FINAL_REPLY, LOST_REPLY, UNAVAILABLE, FaultProxy
from node import Node, Refused, thrown
from report import Report, media, write
from server import Server

LIBRARY = "firebase"
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
            faults(report, packages, server, scratch)
            limits(report, binary, packages, server, scratch)
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
        one, several = ("multipart", "chunks") if size else ("empty", "empty")
        report.case(f"uploadBytes, {name}", lambda size=size: upload("upload", size), LIBRARY, one)
        of = (LIBRARY, several) if size > 256 * KIB or not size else ()
        report.case(f"uploadBytesResumable, {name}", lambda size=size: upload("resumable", size), *of)
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


def faults(report, packages, server, scratch):
    """The library asks how much has arrived after a chunk that broke off, or whose reply is lost."""
    def upload(fault, **how):
        def case():
            data = media(5 * MIB + 7, seed=5)
            with FaultProxy(server.port, fault, **how) as line:
                library = Library(packages, line.own_port)
                made = library.resumable("broken", path=write(scratch, data))
                assert line.struck == how.get("times", 1), f"it struck {line.struck} times"
                library.close()
            direct = Library(packages, server.port)
            check(direct, made, "broken", data)
            direct.delete("broken")
            direct.close()
        return case

    report.case("503 to chunks", upload(UNAVAILABLE, times=2, skip=1), LIBRARY, "503 in the middle")
    report.case("connections that break in a chunk", upload(CUT, times=2, skip=1), LIBRARY, "cut")
    report.case("replies that are lost", upload(LOST_REPLY, times=2, skip=1), LIBRARY, "lost reply")
    report.case("a final reply that is lost", upload(LOST_FINAL_REPLY), LIBRARY, "lost final reply")


def limits(report, binary, packages, server, scratch):
    """What the library throws, of servers with lower limits."""
    def uploaded(port, call="resumable", **how):
        library = Library(packages, port)
        try:
            return thrown(lambda: getattr(library, call)("cow", path=write(scratch, media(2 * MIB)), **how))
        finally:
            library.close()

    def expired():
        with Server(binary, "--api", "firebasestorage", sessions_lifetime="1s") as short:
            with FaultProxy(short.port, EXPIRED, skip=1) as line:
                return uploaded(line.own_port)

    def limited(call, content_type, max_size):
        description = server.limited("firebasestorage", "v0", scratch, "video/*", max_size)
        with Server(binary, "--api", description) as low:
            return uploaded(low.port, call, metadata={"contentType": content_type})

    report.case("an expired session", expired, LIBRARY, "expired")
    report.case("a type that is not accepted", lambda: limited("upload", "image/png", 9 * MIB), LIBRARY, "wrong type")
    report.case("too large", lambda: limited("resumable", "video/mp4", MIB), LIBRARY, "too large")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], os.environ["NODE_PACKAGES"]))
