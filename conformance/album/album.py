"""google-api-python-client, unmodified, against the photo album of examples/album and its service.

    album.py BINARY
"""

import base64
import io
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time

from google.auth.credentials import AnonymousCredentials
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError
from googleapiclient.http import MediaIoBaseUpload
from PIL import Image

from report import Report, media
from resumable import to_the_end
from server import Server, free_port

EXAMPLE = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "album")
KIB = 1024
PATIENCE = 30


class Album(Server):
    """The server with the example's description, whose service has a free port."""

    def __init__(self, binary, folder):
        self.service_port = free_port()
        self.log_path = os.path.join(folder, "log")
        self.log = open(self.log_path, "wb")
        self.key = os.path.join(folder, "backends.key")
        with open(self.key, "w", encoding="ascii") as file:
            file.write(base64.b64encode(secrets.token_bytes(32)).decode())
        with open(os.path.join(EXAMPLE, "album.toml"), encoding="utf-8") as file:
            text = file.read()
        assert text.count(":9000/") == 2, "the example names its service twice"
        description = os.path.join(folder, "album.toml")
        with open(description, "w", encoding="utf-8") as file:
            file.write(text.replace(":9000/", f":{self.service_port}/"))
        super().__init__(binary, "--api", description, backends_secret_file=self.key)

    def says(self, text):
        with open(self.log_path, encoding="utf-8") as log:
            return text in log.read()

    def start_service(self):
        command = [sys.executable, os.path.join(EXAMPLE, "service.py"), str(self.service_port), self.url, self.key]
        service = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        await_that(lambda: listens(self.service_port))
        return service


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def await_that(holds):
    end = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.1)
    return found


def photo_file():
    file = io.BytesIO()
    Image.effect_noise((1200, 800), 90).save(file, "PNG")
    return file.getvalue()


def upload(data, mimetype="image/png", **how):
    return MediaIoBaseUpload(io.BytesIO(data), mimetype=mimetype, **how)


def refused(function, status, says):
    try:
        function()
    except HttpError as error:
        assert error.status_code == status and says in str(error), error
        return
    raise AssertionError("not refused")


def cases(report, service):
    photos, comments = service.photos(), service.photos().comments()
    data = photo_file()
    album = service.albums().insert(body={"title": "Summer"}).execute()["id"]

    def insert(rating, **how):
        body = {"album": album, "title": f"rated {rating}", "rating": rating}
        return photos.insert(body=body, media_body=upload(data, **how))

    def uploads():
        photo = insert(2).execute()
        assert (photo["likes"], int(photo["size"])) == (0, len(data)), photo
        resumable = to_the_end(insert(5, resumable=True, chunksize=256 * KIB))
        assert photos.get_media(photoId=resumable["id"]).execute() == data

    def limits():
        request = photos.insert(body={"album": album}, media_body=upload(media(20 * KIB * KIB + 1), resumable=True))
        refused(request.next_chunk, 413, "")
        video = upload(media(21 * KIB * KIB), "video/mp4", resumable=True)
        assert to_the_end(photos.insert(body={"album": album}, media_body=video))["mimeType"] == "video/mp4"
        refused(photos.insert(body={"album": album}, media_body=upload(b"x", "text/plain")).execute, 400, "text/plain")
        refused(photos.insert(body={"album": "none"}, media_body=upload(data)).execute, 400, "no resource none in albums")
        refused(photos.insert(body={"album": album, "rating": 6}, media_body=upload(data)).execute, 400, "at most 5")
        refused(photos.insert(body={"title": "x"}, media_body=upload(data)).execute, 400, "album is required")

    def lists():
        for rating in (3, 1, 4):
            insert(rating).execute()
        seen, request = [], photos.list(filter=f'album = "{album}" AND rating >= 2', orderBy="rating desc", maxResults=2)
        while request is not None:
            page = request.execute()
            seen += [photo["rating"] for photo in page["items"]]
            request = photos.list_next(request, page)
        assert seen == [5, 4, 3, 2], seen

    def conversation():
        photo = insert(1).execute()["id"]
        refused(comments.insert(photoId=photo, body={}).execute, 400, "text is required")
        refused(comments.insert(photoId=photo, body={"text": "x", "txt": "y"}).execute, 400, "txt")
        made = [comments.insert(photoId=photo, body={"text": text}).execute() for text in ("nice", "a cow!")]
        assert comments.list(photoId=photo).execute()["items"] == made
        photos.delete(photoId=photo).execute()
        refused(comments.list(photoId=photo).execute, 404, photo)

    def likes():
        photo = insert(1).execute()["id"]
        for expected in (1, 2, 3):
            assert photos.like(photoId=photo).execute()["likes"] == expected
        assert photos.patch(photoId=photo, body={"likes": 100}).execute()["likes"] == 3

    def thumbnails():
        photo = insert(1).execute()["id"]
        made = await_that(lambda: photos.get(photoId=photo).execute().get("thumbnail"))
        thumbnail = Image.open(io.BytesIO(base64.b64decode(made)))
        assert thumbnail.size == (200, 133), thumbnail.size

    report.case("multipart and resumable uploads", uploads)
    report.case("a size for photos, another for videos, and the rules of fields", limits)
    report.case("a list of one album in the order of the rating, page by page", lists)
    report.case("comments are those of their photo, and go with it", conversation)
    report.case("likes are counted by the service", likes)
    report.case("a thumbnail is made of what was uploaded", thumbnails)


def late_service(server, service):
    """The event waits for the service, and the server may be killed meanwhile."""
    album = service.albums().insert(body={"title": "Winter"}).execute()["id"]
    photos = service.photos()
    photo = photos.insert(body={"album": album}, media_body=upload(photo_file())).execute()["id"]
    refused(photos.like(photoId=photo).execute, 503, "service behind album.photos.like")
    # An attempt that a kill interrupts is not repeated for minutes: another process could still be at it.
    # The line is written a moment before the record of the failure; the next attempt comes after 5 s.
    await_that(lambda: server.says("an event was not delivered"))
    time.sleep(1.5)
    server.kill()
    server.start()
    process = server.start_service()
    try:
        await_that(lambda: photos.get(photoId=photo).execute().get("thumbnail"))
        assert photos.like(photoId=photo).execute()["likes"] == 1
    finally:
        process.kill()
        process.wait()


def main():
    report = Report()
    folder = os.path.dirname(os.path.abspath(sys.argv[1]))
    with tempfile.TemporaryDirectory(prefix="conformance-album-", dir=folder) as scratch:
        server = Album(sys.argv[1], scratch)
        try:
            discovery = server.url + "/discovery/v1/apis/{api}/{apiVersion}/rest"
            service = build("album", "v1", discoveryServiceUrl=discovery, credentials=AnonymousCredentials())
            report.case("a service that comes late is told, also after a kill", lambda: late_service(server, service))
            process = server.start_service()
            try:
                cases(report, service)
            finally:
                process.kill()
                process.wait()
        finally:
            server.remove()
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
