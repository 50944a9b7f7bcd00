"""Clients of tus 1.0.0 and of the IETF draft, unmodified, against the API `files`: tus-js-client (also its newest pre-release, and its
two modes for the draft), tuspy, aiotus and resumable-upload.

    suite.py BINARY
"""

import asyncio
import base64
import functools
import hashlib
import io
import itertools
import json
import os
import sys
import tempfile
import urllib.error
import urllib.request

import aiotus
from resumable_upload import TusClient as ResumableClient
from resumable_upload.exceptions import TusCommunicationError as ResumableError
from tusclient.client import TusClient
from tusclient.exceptions import TusCommunicationError

from faults import CUT, EXPIRED, LOST_FINAL_REPLY, LOST_REPLY, UNAVAILABLE, FaultProxy
from node import Node, Refused, thrown
from report import Report, check, media, write
from server import Server

TUS_JS, TUSPY, AIOTUS, RESUMABLE = "tus-js-client", "tuspy", "aiotus", "resumable-upload"
KIB, MIB = 1024, 1024 * 1024
CHUNK = 256 * KIB
SMALL, LARGE = media(1000), media(3 * MIB + 12_345, seed=2)
# Of the suite's own: a client that names no type gets what the server finds.
VIDEO = {"filetype": "video/mp4"}


def ask(url, method="GET", **headers):
    """Status, headers and body of a reply, whatever its status."""
    request = urllib.request.Request(url, method=method, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, reply.headers, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


class Files:
    """A server of the API `files`."""

    def __init__(self, report, server, scratch):
        self.report, self.server, self.scratch = report, server, scratch
        self.numbers = itertools.count()
        self.before = {}

    @property
    def endpoint(self):
        return f"{self.server.url}/files"

    def all(self):
        _, _, body = ask(f"{self.endpoint}?maxResults=1000")
        return {file["id"]: file for file in json.loads(body).get("items", [])}

    def name(self):
        """A name for the file of a case that begins."""
        self.before = self.all()
        return f"cow-{next(self.numbers)}.mp4"

    def made(self):
        """The files of this case."""
        return [file for name, file in self.all().items() if name not in self.before]

    def verify(self, data, **fields):
        """The case has made one file, with these bytes."""
        (file,) = self.made()
        check(file, data, md5Hash=base64.b64encode(hashlib.md5(data).digest()).decode(), **fields)
        _, headers, body = ask(f"{self.endpoint}/{file['id']}?alt=media")
        assert body == data, "other bytes came back"
        assert headers["Content-Type"] == file["mimeType"], headers["Content-Type"]

    def over(self, fault, send, path="/files", has_name=True, **how):
        """A case: the fault strikes once, and the file is there."""
        def case():
            name = self.name()
            with FaultProxy(self.server.port, fault, **how) as line:
                send(line.url + path, name, LARGE)
                assert line.struck == 1, f"it struck {line.struck} times"
            self.verify(LARGE, **fields_of(name, has_name))
        return case

    def stored(self, send, data, path="/files", has_name=True):
        """A case: the file is there."""
        def case():
            name = self.name()
            send(self.server.url + path, name, data)
            self.verify(data, **fields_of(name, has_name))
        return case


def fields_of(name, has_name=True):
    """What a file says of itself; the draft's clients state neither name nor type."""
    return {"name": name, "mimeType": "video/mp4"} if has_name else {}


class TusJs(Node):
    """tus-js-client, of an installed package and in one of its protocols."""

    def __init__(self, scratch, package, endpoint, protocol="tus-v1"):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients.mjs")
        super().__init__(script, os.environ["NODE_PACKAGES"], package, endpoint, protocol)
        self.scratch = scratch

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def upload(self, name, data, stream=False, stop_after=None, url=None, **options):
        options = {"metadata": {"filename": name, **VIDEO}, **options}
        more = {} if stop_after is None else {"stopAfter": stop_after}
        return self.ask(call="upload", path=write(self.scratch, data), stream=stream, url=url, options=options, **more)


def tus_js(files, package, protocol="tus-v1", family=None):
    """The cases of one version in one protocol. Those with a family are in the table."""
    report = files.report
    client = functools.partial(TusJs, files.scratch, package, protocol=protocol)
    title = f"{package}, {protocol}"
    is_tus = protocol == "tus-v1"
    # The draft's creation is any request with a body, so its clients name the upload path.
    path = "/files" if is_tus else "/upload/files"
    endpoint = files.server.url + path
    # A session is ended in the dialect that began it.
    mark = {"Tus_Resumable": "1.0.0"} if is_tus else {"Upload_Draft_Interop_Version": "6"}

    def case(what, function, flow=None):
        report.case(f"{title}: {what}", function, flow and family, family and flow)

    def send(endpoint, name, data, **options):
        with client(endpoint) as library:
            return library.upload(name, data, **options)

    def of(**options):
        return functools.partial(send, **options)

    stored = functools.partial(files.stored, path=path, has_name=is_tus)
    over = functools.partial(files.over, path=path, has_name=is_tus)

    def resumed():
        """An upload stops in the middle; another process goes on at its URL."""
        name = files.name()
        url = send(endpoint, name, LARGE, chunkSize=CHUNK, stop_after=MIB)["url"]
        assert not files.made()
        send(endpoint, name, LARGE, url=url)
        files.verify(LARGE, **fields_of(name, is_tus))

    def resumed_after_a_kill():
        name = files.name()
        url = send(endpoint, name, LARGE, chunkSize=CHUNK, stop_after=MIB)["url"]
        files.server.kill()
        files.server.start()
        send(endpoint, name, LARGE, url=url, chunkSize=CHUNK)
        files.verify(LARGE, **fields_of(name, is_tus))

    def terminated():
        name = files.name()
        with client(endpoint) as library:
            url = library.upload(name, LARGE, chunkSize=CHUNK, stop_after=MIB)["url"]
            library.ask(call="terminate", url=url)
        assert ask(url, "HEAD", Tus_Resumable="1.0.0")[0] in (404, 410)
        assert not files.made()

    def begun_anew():
        """Of an upload that is gone it makes another one."""
        name = files.name()
        url = send(endpoint, name, LARGE, chunkSize=CHUNK, stop_after=MIB)["url"]
        status, _, _ = ask(url, "DELETE", **mark)
        assert status == 204, status
        assert send(endpoint, name, LARGE, url=url)["url"] != url
        files.verify(LARGE, **fields_of(name, is_tus))

    def replies():
        """The last reply says what it has to, and what has become of the file."""
        name = files.name()
        last = send(endpoint, name, SMALL)["last"]
        assert (last["tus-resumable"], last["upload-offset"]) == ("1.0.0", str(len(SMALL))), last
        resource = json.loads(ask(last["content-location"])[2])
        assert resource["name"] == name, resource

    case("one request", stored(send, LARGE), "resumable")
    case("chunks", stored(of(chunkSize=CHUNK), LARGE), "chunks")
    case("chunks of any size", stored(of(chunkSize=100_003), LARGE))
    case("a stream", stored(of(stream=True, uploadLengthDeferred=True, chunkSize=CHUNK), LARGE), "unknown length")
    case("with the creation", stored(of(uploadDataDuringCreation=True), LARGE))
    case("with the creation, chunks", stored(of(uploadDataDuringCreation=True, chunkSize=CHUNK), LARGE))
    case("resumed", resumed)
    case("resumed after a kill", resumed_after_a_kill)
    case("begun anew", begun_anew)
    case("503 in the middle", over(UNAVAILABLE, of(chunkSize=CHUNK), skip=2), "503 in the middle")
    case("the line breaks", over(CUT, send), "cut")
    case("the reply to a chunk is lost", over(LOST_REPLY, of(chunkSize=CHUNK), skip=2), "lost reply")
    case("the final reply is lost", over(LOST_FINAL_REPLY, of(chunkSize=CHUNK)), "lost final reply")
    if is_tus:
        case("empty", stored(send, b""), "empty")
        case("in parallel", stored(of(parallelUploads=3), LARGE))
        case("in parallel, chunks", stored(of(parallelUploads=4, chunkSize=CHUNK), LARGE))
        case("in parallel, the line breaks", over(CUT, of(parallelUploads=2, chunkSize=CHUNK), skip=3))
        case("POST for PATCH", stored(of(overridePatchMethod=True, chunkSize=CHUNK), LARGE))
        case("terminated", terminated)
        case("headers of replies", replies)


def tus_js_refusals(files, binary):
    """What it throws."""
    def expired():
        with Server(binary, "--api", "files", sessions_lifetime="1s") as short:
            with FaultProxy(short.port, EXPIRED, skip=1) as line, TusJs(files.scratch, TUS_JS, f"{line.url}/files") as library:
                return thrown(lambda: library.upload("cow.mp4", LARGE, chunkSize=CHUNK))

    def too_large():
        with limited(binary, files) as low, TusJs(files.scratch, TUS_JS, f"{low.url}/files") as library:
            return thrown(lambda: library.upload("cow.mp4", LARGE))

    def wrong_type():
        with limited(binary, files) as low, TusJs(files.scratch, TUS_JS, f"{low.url}/files") as library:
            return thrown(lambda: library.upload("cow.png", SMALL, metadata={"filename": "cow.png", "filetype": "image/png"}))

    files.report.case("tus-js-client: an expired upload", expired, TUS_JS, "expired")
    files.report.case("tus-js-client: too large", too_large, TUS_JS, "too large")
    files.report.case("tus-js-client: a type that is not accepted", wrong_type, TUS_JS, "wrong type")


def limited(binary, files):
    """A server that takes videos of at most a MiB."""
    return Server(binary, "--api", files.server.limited("files", "v1", files.scratch, "video/*", MIB))


def words_of(error, status):
    return f"`{type(error).__name__}` {status}"


def tuspy(files, binary):
    report = files.report

    def send(endpoint, name, data, metadata=None, **options):
        client = TusClient(endpoint)
        options = {"metadata": {"filename": name, **VIDEO, **(metadata or {})}, "retries": 2, "retry_delay": 0, **options}
        uploader = client.uploader(file_stream=io.BytesIO(data), **options)
        uploader.upload()
        return uploader

    def of(**options):
        return functools.partial(send, **options)

    def resumed():
        name = files.name()
        uploader = TusClient(files.endpoint).uploader(
            file_stream=io.BytesIO(LARGE), chunk_size=CHUNK, metadata={"filename": name, **VIDEO}
        )
        uploader.upload(stop_at=MIB)
        other = TusClient(files.endpoint).uploader(file_stream=io.BytesIO(LARGE), url=uploader.url, chunk_size=CHUNK)
        assert other.offset == MIB, other.offset
        other.upload()
        files.verify(LARGE, **fields_of(name))

    def without_metadata():
        """It sends an empty header then."""
        uploader = TusClient(files.endpoint).uploader(file_stream=io.BytesIO(SMALL))
        uploader.upload()
        status, headers, _ = ask(uploader.url, "HEAD", Tus_Resumable="1.0.0")
        assert (status, headers["Upload-Offset"]) == (200, str(len(SMALL))), (status, headers)

    def refused(server_of, data, **metadata):
        def case():
            with server_of() as server:
                try:
                    send(f"{server.url}/files", "cow", data, metadata=metadata)
                except TusCommunicationError as error:
                    return words_of(error, error.status_code)
                raise AssertionError("not refused")
        return case

    def expired():
        with Server(binary, "--api", "files", sessions_lifetime="1s") as short, FaultProxy(short.port, EXPIRED, skip=1) as line:
            try:
                send(f"{line.url}/files", "cow", LARGE, chunk_size=CHUNK)
            except TusCommunicationError as error:
                return words_of(error, error.status_code)
        raise AssertionError("not refused")

    low = functools.partial(limited, binary, files)
    report.case("tuspy: one request", files.stored(send, LARGE), TUSPY, "resumable")
    report.case("tuspy: chunks", files.stored(of(chunk_size=CHUNK), LARGE), TUSPY, "chunks")
    report.case("tuspy: chunks with checksums", files.stored(of(chunk_size=CHUNK, upload_checksum=True), LARGE))
    report.case("tuspy: empty", files.stored(send, b""), TUSPY, "empty")
    report.case("tuspy: resumed", resumed)
    report.case("tuspy: without metadata", without_metadata)
    report.case("tuspy: 503 in the middle", files.over(UNAVAILABLE, of(chunk_size=CHUNK), skip=2), TUSPY, "503 in the middle")
    report.case("tuspy: the line breaks", files.over(CUT, of(chunk_size=CHUNK), skip=2), TUSPY, "cut")
    report.case("tuspy: the reply to a chunk is lost", files.over(LOST_REPLY, of(chunk_size=CHUNK), skip=2), TUSPY, "lost reply")
    report.case("tuspy: the final reply is lost", files.over(LOST_FINAL_REPLY, of(chunk_size=CHUNK)), TUSPY, "lost final reply")
    report.case("tuspy: an expired upload", expired, TUSPY, "expired")
    report.case("tuspy: too large", refused(low, LARGE), TUSPY, "too large")
    report.case("tuspy: a type that is not accepted", refused(low, SMALL, filetype="image/png"), TUSPY, "wrong type")


def aiotus_cases(files):
    report = files.report
    config = aiotus.RetryConfiguration(retry_attempts=4, max_retry_period_seconds=0.1)

    def metadata(name):
        return {"filename": name.encode(), "filetype": b"video/mp4"}

    def send(endpoint, name, data, **options):
        url = asyncio.run(aiotus.upload(endpoint, io.BytesIO(data), metadata(name), config=config, **options))
        assert url is not None, "aiotus gave up"
        return url

    def in_parallel(endpoint, name, data):
        """It names the partial uploads by the paths of their URLs alone."""
        files = [io.BytesIO(data[at:at + MIB]) for at in range(0, len(data), MIB)]
        url = asyncio.run(aiotus.upload_multiple(endpoint, files, metadata(name), config=config))
        assert url is not None, "aiotus gave up"
        return url

    def read_back():
        name = files.name()
        url = send(files.endpoint, name, LARGE)
        said = asyncio.run(aiotus.metadata(url, config=config))
        assert said == metadata(name), said

    def of(**options):
        return functools.partial(send, **options)

    report.case("aiotus: chunks of 4 MiB", files.stored(send, LARGE), AIOTUS, "resumable")
    report.case("aiotus: chunks", files.stored(of(chunksize=CHUNK), LARGE), AIOTUS, "chunks")
    report.case("aiotus: empty", files.stored(send, b""), AIOTUS, "empty")
    report.case("aiotus: in parallel", files.stored(in_parallel, LARGE))
    report.case("aiotus: the metadata, read back", read_back)
    report.case("aiotus: 503 in the middle", files.over(UNAVAILABLE, of(chunksize=CHUNK), skip=2), AIOTUS, "503 in the middle")
    report.case("aiotus: the line breaks", files.over(CUT, send), AIOTUS, "cut")
    report.case("aiotus: the reply to a chunk is lost", files.over(LOST_REPLY, of(chunksize=CHUNK), skip=2), AIOTUS, "lost reply")
    report.case("aiotus: the final reply is lost", files.over(LOST_FINAL_REPLY, of(chunksize=CHUNK)), AIOTUS, "lost final reply")


def resumable_upload(files, binary):
    report = files.report

    def send(endpoint, name, data, filetype="video/mp4", **options):
        client = ResumableClient(endpoint, **{"chunk_size": CHUNK, "retry_delay": 0.01, "checksum": False, **options})
        path = write(files.scratch, data)
        return client.upload_file(path, metadata={"filename": name, "filetype": filetype})

    def of(**options):
        return functools.partial(send, **options)

    def in_parallel(endpoint, name, data):
        client = ResumableClient(endpoint, chunk_size=CHUNK, retry_delay=0.01, checksum=False)
        path = write(files.scratch, data)
        return client.upload_file(path, metadata={"filename": name, **VIDEO}, parallel_uploads=3)

    def deferred():
        name = files.name()
        client = ResumableClient(files.endpoint, chunk_size=CHUNK)
        url = client.create_deferred_upload({"filename": name, **VIDEO})
        request = urllib.request.Request(url, data=SMALL, method="PATCH", headers={
            "Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Upload-Length": str(len(SMALL)),
            "Content-Type": "application/offset+octet-stream",
        })
        with urllib.request.urlopen(request) as reply:
            assert reply.status == 204, reply.status
        files.verify(SMALL, **fields_of(name))

    def deleted():
        client = ResumableClient(files.endpoint, chunk_size=CHUNK, checksum=False)
        name = files.name()
        path = write(files.scratch, LARGE)
        url = client.upload_file(path, metadata={"filename": name}, stop_at=MIB)
        client.delete_upload(url)
        try:
            client.get_upload_info(url)
        except ResumableError:
            return
        raise AssertionError("it is there")

    def refused(server_of, data, **metadata):
        def case():
            with server_of() as server:
                try:
                    send(f"{server.url}/files", "cow", data, **metadata)
                except ResumableError as error:
                    return words_of(error, error.status_code or error)
                raise AssertionError("not refused")
        return case

    def expired():
        with Server(binary, "--api", "files", sessions_lifetime="1s") as short, FaultProxy(short.port, EXPIRED, skip=1) as line:
            try:
                send(f"{line.url}/files", "cow", LARGE)
            except ResumableError as error:
                return words_of(error, error.status_code or error)
        raise AssertionError("not refused")

    def known():
        said = ResumableClient(files.endpoint).get_server_info()
        assert said["version"] == "1.0.0" and "termination" in said["extensions"], said

    low = functools.partial(limited, binary, files)
    report.case("resumable-upload: chunks", files.stored(send, LARGE), RESUMABLE, "chunks")
    report.case("resumable-upload: chunks with checksums", files.stored(of(checksum=True), LARGE))
    whole = functools.partial(send, chunk_size=4 * MIB)
    report.case("resumable-upload: one request", files.stored(whole, LARGE), RESUMABLE, "resumable")
    report.case("resumable-upload: in parallel", files.stored(in_parallel, LARGE))
    report.case("resumable-upload: POST for PATCH", files.stored(of(override_patch_method=True), LARGE))
    report.case("resumable-upload: empty", files.stored(send, b""), RESUMABLE, "empty")
    report.case("resumable-upload: the length comes later", deferred, RESUMABLE, "unknown length")
    report.case("resumable-upload: deleted", deleted)
    report.case("resumable-upload: what the server says of itself", known)
    report.case("resumable-upload: 503 in the middle", files.over(UNAVAILABLE, send, skip=2), RESUMABLE, "503 in the middle")
    report.case("resumable-upload: the line breaks", files.over(CUT, send, skip=2), RESUMABLE, "cut")
    report.case("resumable-upload: the reply to a chunk is lost", files.over(LOST_REPLY, send, skip=2), RESUMABLE, "lost reply")
    report.case("resumable-upload: the final reply is lost", files.over(LOST_FINAL_REPLY, send), RESUMABLE, "lost final reply")
    report.case("resumable-upload: an expired upload", expired, RESUMABLE, "expired")
    report.case("resumable-upload: too large", refused(low, LARGE), RESUMABLE, "too large")
    report.case("resumable-upload: a type that is not accepted", refused(low, SMALL, filetype="image/png"), RESUMABLE, "wrong type")


def main(binary):
    report = Report()
    with Server(binary, "--api", "files") as server, tempfile.TemporaryDirectory() as scratch:
        files = Files(report, server, scratch)
        tus_js(files, TUS_JS, family=TUS_JS)
        tus_js(files, f"{TUS_JS}-next")
        for protocol in "ietf-draft-03", "ietf-draft-05":
            tus_js(files, TUS_JS, protocol)
        tus_js_refusals(files, binary)
        tuspy(files, binary)
        aiotus_cases(files)
        resumable_upload(files, binary)
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
