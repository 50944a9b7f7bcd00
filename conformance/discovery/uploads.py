"""google-api-python-client, unmodified, against every upload method of every published discovery document.

    uploads.py BINARY [NAME.VERSION...]

Each document is served as it is by a windlass of its own; the library gets it with another rootUrl.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from googleapiclient.errors import HttpError

import life
import samples
import wire
from documents import FOLDER, with_uploads
from faults import CUT, FaultProxy
from resumable import to_the_end
from server import Server
from service import CHUNK, KIB, Service
from tally import Tally

SMALL, LARGE = 10 * KIB, 600 * KIB
NO_TYPE = "chemical/x-pdb"


class Flows:
    """The flows of one method."""

    def __init__(self, service, method):
        self.service, self.method = service, method

    def simple(self):
        upload = self.service.prepare(self.method, SMALL)
        try:
            reply = self.service.request(upload, metadata=False).execute()
        except HttpError as error:
            refused = error.resp.status == 400 and self.method.id in samples.NEED_METADATA
            if not refused:
                raise
        else:
            self.service.verify(upload, reply, shows=False)

    def multipart(self):
        upload = self.service.prepare(self.method, SMALL)
        if self.method.request:
            self.service.verify(upload, self.service.request(upload).execute())
            return
        url = self.service.upload_url(upload, "multipart")
        status, _, reply = wire.multipart(url, self.method.verb, upload.content_type, upload.data)
        assert status == 200, f"{status}: {reply}"
        self.service.verify(upload, reply)

    def resumable(self):
        upload = self.service.prepare(self.method, LARGE)
        request = self.service.request(upload, resumable=True)
        self.service.verify(upload, to_the_end(request, http=self.service.http))

    def torn(self):
        """A chunk is torn; another request object goes on with the session."""
        upload = self.service.prepare(self.method, LARGE)
        first = self.service.request(upload, resumable=True)
        with FaultProxy(self.service.port, CUT, skip=1) as line:
            first.uri = first.uri.replace(self.service.url, line.url)
            first.next_chunk(http=self.service.http)
            try:
                first.next_chunk(http=self.service.http)
            except OSError:
                pass
            assert line.struck and first.resumable_progress == CHUNK
            second = self.service.request(upload, resumable=True)
            second.resumable_uri, second._in_error_state = first.resumable_uri, True
            self.service.verify(upload, to_the_end(second, http=self.service.http))

    def start(self, upload, length=None, content_type=None):
        """Starts a session by hand, and cancels it."""
        body = b"" if upload.body is None else wire.json.dumps(upload.body).encode()
        headers = {"X-Upload-Content-Type": content_type or upload.content_type, "Content-Type": "application/json"}
        if length is not None:
            headers["X-Upload-Content-Length"] = str(length)
        url = self.service.upload_url(upload, "resumable")
        status, reply, refusal = wire.request(url, self.method.verb, headers, body)
        if status == 200:
            wire.request(reply["Location"], "DELETE", {})
        return status, refusal

    def limit(self):
        """The largest media may be begun; one byte more is refused, in one request as well."""
        limit = byte_size(self.method.upload["maxSize"])
        upload = self.service.prepare(self.method, SMALL)
        status, refusal = self.start(upload, length=limit)
        assert status == 200, f"{status} to {limit} bytes: {refusal}"
        status, refusal = self.start(upload, length=limit + 1)
        assert status == 413, f"{status} to {limit + 1} bytes: {refusal}"
        if self.method.id in samples.NEED_METADATA:
            return
        headers = {"Content-Type": upload.content_type, "Content-Length": str(limit + 1)}
        url = self.service.upload_url(upload, "media")
        status, _, refusal = wire.request(url, self.method.verb, headers)
        assert status == 413, f"{status} to a simple upload of {limit + 1} bytes: {refusal}"

    def types(self):
        """Every accepted type may be begun; another one is refused, unless the method takes all."""
        upload = self.service.prepare(self.method, SMALL)
        accept = self.method.upload.get("accept", ["*/*"])
        for content_type in map(samples.media_type, accept):
            status, refusal = self.start(upload, content_type=content_type)
            assert status == 200, f"{status} to {content_type}: {refusal}"
        if "*/*" in accept:
            return
        status, refusal = self.start(upload, content_type=NO_TYPE)
        assert status == 400, f"{status} to {NO_TYPE}: {refusal}"
        url = self.service.upload_url(upload, "media")
        status, _, refusal = wire.request(url, self.method.verb, {"Content-Type": NO_TYPE}, upload.data)
        assert status == 400, f"{status} to {NO_TYPE}: {refusal}"


def byte_size(written):
    """The sizes of documents are in powers of 1024."""
    written = str(written)
    units = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
    factor = units.get(written[-2:])
    return int(written[:-2]) * factor if factor else int(written)


def run(tally, binary, name, document):
    server = Server(binary, "--api", os.path.join(FOLDER, name + ".json"))
    try:
        service = Service(server, document)
        if document["name"] == "storage":
            service.call(next(it for it in service.methods if it.id == "storage.buckets.insert"),
                         {"project": "farm"}, body={"name": "barn"}).execute()
        for method in service.methods:
            if method.upload:
                method_cases(tally, f"{name} {method.id}", service, method)
    finally:
        server.remove()


def method_cases(tally, name, service, method):
    flows = Flows(service, method)
    tally.case("simple", name, flows.simple)
    if method.upload["protocols"]["simple"].get("multipart"):
        tally.case("multipart", name, flows.multipart)
    declared = "resumable" in method.upload["protocols"]
    tally.case("resumable, declared" if declared else "resumable, not declared", name, flows.resumable)
    tally.case("resumable, torn and taken up", name, flows.torn)
    if "maxSize" in method.upload:
        tally.case("largest size and one byte more", name, flows.limit)
    tally.case("media types", name, flows.types)
    life.cases(tally, name, service, method)


def main():
    tally = Tally()
    documents = list(with_uploads())
    wanted = sys.argv[2:]
    documents = [(name, document) for name, document in documents if not wanted or name in wanted]
    with ThreadPoolExecutor(max_workers=2) as pool:
        runs = [(name, pool.submit(run, tally, sys.argv[1], name, document)) for name, document in documents]
        for name, done in runs:
            tally.case("documents served", name, done.result)
    # A part of the documents says nothing about the library.
    return tally.end(to_the_table=not wanted)


if __name__ == "__main__":
    sys.exit(main())
