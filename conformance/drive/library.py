"""How the library is used: uploads, downloads, refusals, and requests past it."""

import io
import json
import urllib.error
import urllib.request

from googleapiclient import errors
from googleapiclient.http import MediaIoBaseDownload, MediaIoBaseUpload

LIBRARY = "google-api-python-client"
KIB, MIB = 1024, 1024 * 1024
CHUNK = 256 * KIB


def upload(data, mimetype="text/plain", **how):
    return MediaIoBaseUpload(io.BytesIO(data), mimetype=mimetype, **how)


def download(request, chunk=CHUNK):
    """The media, chunk by chunk."""
    into = io.BytesIO()
    downloader = MediaIoBaseDownload(into, request, chunksize=chunk)
    done, chunks = False, 0
    while not done:
        _, done = downloader.next_chunk()
        chunks += 1
    return into.getvalue(), chunks


def refused(request, status, reason):
    """The library must see this status and this reason."""
    try:
        request.execute()
    except errors.HttpError as error:
        given = json.loads(error.content)["error"]["errors"][0]["reason"]
        assert (error.resp.status, given) == (status, reason), f"{error.resp.status} {given}, not {status} {reason}"
    else:
        raise AssertionError("not refused")


def raw(url, method="GET", data=None, **headers):
    """A request past the library: its status and its body."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def same(given, expected):
    assert given == expected, f"{given!r}, not {expected!r}"
