"""google-api-python-client, unmodified, against the Farm API: every way to upload, and back again.

    farm.py BINARY

The library builds itself from the discovery document that the server serves.
"""

import hashlib
import base64
import io
import json
import sys
import tempfile
import urllib.request

import googleapiclient.errors as errors
import httplib2
from google.auth.credentials import AnonymousCredentials
from googleapiclient.discovery import build, build_from_document
from googleapiclient.http import MediaFileUpload, MediaInMemoryUpload, MediaIoBaseDownload, MediaIoBaseUpload

from faults import CUT, EXPIRED, LOST_FINAL_REPLY, LOST_REPLY, UNAVAILABLE, FaultProxy
from report import Gone, Report, check, media
from resumable import thrown, to_the_end
from server import Server

LIBRARY = "google-api-python-client"
KIB, MIB = 1024, 1024 * 1024
CHUNK = 256 * KIB
SMALL, LARGE = media(1000), media(3 * MIB + 12_345, seed=2)
# What looks like the library's own delimiters and line ends must come through as it is.
HOSTILE = b"\r\n--===============0123456789==--\n--\r\n\n" + SMALL + b"\n--===============1==\r\n"


class UnknownLength(MediaIoBaseUpload):
    """Media whose length only its end tells."""

    def size(self):
        return None

    def has_stream(self):
        return False


def upload(data, mimetype="video/mp4", **how):
    return MediaIoBaseUpload(io.BytesIO(data), mimetype=mimetype, **how)


def unknown(data):
    return UnknownLength(io.BytesIO(data), mimetype="video/mp4", chunksize=CHUNK, resumable=True)


def refusal(function, status, reason):
    """The library must see this status and this reason."""
    try:
        function()
    except errors.HttpError as error:
        details = json.loads(error.content)["error"]["errors"]
        assert error.resp.status == status, f"{error.resp.status}, not {status}"
        assert details[0]["reason"] == reason, f"{details[0]['reason']}, not {reason}"
    else:
        raise AssertionError("not refused")


class Farm:
    def __init__(self, url):
        self.url = url
        self.service = build(
            "farm", "v1",
            discoveryServiceUrl=url + "/discovery/v1/apis/{api}/{apiVersion}/rest",
            credentials=AnonymousCredentials(),
        )
        self.animals = self.service.animals()

    def insert(self, media_body, **fields):
        return self.animals.insert(body=fields or None, media_body=media_body)

    def stored(self, resource):
        return self.animals.get_media(animalId=resource["id"]).execute()

    def verify(self, resource, data, **fields):
        check(resource, data, **fields)
        assert self.stored(resource) == data, "other bytes came back"
        return resource


def discovery(report, server, farm):
    def by_version():
        build("farm", "v1", discoveryServiceUrl=server.url + "/$discovery/rest?version={apiVersion}",
              credentials=AnonymousCredentials()).animals().list().execute()

    def directory():
        with urllib.request.urlopen(server.url + "/discovery/v1/apis") as reply:
            items = json.load(reply)["items"]
        assert any(item["id"] == "farm:v1" for item in items), items

    def from_document():
        with urllib.request.urlopen(server.url + "/discovery/v1/apis/farm/v1/rest") as reply:
            document = json.load(reply)
        assert document["rootUrl"] == server.url + "/", document["rootUrl"]
        service = build_from_document(document, credentials=AnonymousCredentials())
        check(service.animals().insert(media_body=upload(SMALL)).execute(), SMALL)

    report.case("the library builds itself by version", by_version)
    report.case("the directory lists the API", directory)
    report.case("the served document leads back to the server", from_document)


def one_request(report, farm):
    def empty_metadata():
        farm.verify(farm.animals.insert(body={}, media_body=upload(SMALL)).execute(), SMALL)

    def from_file(path="/proc/self/exe"):
        with open(path, "rb") as file:
            data = file.read()
        body = MediaFileUpload(path, mimetype="application/octet-stream")
        farm.verify(farm.insert(body, name="python").execute(), data, name="python")

    def simple(data, **fields):
        return lambda: farm.verify(farm.insert(upload(data)).execute(), data, **fields)

    def multipart(data):
        return lambda: farm.verify(farm.insert(upload(data), name="Llama").execute(), data, name="Llama")

    report.case("simple", simple(SMALL, mimeType="video/mp4"), LIBRARY, "simple")
    report.case("simple, larger", simple(LARGE), LIBRARY, "simple")
    report.case("simple, empty", simple(b""), LIBRARY, "empty")
    report.case("multipart", multipart(SMALL), LIBRARY, "multipart")
    report.case("multipart, larger", multipart(LARGE), LIBRARY, "multipart")
    report.case("multipart, media like delimiters", lambda: farm.verify(farm.insert(upload(HOSTILE), name="Mimic").execute(), HOSTILE))
    report.case("multipart, media that ends in a carriage return", lambda: farm.verify(farm.insert(upload(SMALL + b"\r"), name="Cr").execute(), SMALL + b"\r"))
    report.case("multipart, empty metadata", empty_metadata)
    report.case("multipart, from a file", from_file)


def resumable(report, farm):
    def flow(data, **how):
        return lambda: farm.verify(to_the_end(farm.insert(upload(data, resumable=True, **how), name="Llama")), data, name="Llama")

    report.case("resumable, one request", flow(LARGE), LIBRARY, "resumable")
    report.case("resumable, no metadata", lambda: farm.verify(to_the_end(farm.insert(upload(LARGE, resumable=True))), LARGE))
    report.case("resumable, chunksize=-1", flow(LARGE, chunksize=-1), LIBRARY, "resumable")
    report.case("resumable, 256 KiB chunks", flow(LARGE, chunksize=CHUNK), LIBRARY, "chunks")
    report.case("resumable, 1 MiB chunks", flow(LARGE, chunksize=MIB), LIBRARY, "chunks")
    report.case("resumable, exact multiple of the chunk", flow(LARGE[:2 * MIB], chunksize=CHUNK), LIBRARY, "chunks")
    report.case("resumable, small", flow(SMALL))
    report.case("resumable, empty", flow(b""), LIBRARY, "empty")
    for name, data in {"": LARGE, ", exact multiple": LARGE[:2 * CHUNK], ", empty": b"", ", small": SMALL}.items():
        report.case("resumable, unknown length" + name,
                    lambda data=data: farm.verify(to_the_end(farm.insert(unknown(data), name="Llama")), data, name="Llama"),
                    LIBRARY, "unknown length")


def broken(report, server, farm):
    def over(fault, **how):
        """In chunks, over a line on which the fault strikes."""
        def run():
            with FaultProxy(server.port, fault, **how) as line:
                request = Farm(line.url).insert(upload(LARGE, chunksize=MIB, resumable=True), name="Llama")
                farm.verify(to_the_end(request), LARGE, name="Llama")
                assert line.struck == how.get("times", 1), f"it struck {line.struck} times"
        return run

    def multipart(fault):
        """The library does not send it again by itself; the caller may."""
        def run():
            with FaultProxy(server.port, fault) as line:
                request = Farm(line.url).insert(upload(LARGE), name="Llama")
                try:
                    request.execute()
                except (errors.HttpError, OSError):
                    pass
                else:
                    raise AssertionError("nothing was thrown")
                farm.verify(request.execute(), LARGE, name="Llama")
        return run

    def consumed():
        """The second chunk, sent again by the library itself, has its length and no bytes: it ends with the server's patience."""
        with FaultProxy(server.port, UNAVAILABLE, skip=1) as line:
            request = Farm(line.url).insert(upload(LARGE, chunksize=MIB, resumable=True), name="Llama")
            request.next_chunk()
            try:
                request.next_chunk(num_retries=1)
            except (errors.HttpError, OSError, httplib2.HttpLib2Error):
                pass
            else:
                raise Gone("the chunk was sent again")
            farm.verify(to_the_end(request), LARGE, name="Llama")

    def by_hand():
        """Another request object goes on with a session that the first has left."""
        first = farm.insert(upload(LARGE, chunksize=CHUNK, resumable=True), name="Llama")
        status, _ = first.next_chunk()
        assert status.resumable_progress == CHUNK, status.resumable_progress
        second = farm.insert(upload(LARGE, chunksize=CHUNK, resumable=True), name="Llama")
        second.resumable_uri, second._in_error_state = first.resumable_uri, True
        farm.verify(to_the_end(second), LARGE, name="Llama")

    def killed():
        """The server dies twice, without warning, and is started again."""
        request = farm.insert(upload(LARGE, chunksize=CHUNK, resumable=True), name="Llama")
        for _ in range(2):
            request.next_chunk()
            request.next_chunk()
            before = request.resumable_progress
            server.kill()
            server.start()
            request._in_error_state = True
            request.next_chunk()
            assert request.resumable_progress >= before, f"{request.resumable_progress} after {before}"
        farm.verify(to_the_end(request), LARGE, name="Llama")

    def replay():
        """The final reply is lost: asking again gives the same resource."""
        request = farm.insert(upload(LARGE, chunksize=MIB, resumable=True), name="Llama")
        resource = to_the_end(request)
        request._in_error_state = True
        again = to_the_end(request)
        assert again == resource, f"{again} is not {resource}"

    report.case("resumed after a broken line", over(CUT, times=3, after=700 * KIB), LIBRARY, "cut")
    report.case("resumed after 503", over(UNAVAILABLE, times=2, skip=1), LIBRARY, "503 in the middle")
    report.case("resumed after a lost reply", over(LOST_REPLY, skip=1), LIBRARY, "lost reply")
    report.case("resumed after a lost final reply", over(LOST_FINAL_REPLY), LIBRARY, "lost final reply")
    report.case("multipart again after 503", multipart(UNAVAILABLE))
    report.case("multipart again after a broken line", multipart(CUT))
    report.case("a chunk that the library sends again by itself has no body", consumed, fault="consumed body")
    report.case("resumed by another request object", by_hand)
    report.case("resumed after kill -9 of the server", killed)
    report.case("the final reply is repeated", replay)


def updates(report, farm):
    animals = farm.animals

    def updated(**how):
        def run():
            resource = farm.insert(upload(SMALL), name="Llama").execute()
            request = animals.update(animalId=resource["id"], body={"name": "Lama"}, media_body=upload(LARGE, **how))
            done = to_the_end(request) if how.get("resumable") else request.execute()
            farm.verify(done, LARGE, name="Lama", id=resource["id"])
            farm.verify(animals.get(animalId=resource["id"]).execute(), LARGE, name="Lama")
        return run

    def patched():
        resource = farm.insert(upload(SMALL), name="Llama", species="glama").execute()
        done = animals.patch(animalId=resource["id"], body={"name": "Lama"}).execute()
        farm.verify(done, SMALL, name="Lama", species="glama")

    report.case("update with media, multipart", updated())
    report.case("update with media, resumable (PUT starts the session)", updated(resumable=True, chunksize=MIB))
    report.case("patch of the metadata alone", patched)


def reading(report, farm):
    animals = farm.animals

    def in_pieces():
        resource = farm.insert(upload(LARGE)).execute()
        into = io.BytesIO()
        download = MediaIoBaseDownload(into, animals.get_media(animalId=resource["id"]), chunksize=500_000)
        done = False
        while not done:
            _, done = download.next_chunk()
        assert into.getvalue() == LARGE, "other bytes came back"

    def listed():
        made = {farm.insert(upload(SMALL), name=f"n{n}").execute()["id"] for n in range(5)}
        seen, request = set(), animals.list(maxResults=3)
        while request is not None:
            page = request.execute()
            assert len(page["items"]) <= 3, len(page["items"])
            seen.update(item["id"] for item in page["items"])
            request = animals.list_next(request, page)
        assert made <= seen, "a page was left out"

    def partial():
        resource = farm.insert(upload(SMALL), name="Llama").execute()
        assert animals.get(animalId=resource["id"], fields="id,name").execute() == {"id": resource["id"], "name": "Llama"}

    def deleted():
        resource = farm.insert(upload(SMALL)).execute()
        animals.delete(animalId=resource["id"]).execute()
        refusal(animals.get(animalId=resource["id"]).execute, 404, "notFound")

    report.case("download in pieces", in_pieces)
    report.case("list, page by page", listed)
    report.case("partial response", partial)
    report.case("delete", deleted)


def refusals(report, farm):
    wrong = {"md5Hash": base64.b64encode(hashlib.md5(b"other").digest()).decode()}

    def counted(function):
        before = len(farm.animals.list(maxResults=1000).execute()["items"])
        function()
        after = len(farm.animals.list(maxResults=1000).execute()["items"])
        assert before == after, "a resource was made"

    report.case("a type that is not accepted", lambda: refusal(farm.insert(upload(SMALL, mimetype="chemical/x-pdb")).execute, 400, "badRequest"))
    report.case("a type that is not accepted, resumable", lambda: refusal(
        farm.insert(upload(SMALL, mimetype="chemical/x-pdb", resumable=True)).execute, 400, "badRequest"))
    report.case("a wrong digest makes no resource", lambda: counted(
        lambda: refusal(farm.animals.insert(body=wrong, media_body=upload(LARGE)).execute, 400, "invalid")))
    report.case("a wrong digest makes no resource, resumable", lambda: counted(
        lambda: refusal(lambda: to_the_end(farm.animals.insert(body=wrong, media_body=upload(LARGE, resumable=True))), 400, "invalid")))
    report.case("an animal that does not exist", lambda: refusal(
        farm.animals.update(animalId="none", body={}, media_body=upload(SMALL)).execute, 404, "notFound"))
    report.case("a field of the wrong type", lambda: refusal(
        farm.animals.insert(body={"name": ["Llama"]}).execute, 400, "invalid"))


def limits(report, server, binary):
    """What the library throws, of servers with lower limits."""
    def expired():
        with Server(binary, sessions_lifetime="1s") as short, FaultProxy(short.port, EXPIRED, skip=1) as line:
            request = Farm(line.url).insert(upload(LARGE, chunksize=MIB, resumable=True), name="Llama")
            return thrown(lambda: to_the_end(request))

    def limited(how, **media_body):
        with tempfile.TemporaryDirectory() as folder:
            with Server(binary, "--api", server.limited("farm", "v1", folder, "video/*", MIB)) as low:
                return thrown(lambda: how(Farm(low.url), **media_body))

    def simple(farm, media_body):
        farm.insert(media_body).execute()

    def resumable(farm, media_body):
        to_the_end(farm.insert(media_body, name="Llama"))

    large, wrong = upload(LARGE), upload(SMALL, mimetype="image/png")
    report.case("an expired session", expired, LIBRARY, "expired")
    report.case("too large, which the library knows", lambda: limited(simple, media_body=large))
    report.case("too large, of unknown length", lambda: limited(resumable, media_body=unknown(LARGE)), LIBRARY, "too large")
    report.case("a type that the document does not name", lambda: limited(simple, media_body=wrong), LIBRARY, "wrong type")


def main():
    server = Server(sys.argv[1])
    report = Report()
    try:
        farm = Farm(server.url)
        discovery(report, server, farm)
        one_request(report, farm)
        resumable(report, farm)
        updates(report, farm)
        reading(report, farm)
        refusals(report, farm)
        broken(report, server, farm)
        limits(report, server, sys.argv[1])
        def stops():
            assert server.stop() == 0, "it did not drain"
        report.case("the server drains and exits with 0", stops)
    finally:
        server.remove()
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
