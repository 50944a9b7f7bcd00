"""Lines that break and a server that dies, in the middle of what the library does."""

import io

from line import BreakingLine
from store import CHUNK, KIB, LARGE, client


def run(report, store):
    server = store.server

    def over_line(after, how, deaf=False):
        line = BreakingLine(server.port, after=after, breaks=1, deaf=deaf)
        try:
            blob = store.over(line).blob(store.name())
            how(blob)
            assert line.broken == 1, "the line did not break"
        finally:
            line.close()
        store.verify(blob, LARGE)

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
        line = BreakingLine(server.port, after=1, breaks=1, deaf=True)
        try:
            assert store.over(line).blob(name).download_as_bytes() == LARGE
            assert line.broken == 1, "the line did not break"
        finally:
            line.close()

    def killed():
        # The server keeps its port, and the session what is committed.
        blob = client(server.url).bucket("barn").blob(store.name())
        with blob.open("wb", chunk_size=CHUNK) as file:
            file.write(LARGE[:5 * CHUNK])
            server.kill()
            server.start()
            file.write(LARGE[5 * CHUNK:])
        store.verify(blob, LARGE)

    report.case("multipart, the line breaks in the middle", lambda: over_line(700 * KIB, multipart))
    report.case("multipart, the reply is lost", lambda: over_line(len(LARGE), multipart, deaf=True))
    for title, how in {"resumable": resumable, "resumable and only new": conditional}.items():
        report.case(f"{title}, the reply to the start is lost", lambda how=how: over_line(1, how, deaf=True))
        report.case(f"{title}, the line breaks in a chunk", lambda how=how: over_line(700 * KIB, how))
        report.case(f"{title}, the reply to a chunk is lost", lambda how=how: over_line(3 * CHUNK, how, deaf=True))
        report.case(f"{title}, the final reply is lost", lambda how=how: over_line(len(LARGE), how, deaf=True))
    report.case("download, the line breaks", downloaded)
    report.case("the server is killed in the middle of an upload", killed)
