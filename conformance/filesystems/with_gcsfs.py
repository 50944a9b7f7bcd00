"""gcsfs, the file system of Cloud Storage for fsspec."""

import os
import pathlib
import subprocess
import sys
import tempfile

# Else the library asks, by gRPC and TLS even where the URL says http, what kind of bucket each one is: for a minute each time.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"

import gcsfs
from gcsfs.retry import HttpError

from certificates import Certificates
from faults import CUT, LOST_DOWNLOAD, LOST_FINAL_REPLY, LOST_REPLY, LOST_START, UNAVAILABLE
from place import LARGE, MIB, SMALL, throws
from report import media
from server import Server

# Files are written in chunks of 5 MiB, from 5 MiB on in a session.
BLOCK = 5 * MIB
FILES = {"empty": (b"", "empty"), "small": (SMALL, "multipart"), "two blocks": (media(2 * BLOCK, seed=3), "unknown length"),
         "several blocks": (LARGE, "unknown length")}
# All at once goes in one request below 50 MiB.
PIPED = {"empty": (0, "empty"), "small": (1000, "multipart"), "in one request": (20 * MIB, "multipart"),
         "in two chunks": (60 * MIB, "chunks")}
CHECKS = "md5", "size"


def files(url, **how):
    # Without the flag, equal arguments give the same object, with the lists that it has kept.
    return gcsfs.GCSFileSystem(project="test", token="anon", endpoint_url=url, skip_instance_cache=True, **how)


def run(report, place):
    store = files(place.server.url)

    def bucket():
        store.mkdir("barn")
        assert store.isdir("barn") and not store.exists("none-here")
        # An object of its own: after a list of buckets the library does not find the objects in them.
        assert files(place.server.url).ls("") == ["barn/"]

    report.case("a bucket is made", bucket)
    uploads(report, place, store)
    downloads(report, place, store)
    life(report, place, store)
    removals(report, place, store)
    faults(report, place)
    refusals(report, place)
    defaults(report, place)


def uploads(report, place, store):
    def piped(length):
        data = media(length, seed=length)
        store.pipe("barn/piped", data)
        place.verify("barn/piped", data, contentType="application/octet-stream")

    def put(data):
        with tempfile.NamedTemporaryFile(suffix=".txt") as file:
            file.write(data)
            file.flush()
            store.put(file.name, "barn/put.txt")
        place.verify("barn/put.txt", data, contentType="text/plain")

    def written(data, **how):
        with store.open("barn/written", "wb", **how) as file:
            for start in range(0, len(data), MIB):
                file.write(data[start:start + MIB])
        place.verify("barn/written", data)

    def described():
        with store.open("barn/described", "wb", content_type="video/mp4", metadata={"herd": "north"},
                        fixed_key_metadata={"cache_control": "no-store"}) as file:
            file.write(SMALL)
        place.verify("barn/described", SMALL, contentType="video/mp4", cacheControl="no-store", metadata={"herd": "north"})
        assert store.getxattr("barn/described", "herd") == "north"
        store.setxattrs("barn/described", content_type="text/plain", herd="south")
        place.verify("barn/described", SMALL, contentType="text/plain", metadata={"herd": "south"})

    def only_new(data):
        store.pipe("barn/new", data, mode="create")
        throws(FileExistsError, lambda: store.pipe("barn/new", SMALL, mode="create"))

        def write_again():
            with store.open("barn/new", "xb") as file:
                file.write(LARGE)
        throws(FileExistsError, write_again)
        place.verify("barn/new", data)

    def transaction():
        with store.transaction:
            with store.open("barn/later", "wb") as file:
                file.write(LARGE)
            assert not place.exists("barn/later")
        place.verify("barn/later", LARGE)
        try:
            with store.transaction:
                with store.open("barn/never", "wb") as file:
                    file.write(LARGE)
                raise InterruptedError
        except InterruptedError:
            pass
        assert not place.exists("barn/never")

    for size, (length, flow) in PIPED.items():
        report.case(f"pipe, {size}", lambda length=length: piped(length), flow)
    report.case("put, small", lambda: put(SMALL), "multipart")
    report.case("put, large", lambda: put(LARGE), "resumable")
    for size, (data, flow) in FILES.items():
        report.case(f"written as a file, {size}", lambda data=data: written(data), flow)
    for check in CHECKS:
        report.case(f"small, checked by {check}", lambda check=check: written(SMALL, consistency=check), "multipart")
        report.case(f"large, checked by {check}", lambda check=check: written(LARGE, consistency=check), "unknown length")
    report.left_out("checked by crc32c", "it needs crcmod, which is not installed with the library, and has to be compiled")
    report.case("metadata, at first and changed", described)
    report.case("only what is new", lambda: only_new(SMALL))
    report.case("a transaction, and one that is given up", transaction)


def downloads(report, place, store):
    def whole():
        store.pipe({"barn/small": SMALL, "barn/large": LARGE, "barn/empty": b""})
        # From 5 MiB on, four requests at once read a part each.
        assert store.cat("barn/large") == LARGE
        assert store.cat(["barn/small", "barn/empty"]) == {"barn/small": SMALL, "barn/empty": b""}

    def parts():
        for start, end in (0, 10), (9 * MIB, 9 * MIB + 1000), (-7, None), (100, -100), (3 * MIB, 15 * MIB):
            assert store.cat_file("barn/large", start=start, end=end) == LARGE[start:end], (start, end)
        ranges = store.cat_ranges(["barn/large", "barn/small"], [5, 0], [10, 3])
        assert ranges == [LARGE[5:10], SMALL[:3]], ranges
        assert store.tail("barn/large", 5) == LARGE[-5:]

    def read():
        with store.open("barn/large") as file:
            assert file.read(10) == LARGE[:10]
            file.seek(9 * MIB)
            assert file.read(1000) == LARGE[9 * MIB:9 * MIB + 1000]
            assert file.read() == LARGE[9 * MIB + 1000:]

    def got(name, data):
        with tempfile.NamedTemporaryFile() as file:
            store.get(name, file.name)
            assert pathlib.Path(file.name).read_bytes() == data

    report.case("download, whole", whole)
    report.case("download, parts", parts)
    report.case("download, read as a file", read)
    report.case("download to a file", lambda: got("barn/large", LARGE))
    report.case("download to a file, empty", lambda: got("barn/empty", b""))
    report.case("download, no object", lambda: throws(FileNotFoundError, lambda: store.cat("barn/none")))


def life(report, place, store):
    def listed():
        store.pipe({f"barn/l/{name}": SMALL for name in ("1", "2", "a/1", "a/b/2")})
        assert store.ls("barn/l", detail=False) == ["barn/l/1", "barn/l/2", "barn/l/a"]
        assert store.find("barn/l") == ["barn/l/1", "barn/l/2", "barn/l/a/1", "barn/l/a/b/2"]
        assert store.glob("barn/l/*/1") == ["barn/l/a/1"]
        assert store.du("barn/l") == 4 * len(SMALL)

    def told_of():
        info = files(place.server.url).info("barn/l/1")
        assert (info["size"], info["type"], info["name"]) == (len(SMALL), "file", "barn/l/1"), info
        assert files(place.server.url).info("barn/l/a")["type"] == "directory"
        assert store.modified("barn/l/1") == store.created("barn/l/1")
        throws(FileNotFoundError, lambda: store.info("barn/l/none"))

    def named(name):
        store.pipe(f"barn/{name}", SMALL)
        place.verify(f"barn/{name}", SMALL, name=name)
        assert files(place.server.url).cat(f"barn/{name}") == SMALL

    def copied():
        store.copy("barn/l", "barn/c", recursive=True)
        assert store.find("barn/c") == ["barn/c/1", "barn/c/2", "barn/c/a/1", "barn/c/a/b/2"]
        place.verify("barn/c/a/b/2", SMALL)

    def moved():
        store.mv("barn/c/1", "barn/c/3")
        assert not place.exists("barn/c/1")
        place.verify("barn/c/3", SMALL)
        store.mv("barn/c", "barn/m", recursive=True)
        assert store.find("barn/c") == [] and len(store.find("barn/m")) == 4

    def merged():
        store.pipe({f"barn/part-{n}": media(MIB, seed=n) for n in range(3)})
        store.merge("barn/merged", [f"barn/part-{n}" for n in range(3)])
        place.verify("barn/merged", b"".join(media(MIB, seed=n) for n in range(3)))

    report.case("ls, find, glob, du", listed)
    report.case("info", told_of)
    for name in "with space", "100%?#&=+", "ünï ☃ 🐄":
        report.case(f"an object named {name}", lambda name=name: named(name))
    report.case("a folder is copied", copied)
    report.case("an object and a folder are moved", moved)
    report.case("merge, by compose", merged)


def removals(report, place, store):
    def removed(store):
        names = ["barn/r/1", "barn/r/a/2", "barn/r/ü & ☃"] + [f"barn/r/n/{n}" for n in range(30)]
        store.pipe({name: SMALL for name in names})
        store.rm_file("barn/r/1")
        assert not place.exists("barn/r/1")
        store.rm("barn/r", recursive=True)
        assert not any(place.exists(name) for name in names)
        throws(FileNotFoundError, lambda: store.rm("barn/r/1"))

    def emptied():
        store.mkdir("stall-to-go")
        store.pipe("stall-to-go/cow", SMALL)
        store.rm("stall-to-go", recursive=True)
        assert not store.exists("stall-to-go")

    def batched(store):
        names = [f"barn/b/ü & ☃/{n}" for n in range(30)]
        store.pipe({name: SMALL for name in names})
        store.rm(names)
        assert not any(place.exists(name) for name in names)

    # The library sends a batch only to what has the name of Google's host in its URL: here as the user's name.
    google = place.server.url.replace("http://", "http://storage.googleapis.com@")
    report.case("rm and rm -r, one by one", lambda: removed(store))
    report.case("rm of several, by batches", lambda: batched(files(google)))
    report.case("rm -r, by batches", lambda: removed(files(google)))
    report.case("a bucket is deleted with what is in it", emptied)


def faults(report, place):
    def write(store):
        with store.open("barn/struck", "wb") as file:
            file.write(LARGE)

    def pipe(store):
        store.pipe("barn/struck", LARGE)

    def upload(fault, use, **how):
        place.struck(fault, lambda url: use(files(url)), **how)
        place.verify("barn/struck", LARGE)

    def download():
        write(files(place.server.url))
        assert place.struck(LOST_DOWNLOAD, lambda url: files(url).cat("barn/struck")) == LARGE

    def killed():
        with files(place.server.url).open("barn/killed", "wb") as file:
            file.write(LARGE[:6 * MIB])
            place.server.kill()
            place.server.start()
            file.write(LARGE[6 * MIB:])
        place.verify("barn/killed", LARGE)

    for fault in UNAVAILABLE, CUT, LOST_FINAL_REPLY:
        report.case(f"pipe, {fault}", lambda fault=fault: upload(fault, pipe), fault)
    report.case("written as a file, the reply to the start is lost", lambda: upload(LOST_START, write))
    for fault in UNAVAILABLE, CUT, LOST_REPLY, LOST_FINAL_REPLY:
        report.case(f"written as a file, {fault}", lambda fault=fault: upload(fault, write), fault)
    report.case("download, a reply is lost", download)
    report.case("the server is killed in the middle of an upload", killed)


def refusals(report, place):
    def piped(store):
        store.pipe("barn/refused", LARGE)

    def written(store):
        with store.open("barn/refused", "wb") as file:
            file.write(LARGE)

    def refused(flow, use):
        with place.refusing(flow) as url:
            try:
                use(files(url))
            except FileNotFoundError:
                return "`FileNotFoundError`, for 404"
            except HttpError as error:
                return f"`HttpError` {error.code}"
        raise AssertionError("not refused")

    report.case("written as a file, expired", lambda: refused("expired", written), "expired")
    report.case("written as a file, wrong type", lambda: refused("wrong type", written), "wrong type")
    report.case("pipe, wrong type", lambda: refused("wrong type", piped), "wrong type")
    # Of a file the library sends another chunk after the refusal, when the file is closed, and the session has ended with that.
    report.case("pipe, too large", lambda: refused("too large", piped), "too large")


def defaults(report, place):
    def over_https():
        with tempfile.TemporaryDirectory() as folder:
            certificates = Certificates(folder)
            with Server(place.server.binary, "--api", "storage", *certificates.options) as server:
                environment = {**os.environ, "SSL_CERT_FILE": certificates.authority,
                               "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": certificates.authority}
                del environment["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"]
                url = server.url.replace("127.0.0.1", "localhost")
                subprocess.run([sys.executable, pathlib.Path(__file__).with_name("all_defaults.py"), url],
                               env=environment, timeout=60, check=True)

    report.case("all defaults, over https", over_https)
