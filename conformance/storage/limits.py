"""What the library throws, of servers with lower limits."""

import io

from faults import EXPIRED, FaultProxy
from server import Server
from store import CHUNK, LARGE, LIBRARY, MIB, SMALL, client, thrown


def run(report, store):
    def expired():
        options = store.server.options
        with Server(store.server.binary, *options, sessions_lifetime="1s") as short:
            client(short.url).create_bucket("barn")
            with FaultProxy(short.port, EXPIRED, skip=1) as line:
                blob = client(line.url).bucket("barn").blob("cow", chunk_size=CHUNK)
                return thrown(lambda: blob.upload_from_file(io.BytesIO(LARGE)))

    def limited(data, **how):
        description = store.server.limited("storage", "v1", store.folder, "video/*", MIB)
        with Server(store.server.binary, "--api", description) as low:
            blob = client(low.url).create_bucket("barn").blob("cow")
            return thrown(lambda: blob.upload_from_string(data, **how))

    report.case("an expired session", expired, LIBRARY, "expired")
    report.case("a type that is not accepted", lambda: limited(SMALL, content_type="image/png"), LIBRARY, "wrong type")
    report.case("too large", lambda: limited(LARGE, content_type="video/mp4"), LIBRARY, "too large")
