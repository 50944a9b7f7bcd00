"""Every way of the library to upload."""

import gzip
import io

import google.cloud.storage.transfer_manager as transfers
import requests

from report import media
from store import CHUNK, KIB, LARGE, LIBRARY, MIB, SMALL, refused

SIZES = {"small": SMALL, "empty": b"", "256 KiB": media(CHUNK, seed=3), "3 MiB and a bit": LARGE}
CHECKSUMS = "md5", "crc32c", "auto", None


class Stream(io.RawIOBase):
    """Media whose length only its end tells."""

    def __init__(self, data):
        super().__init__()
        self.inner = io.BytesIO(data)

    def readable(self):
        return True

    def read(self, size=-1):
        return self.inner.read(size)

    def tell(self):
        return self.inner.tell()


def run(report, store):
    def text():
        blob = store.blob()
        blob.upload_from_string("müh", content_type="text/plain; charset=utf-8")
        store.verify(blob, "müh".encode(), contentType="text/plain; charset=utf-8")

    def multipart(data, **how):
        blob = store.blob()
        blob.upload_from_string(data, content_type="video/mp4", **how)
        store.verify(blob, data, contentType="video/mp4")

    def from_filename(data):
        blob = store.blob()
        blob.upload_from_filename(str(store.file(data)))
        store.verify(blob, data)

    # Without a size the library uploads in a session, however little it is.
    def resumable(data, **how):
        blob = store.blob(chunk_size=CHUNK)
        blob.upload_from_file(io.BytesIO(data), content_type="video/mp4", **how)
        store.verify(blob, data, contentType="video/mp4")

    def unknown(data):
        blob = store.blob(chunk_size=CHUNK)
        blob.upload_from_file(Stream(data), content_type="video/mp4")
        store.verify(blob, data, contentType="video/mp4")

    def described():
        blob = store.blob()
        blob.metadata, blob.cache_control = {"herd": "north", "müh": "ü"}, "no-store"
        blob.content_language, blob.content_disposition = "de", 'attachment; filename="cow"'
        blob.storage_class = "COLDLINE"
        blob.upload_from_string(SMALL)
        store.verify(blob, SMALL, metadata={"herd": "north", "müh": "ü"}, cacheControl="no-store",
                     contentLanguage="de", storageClass="COLDLINE")

    def named(name):
        blob = store.put(name=name)
        store.verify(blob, SMALL)
        assert name in {found.name for found in store.client.list_blobs("barn", prefix=name)}

    def beyond_8_mib(chunk):
        # The library leaves multipart by itself.
        data = media(9 * MIB, seed=4)
        blob = store.blob(chunk_size=chunk)
        blob.upload_from_filename(str(store.file(data)))
        store.verify(blob, data)

    def written(chunk):
        blob = store.blob()
        with blob.open("wb", chunk_size=chunk) as file:
            for start in range(0, len(LARGE), 100_000):
                file.write(LARGE[start:start + 100_000])
        store.verify(blob, LARGE)

    def written_text():
        blob = store.blob()
        with blob.open("w") as file:
            file.write("müh\n")
        with blob.open("r") as file:
            assert file.read() == "müh\n"

    def compressed():
        blob = store.blob()
        blob.content_encoding = "gzip"
        blob.upload_from_string(gzip.compress(SMALL))
        assert blob.download_as_bytes() == SMALL, "it is not undone"
        assert gzip.decompress(blob.download_as_bytes(raw_download=True)) == SMALL

    def only_new():
        blob = store.blob()
        blob.upload_from_string(SMALL, if_generation_match=0)
        refused(412, lambda: blob.upload_from_string(LARGE, if_generation_match=0))
        refused(412, lambda: resumed(store.blob(blob.name, chunk_size=CHUNK), if_generation_match=0))
        store.verify(blob, SMALL)

    def resumed(blob, **how):
        blob.upload_from_file(io.BytesIO(LARGE), **how)

    def only_this():
        blob = store.put()
        generation = blob.generation
        blob.upload_from_string(LARGE, if_generation_match=generation)
        assert blob.generation > generation, (blob.generation, generation)
        refused(412, lambda: blob.upload_from_string(SMALL, if_generation_match=generation))
        refused(412, lambda: blob.upload_from_string(SMALL, if_metageneration_match=7))
        store.verify(blob, LARGE)

    def wrong_digest():
        blob = store.blob()
        blob.md5_hash = "AAAAAAAAAAAAAAAAAAAAAA=="
        refused(400, lambda: blob.upload_from_string(SMALL))
        assert not blob.exists()

    def session_for_others():
        blob = store.blob()
        url = blob.create_resumable_upload_session(content_type="video/mp4", size=len(SMALL))
        reply = requests.put(url, data=SMALL, timeout=10)
        assert reply.status_code == 200, reply.status_code
        store.verify(blob, SMALL, contentType="video/mp4")

    def many():
        data = {store.name(): media(100 * KIB + n, seed=n) for n in range(8)}
        pairs = [(store.file(data[name]), store.blob(name)) for name in data]
        pairs = [(str(path), blob) for path, blob in pairs]
        results = transfers.upload_many(pairs, worker_type=transfers.THREAD, max_workers=4, raise_exception=True)
        assert results == [None] * len(pairs), results
        for _, blob in pairs:
            store.verify(blob, data[blob.name])

    def many_from_folder():
        folder = store.folder / store.name()
        folder.mkdir()
        for n in range(3):
            (folder / f"{n}.txt").write_bytes(media(n, seed=n))
        names = [f"{n}.txt" for n in range(3)]
        transfers.upload_many_from_filenames(
            store.bucket, names, source_directory=str(folder), blob_name_prefix="folder/",
            worker_type=transfers.THREAD, raise_exception=True)
        for n in range(3):
            store.verify(store.blob(f"folder/{n}.txt"), media(n, seed=n), contentType="text/plain")

    report.case("text", text)
    for size, data in SIZES.items():
        of = (LIBRARY, "empty") if not data else (LIBRARY, "multipart")
        report.case(f"multipart, {size}", lambda data=data: multipart(data), *of)
        report.case(f"from a file by name, {size}", lambda data=data: from_filename(data), *of)
        of = (LIBRARY, "empty") if not data else (LIBRARY, "chunks")
        report.case(f"resumable in chunks, {size}", lambda data=data: resumable(data), *of)
        report.case(f"resumable, the length is not known, {size}", lambda data=data: unknown(data), LIBRARY, "unknown length")
    for checksum in CHECKSUMS:
        report.case(f"multipart with checksum {checksum}", lambda it=checksum: multipart(SMALL, checksum=it))
        report.case(f"resumable with checksum {checksum}", lambda it=checksum: resumable(LARGE, checksum=it))
    report.case("with metadata", described)
    for name in "folder/cow", "with space", "100%?#&=+", "ünï ☃ 🐄", "a//b/", "é" * 512:
        report.case(f"an object named {name[:20]}", lambda name=name: named(name))
    report.case("beyond 8 MiB in one request", lambda: beyond_8_mib(None), LIBRARY, "resumable")
    report.case("beyond 8 MiB in chunks", lambda: beyond_8_mib(MIB), LIBRARY, "chunks")
    report.case("written as a file", lambda: written(CHUNK), LIBRARY, "unknown length")
    report.case("written as a file, in one request", lambda: written(40 * MIB))
    report.case("written as text", written_text)
    report.case("gzip stays gzip", compressed)
    report.case("only what is new", only_new)
    report.case("only in the place of this generation", only_this)
    report.case("a wrong digest", wrong_digest)
    report.case("a session for somebody else", session_for_others)
    report.case("many at once", many)
    report.case("many files of a folder", many_from_folder)
    report.left_out("upload_chunks_concurrently", "it needs multipart uploads of the XML API, which is not served")
