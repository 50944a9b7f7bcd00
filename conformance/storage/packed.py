"""Objects that are stored in gzip, as the library downloads them and as a client does that knows no gzip."""

import gzip
import io
import urllib.request

from store import CHUNK, LARGE, SMALL


def run(report, store):
    def put(data, cache_control=None):
        blob = store.blob()
        blob.content_encoding, blob.cache_control = "gzip", cache_control
        packed = gzip.compress(data)
        blob.upload_from_string(packed, content_type="text/plain")
        return store.blob(blob.name), packed

    def whole(data, checksum):
        blob, packed = put(data)
        assert blob.download_as_bytes(checksum=checksum) == data
        assert blob.download_as_bytes(checksum=checksum, raw_download=True) == packed

    def parts(data):
        blob, packed = put(data)
        for start, end in (0, 9), (10, 199), (len(packed) - 10, None), (None, 9):
            part = blob.download_as_bytes(start=start, end=end, raw_download=True, checksum=None)
            assert part == packed[start or 0:None if end is None else end + 1], f"{start} to {end}"
        assert blob.download_as_bytes(start=0, end=2 * len(packed), checksum=None) == data

    def chunks(data, raw):
        blob, packed = put(data)
        file = io.BytesIO()
        store.blob(blob.name, chunk_size=CHUNK).download_to_file(file, raw_download=raw)
        assert file.getvalue() == (packed if raw else data)

    def without_gzip(data, cache_control, expected_encoding):
        blob, packed = put(data, cache_control)
        with urllib.request.urlopen(f"{store.server.url}/storage/v1/b/barn/o/{blob.name}?alt=media") as reply:
            read, encoding = reply.read(), reply.headers["Content-Encoding"]
        assert encoding == expected_encoding, f"{encoding}, not {expected_encoding}"
        assert read == (packed if expected_encoding else data)

    for name, data in ("small", SMALL), ("large", LARGE):
        for checksum in "md5", "crc32c", None:
            report.case(f"{name} object in gzip, checksum {checksum}",
                        lambda data=data, checksum=checksum: whole(data, checksum))
        report.case(f"parts of a {name} object in gzip", lambda data=data: parts(data))
        report.case(f"{name} object in gzip, raw in chunks", lambda data=data: chunks(data, raw=True))
        report.case(f"{name} object in gzip, for a client without gzip",
                    lambda data=data: without_gzip(data, None, None))
        report.case(f"{name} object in gzip that is not to be transformed",
                    lambda data=data: without_gzip(data, "no-transform", "gzip"))
    # The library unpacks each chunk by itself, so it can do no more than one.
    report.case("object in gzip, unpacked, in one chunk", lambda: chunks(SMALL, raw=False))
