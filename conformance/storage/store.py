"""A bucket, a client of the library, and what is asked of both again and again."""

import base64
import hashlib
import itertools

from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from report import check, media

LIBRARY = "google-cloud-storage"
KIB, MIB = 1024, 1024 * 1024
CHUNK = 256 * KIB
SMALL, LARGE = media(1000), media(3 * MIB + 12_345, seed=2)


class Store:
    """A server with the bucket `barn`."""

    def __init__(self, server, folder):
        self.server, self.folder = server, folder
        self.numbers = itertools.count()
        self.client = client(server.url)
        self.bucket = self.client.create_bucket("barn")

    def name(self):
        return f"cow-{next(self.numbers)}"

    def blob(self, name=None, **how):
        return self.bucket.blob(name or self.name(), **how)

    def file(self, data):
        path = self.folder / f"file-{next(self.numbers)}"
        path.write_bytes(data)
        return path

    def put(self, data=SMALL, name=None):
        blob = self.blob(name)
        blob.upload_from_string(data)
        return blob

    def verify(self, blob, data, **fields):
        """The bucket has the object, and it is what was sent."""
        stored = self.bucket.get_blob(blob.name)
        assert stored is not None, f"there is no {blob.name}"
        resource = check(stored._properties, data, md5Hash=md5(data), name=blob.name, bucket="barn", **fields)
        assert stored.download_as_bytes() == data, "other bytes came back"
        return resource

    def over(self, line):
        """The same bucket over another line."""
        return client(line.url).bucket("barn")


def client(url):
    return storage.Client(
        project="test", credentials=AnonymousCredentials(), client_options={"api_endpoint": url})


def md5(data):
    return base64.b64encode(hashlib.md5(data).digest()).decode()


def thrown(function):
    """What the library throws, in a word or two."""
    try:
        function()
    except GoogleAPICallError as error:
        return f"`{type(error).__name__}` {error.code}"
    raise AssertionError("not refused")


def refused(status, function):
    """The library must see this status."""
    try:
        function()
    except GoogleAPICallError as error:
        assert error.code == status, f"{error.code}, not {status}: {error}"
    else:
        raise AssertionError("not refused")
