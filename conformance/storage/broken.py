"""Faults on the line, and a server that dies, in the middle of what the library does."""

import io

from faults import CUT, LOST_DOWNLOAD, LOST_FINAL_REPLY, LOST_REPLY, LOST_START, UNAVAILABLE, FaultProxy
from store import CHUNK, KIB, LARGE, LIBRARY, client


def run(report, store):
    server = store.server

    def over(fault, send, **how):
        def case():
            with FaultProxy(server.port, fault, **how) as line:
                blob = store.over(line).blob(store.name())
                send(blob)
                assert line.struck == 1, "the fault did not strike"
            store.verify(blob, LARGE)
        return case

    def multipart(blob):
        blob.upload_from_string(LARGE)

    # Without a size the library uploads in a session, however little it is.
    def resumable(blob):
        blob.chunk_size = CHUNK
        blob.upload_from_file(io.BytesIO(LARGE))

    def conditional(blob):
        blob.chunk_size = CHUNK
        blob.upload_from_file(io.BytesIO(LARGE), if_generation_match=0)

    def downloaded():
        name = store.put(LARGE).name
        with FaultProxy(server.port, LOST_DOWNLOAD) as line:
            assert store.over(line).blob(name).download_as_bytes() == LARGE
            assert line.struck == 1, "the fault did not strike"

    def killed():
        # The server keeps its port, and the session what is committed.
        blob = client(server.url).bucket("barn").blob(store.name())
        with blob.open("wb", chunk_size=CHUNK) as file:
            file.write(LARGE[:5 * CHUNK])
            server.kill()
            server.start()
            file.write(LARGE[5 * CHUNK:])
        store.verify(blob, LARGE)

    report.case("multipart, 503", over(UNAVAILABLE, multipart))
    report.case("multipart, the line breaks in the middle", over(CUT, multipart, after=700 * KIB))
    report.case("multipart, the reply is lost", over(LOST_FINAL_REPLY, multipart), LIBRARY, "lost final reply")
    for title, send in {"resumable": resumable, "resumable and only new": conditional}.items():
        report.case(f"{title}, the reply to the start is lost", over(LOST_START, send))
        report.case(f"{title}, 503 to a chunk", over(UNAVAILABLE, send, skip=2), LIBRARY, "503 in the middle")
        report.case(f"{title}, the line breaks in a chunk", over(CUT, send, skip=2), LIBRARY, "cut")
        report.case(f"{title}, the reply to a chunk is lost", over(LOST_REPLY, send, skip=2), LIBRARY, "lost reply")
        report.case(f"{title}, the final reply is lost", over(LOST_FINAL_REPLY, send), LIBRARY, "lost final reply")
    report.case("download, the line breaks", downloaded)
    report.case("the server is killed in the middle of an upload", killed)
