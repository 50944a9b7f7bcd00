"""Every way of the library to download."""

import io

import google.cloud.storage.transfer_manager as transfers

from report import media
from store import CHUNK, KIB, LARGE, SMALL, refused


def run(report, store):
    large, empty = store.put(LARGE), store.put(b"")

    def whole(checksum):
        assert store.blob(large.name).download_as_bytes(checksum=checksum) == LARGE

    def to_file():
        file = io.BytesIO()
        store.blob(large.name).download_to_file(file)
        assert file.getvalue() == LARGE

    def to_filename(blob, data):
        path = store.folder / store.name()
        store.blob(blob.name).download_to_filename(str(path))
        assert path.read_bytes() == data

    def part(start, end, expected):
        assert store.blob(large.name).download_as_bytes(start=start, end=end, checksum=None) == expected

    def in_chunks(blob, data):
        file = io.BytesIO()
        store.blob(blob.name, chunk_size=CHUNK).download_to_file(file)
        assert file.getvalue() == data

    def read():
        with store.blob(large.name).open("rb", chunk_size=CHUNK) as file:
            assert file.read(1000) == LARGE[:1000]
            file.seek(2_000_000)
            assert file.read(1000) == LARGE[2_000_000:2_001_000]
            assert file.read() == LARGE[2_001_000:]

    def described():
        blob = store.blob()
        blob.cache_control, blob.content_language = "no-store", "de"
        blob.upload_from_string(SMALL, content_type="video/mp4")
        found = store.blob(blob.name)
        found.download_as_bytes()
        assert (found.cache_control, found.content_language) == ("no-store", "de")
        assert (found.content_type, found.storage_class) == ("video/mp4", "STANDARD")
        assert (found.md5_hash, found.crc32c) == (blob.md5_hash, blob.crc32c)
        assert found.etag == blob.etag, f"{found.etag}, not {blob.etag}"

    def conditions():
        blob = store.put()
        assert blob.download_as_bytes(if_generation_match=blob.generation) == SMALL
        assert blob.download_as_bytes(if_etag_match=blob.etag) == SMALL
        refused(412, lambda: blob.download_as_bytes(if_generation_match=7))
        refused(412, lambda: blob.download_as_bytes(if_etag_match='"other"'))
        refused(304, lambda: blob.download_as_bytes(if_generation_not_match=blob.generation))
        refused(304, lambda: blob.download_as_bytes(if_etag_not_match=blob.etag))

    def old_generation():
        old = store.put()
        store.put(LARGE, old.name)
        refused(404, lambda: store.blob(old.name, generation=old.generation).download_as_bytes())

    def concurrently():
        path = store.folder / store.name()
        transfers.download_chunks_concurrently(
            large, str(path), chunk_size=CHUNK, worker_type=transfers.THREAD, max_workers=4)
        assert path.read_bytes() == LARGE

    def many():
        blobs = [store.put(media(50 * KIB + n, seed=n)) for n in range(6)]
        files = [io.BytesIO() for _ in blobs]
        transfers.download_many(
            list(zip(blobs, files)), worker_type=transfers.THREAD, max_workers=3, raise_exception=True)
        for n, file in enumerate(files):
            assert file.getvalue() == media(50 * KIB + n, seed=n)

    for checksum in "md5", "crc32c", None:
        report.case(f"download, checksum {checksum}", lambda it=checksum: whole(it))
    report.case("download to a file", to_file)
    report.case("download to a file by name", lambda: to_filename(large, LARGE))
    report.case("download of nothing", lambda: to_filename(empty, b""))
    report.case("a part", lambda: part(1000, 1999, LARGE[1000:2000]))
    report.case("the first bytes", lambda: part(None, 9, LARGE[:10]))
    report.case("the rest", lambda: part(3_000_000, None, LARGE[3_000_000:]))
    report.case("the last bytes", lambda: part(-10, None, LARGE[-10:]))
    report.case("in chunks", lambda: in_chunks(large, LARGE))
    report.case("nothing in chunks", lambda: in_chunks(empty, b""))
    report.case("read as a file", read)
    report.case("a download says what it is of", described)
    report.case("conditions of a download", conditions)
    report.case("a generation that is gone", old_generation)
    report.case("no object", lambda: refused(404, lambda: store.blob("none").download_as_bytes()))
    report.case("chunks at once", concurrently)
    report.case("many at once", many)
