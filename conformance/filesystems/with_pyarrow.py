"""google-cloud-cpp, as pyarrow's GcsFileSystem uses it."""

import datetime
import re

import pyarrow
from pyarrow import fs, parquet

from faults import CUT, LOST_DOWNLOAD, LOST_FINAL_REPLY, LOST_REPLY, LOST_START, UNAVAILABLE
from flows import REFUSALS
from place import LARGE, MIB, SMALL, throws
from report import media

# The library sends buffers of 8 MiB, each as a chunk of a session.
BUFFER = 8 * MIB
SIZES = {"empty": (b"", "empty"), "small": (SMALL, "resumable"), "one buffer": (media(BUFFER, seed=3), "resumable"),
         "several buffers": (LARGE, "chunks")}


def files(url):
    # The library would repeat what fails for 15 minutes.
    return fs.GcsFileSystem(anonymous=True, scheme="http", endpoint_override=url.removeprefix("http://"),
                            project_id="test", retry_time_limit=datetime.timedelta(seconds=20))


def write(store, path, data, step=MIB, **how):
    with store.open_output_stream(path, **how) as stream:
        for start in range(0, len(data), step):
            stream.write(data[start:start + step])


def read(store, path):
    with store.open_input_stream(path) as stream:
        return stream.read()


def run(report, place):
    store = files(place.server.url)

    def bucket():
        store.create_dir("barn")
        assert store.get_file_info("barn").type == fs.FileType.Directory
        assert store.get_file_info("none").type == fs.FileType.NotFound

    report.case("a bucket is made", bucket)
    uploads(report, place, store)
    downloads(report, place, store)
    life(report, place, store)
    faults(report, place)
    refusals(report, place)


def uploads(report, place, store):
    def written(data, step):
        write(store, "barn/cow", data, step)
        place.verify("barn/cow", data)
        assert read(store, "barn/cow") == data, "other bytes came back"

    def described():
        about = {"Content-Type": "video/mp4", "Cache-Control": "no-store", "herd": "north"}
        write(store, "barn/described", SMALL, metadata=about)
        place.verify("barn/described", SMALL, contentType="video/mp4", cacheControl="no-store", metadata={"herd": "north"})
        with store.open_input_stream("barn/described") as stream:
            found = stream.metadata()
            assert (found["Content-Type"], found["metadata.herd"]) == (b"video/mp4", b"north"), found

    def named(name):
        write(store, f"barn/{name}", SMALL)
        place.verify(f"barn/{name}", SMALL, name=name)
        assert store.get_file_info(f"barn/{name}").size == len(SMALL)

    def table():
        rows = pyarrow.table({"cow": [f"cow {n}" for n in range(100_000)], "litres": list(range(100_000))})
        parquet.write_table(rows, "barn/cows.parquet", filesystem=store)
        found = parquet.read_table("barn/cows.parquet", filesystem=store, columns=["litres"])
        assert found.equals(rows.select(["litres"]))

    for size, (data, flow) in SIZES.items():
        report.case(f"written, {size}", lambda data=data: written(data, MIB), flow)
    report.case("written, several buffers in one call", lambda: written(LARGE, len(LARGE)), "unknown length")
    report.case("written with metadata", described)
    for name in "folder/cow", "with space", "100%?#&=+", "ünï ☃ 🐄":
        report.case(f"an object named {name}", lambda name=name: named(name))
    report.case("a Parquet file, of which a column is read", table)
    report.case("written into no bucket", lambda: throws(OSError, lambda: write(store, "none-here/cow", SMALL)))


def downloads(report, place, store):
    def parts():
        write(store, "barn/large", LARGE)
        with store.open_input_file("barn/large") as file:
            assert file.size() == len(LARGE)
            assert file.read(10) == LARGE[:10]
            file.seek(9 * MIB)
            assert file.read(1000) == LARGE[9 * MIB:9 * MIB + 1000]
            assert file.read_at(7, len(LARGE) - 7) == LARGE[-7:]
            assert file.read_at(100, len(LARGE) - 7) == LARGE[-7:], "the end is not the end"
            assert file.read() == LARGE[9 * MIB + 1000:]

    def nothing():
        write(store, "barn/empty", b"")
        with store.open_input_file("barn/empty") as file:
            assert (file.size(), file.read()) == (0, b"")

    report.case("download, parts", parts)
    report.case("download, empty", nothing)
    report.case("download, no object", lambda: throws(FileNotFoundError, lambda: read(store, "barn/none")))


def life(report, place, store):
    def listed():
        # Only folders that were made are listed: objects with a slash in their names make none.
        store.create_dir("barn/l/empty", recursive=True)
        store.create_dir("barn/l/a")
        for name in "1", "2", "a/1", "a/b/2":
            write(store, f"barn/l/{name}", SMALL)

        def found(folder, recursive):
            infos = store.get_file_info(fs.FileSelector(folder, recursive=recursive))
            return sorted((info.path, info.type == fs.FileType.File) for info in infos)
        assert found("barn/l", False) == [
            ("barn/l/1", True), ("barn/l/2", True), ("barn/l/a", False), ("barn/l/empty", False)], found("barn/l", False)
        paths = [path for path, is_file in found("barn/l", True) if is_file]
        assert paths == ["barn/l/1", "barn/l/2", "barn/l/a/1", "barn/l/a/b/2"], paths
        assert store.get_file_info("barn/l/a").type == fs.FileType.Directory

    def copied():
        write(store, "barn/from", LARGE)
        store.copy_file("barn/from", "barn/copy")
        place.verify("barn/copy", LARGE)
        place.verify("barn/from", LARGE)
        throws(FileNotFoundError, lambda: store.copy_file("barn/none", "barn/copy"))

    def moved():
        write(store, "barn/from", SMALL)
        store.move("barn/from", "barn/moved")
        place.verify("barn/moved", SMALL)
        assert not place.exists("barn/from")

    def deleted():
        write(store, "barn/gone", SMALL)
        store.delete_file("barn/gone")
        assert not place.exists("barn/gone")
        throws(FileNotFoundError, lambda: store.delete_file("barn/gone"))

    def folders_deleted():
        for name in "1", "a/2":
            write(store, f"barn/folder/{name}", SMALL)
        store.delete_dir_contents("barn/folder")
        assert not place.exists("barn/folder/1") and not place.exists("barn/folder/a/2")
        store.create_dir("stall-to-go")
        write(store, "stall-to-go/cow", SMALL)
        store.delete_dir("stall-to-go")
        assert store.get_file_info("stall-to-go").type == fs.FileType.NotFound

    report.case("folders are made and listed", listed)
    report.case("an object is copied", copied)
    report.case("an object is moved", moved)
    report.case("an object is deleted", deleted)
    report.case("a folder and a bucket are deleted with all that is in them", folders_deleted)


def faults(report, place):
    def upload(fault, **how):
        place.struck(fault, lambda url: write(files(url), "barn/struck", LARGE), **how)
        place.verify("barn/struck", LARGE)

    def download():
        write(files(place.server.url), "barn/struck", LARGE)
        assert place.struck(LOST_DOWNLOAD, lambda url: read(files(url), "barn/struck")) == LARGE

    def killed():
        with files(place.server.url).open_output_stream("barn/killed") as stream:
            stream.write(LARGE[:9 * MIB])
            place.server.kill()
            place.server.start()
            stream.write(LARGE[9 * MIB:])
        place.verify("barn/killed", LARGE)

    report.case("the reply to the start is lost", lambda: upload(LOST_START))
    for fault in UNAVAILABLE, CUT, LOST_REPLY, LOST_FINAL_REPLY:
        report.case(fault, lambda fault=fault: upload(fault), fault)
    report.case("503 to the last chunk", lambda: upload(UNAVAILABLE, skip=2), UNAVAILABLE)
    report.case("download, the reply is lost", download)
    report.case("the server is killed in the middle of an upload", killed)


def refusals(report, place):
    def refused(flow):
        with place.refusing(flow) as url:
            try:
                write(files(url), "barn/refused", LARGE)
            except (OSError, pyarrow.ArrowException) as error:
                return f"`{type(error).__name__}` {re.search('http_status_code=([0-9]+)', str(error))[1]}"
        raise AssertionError("not refused")

    for flow in REFUSALS:
        report.case(flow, lambda flow=flow: refused(flow), flow)
