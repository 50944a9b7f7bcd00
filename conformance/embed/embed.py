"""google-api-python-client, unmodified, against an application that embeds the server.

    embed.py BINARY

The application is examples/embed.rs: it serves photos under /media, to users whose tokens it knows.
"""

import io
import json
import signal
import sys
import urllib.error
import urllib.request

from google.auth.exceptions import RefreshError
from google.oauth2.credentials import Credentials
from googleapiclient.discovery import build
from googleapiclient.http import MediaIoBaseUpload

from report import Report, check, media
from resumable import to_the_end
from server import Server

KIB, MIB = 1024, 1024 * 1024
CHUNK = 256 * KIB
SMALL, LARGE = media(1000), media(3 * MIB + 12_345, seed=2)


class Application(Server):
    def command(self):
        return [self.binary, f"127.0.0.1:{self.port}", self.data]

    def stop(self):
        """Asks it to drain as Ctrl-C does, and returns its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=15)


def photos(url, token):
    """The photos as the bearer of the token sees them. The library builds itself from the served document."""
    service = build(
        "photos", "v1",
        discoveryServiceUrl=url + "/media/discovery/v1/apis/{api}/{apiVersion}/rest",
        credentials=Credentials(token),
    )
    return service.photos()


def upload(data, **how):
    return MediaIoBaseUpload(io.BytesIO(data), mimetype="image/jpeg", **how)


def verify(of_user, photo, data, owner, **fields):
    """The photo, read again, must have these bytes, this owner, and a link below /media."""
    read = of_user.get(photoId=photo["id"]).execute()
    assert read == photo, f"{read} is not {photo}"
    check(read, data, owner=owner, **fields)
    assert of_user.get_media(photoId=photo["id"]).execute() == data, "other bytes came back"
    assert "/media/photos/v1/photos/" in photo["selfLink"], photo["selfLink"]


def refused(function):
    """The library must understand the 401: it then asks for another token, which these credentials cannot give."""
    try:
        function()
    except RefreshError:
        return
    raise AssertionError("not refused")


def uploads(report, alice, bob):
    def simple():
        verify(alice, alice.insert(media_body=upload(LARGE)).execute(), LARGE, "alice")

    def multipart():
        body = {"title": "Llama", "owner": "alice"}
        photo = bob.insert(body=body, media_body=upload(LARGE)).execute()
        verify(bob, photo, LARGE, "bob", title="Llama")

    def resumable(data, **how):
        def run():
            request = bob.insert(body={"title": "Llama"}, media_body=upload(data, resumable=True, **how))
            photo = to_the_end(request)
            assert "/media/upload/photos/v1/photos?" in request.resumable_uri, request.resumable_uri
            verify(bob, photo, data, "bob", title="Llama")
        return run

    def without_credentials():
        """The rest of a session goes on by its URI alone."""
        request = alice.insert(media_body=upload(LARGE, chunksize=MIB, resumable=True))
        request.next_chunk()
        rest = urllib.request.Request(request.resumable_uri, data=LARGE[MIB:], method="PUT")
        rest.add_header("Content-Range", f"bytes {MIB}-{len(LARGE) - 1}/{len(LARGE)}")
        with urllib.request.urlopen(rest) as reply:
            verify(alice, json.load(reply), LARGE, "alice")

    report.case("simple", simple)
    report.case("multipart, and the owner is not whom the client names", multipart)
    report.case("resumable, 256 KiB chunks", resumable(LARGE, chunksize=CHUNK))
    report.case("resumable, one request", resumable(LARGE, chunksize=-1))
    report.case("resumable, small", resumable(SMALL))
    report.case("a session URI is a credential of its own", without_credentials)


def reading(report, alice):
    def listed():
        made = {alice.insert(media_body=upload(SMALL)).execute()["id"] for _ in range(5)}
        seen, request = {}, alice.list(maxResults=3)
        while request is not None:
            page = request.execute()
            assert len(page["items"]) <= 3, len(page["items"])
            seen.update((photo["id"], photo["owner"]) for photo in page["items"])
            request = alice.list_next(request, page)
        assert made <= seen.keys(), "a page was left out"
        assert set(seen.values()) == {"alice", "bob"}, seen

    report.case("list, page by page", listed)


def refusals(report, server):
    def stranger():
        """The document is open, and nothing else."""
        mallory = photos(server.url, "mallory-token")
        refused(mallory.list().execute)
        refused(mallory.insert(media_body=upload(SMALL)).execute)
        refused(mallory.insert(media_body=upload(SMALL, resumable=True)).next_chunk)

    def own_route():
        try:
            urllib.request.urlopen(server.url + "/hello")
        except urllib.error.HTTPError as error:
            assert error.code == 401, error
        else:
            raise AssertionError("not refused")

    report.case("a token that the application does not know", stranger)
    report.case("the application's own route has the same users", own_route)


def lives(report, server):
    def restarted():
        """The application is interrupted within an upload, and the next one goes on."""
        alice = photos(server.url, "alice-token")
        request = alice.insert(media_body=upload(LARGE, chunksize=CHUNK, resumable=True))
        request.next_chunk()
        request.next_chunk()
        assert server.stop() == 0, "it did not drain"
        server.start()
        request._in_error_state = True
        request.next_chunk()
        assert request.resumable_progress >= 2 * CHUNK, request.resumable_progress
        check(to_the_end(request), LARGE, owner="alice")

    def stops():
        assert server.stop() == 0, "it did not drain"

    report.case("resumed after a restart", restarted)
    report.case("the application drains and exits with 0", stops)


def main():
    server = Application(sys.argv[1])
    report = Report()
    try:
        alice, bob = photos(server.url, "alice-token"), photos(server.url, "bob-token")
        uploads(report, alice, bob)
        reading(report, alice)
        refusals(report, server)
        lives(report, server)
    finally:
        server.remove()
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
