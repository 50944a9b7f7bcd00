"""Servers of Cloud Storage, as they are seen past the libraries under test, and faults on the way to them."""

import contextlib
import json
import tempfile
import urllib.error
import urllib.parse
import urllib.request

from faults import EXPIRED, FaultProxy
from report import check, media
from server import Server

KIB, MIB = 1024, 1024 * 1024
SMALL, LARGE = media(1000), media(20 * MIB + 7, seed=2)
# What servers with other limits accept: types, and the largest length.
LIMITS = {"wrong type": ("video/*", 100 * MIB), "too large": ("*/*", MIB)}


class Place:
    def __init__(self, binary, api="storage", **settings):
        self.server = Server(binary, "--api", api, **settings)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.remove()

    @contextlib.contextmanager
    def refusing(self, flow):
        """The URL of another server, with the bucket `barn`, that refuses large objects, or lets their sessions expire."""
        with tempfile.TemporaryDirectory() as folder:
            api, settings = "storage", {}
            if flow in LIMITS:
                api = self.server.limited("storage", "v1", folder, *LIMITS[flow])
            else:
                settings = {"sessions_lifetime": "1s"}
            with Place(self.server.binary, api, **settings) as other:
                other.make_bucket()
                with FaultProxy(other.server.port, EXPIRED) as line:
                    yield other.server.url if flow in LIMITS else line.url
                assert not other.exists("barn/refused"), "there is an object"

    def make_bucket(self):
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.server.url}/storage/v1/b?project=test", b'{"name": "barn"}', headers)
        urllib.request.urlopen(request).close()

    def _url(self, path, query=""):
        bucket, name = path.split("/", 1)
        return f"{self.server.url}/storage/v1/b/{bucket}/o/{urllib.parse.quote(name, safe='')}{query}"

    def resource(self, path):
        with urllib.request.urlopen(self._url(path)) as reply:
            return json.load(reply)

    def exists(self, path):
        try:
            self.resource(path)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return False
        return True

    def verify(self, path, data, **fields):
        """The bucket has the object, and it is what was sent."""
        resource = check(self.resource(path), data, **fields)
        with urllib.request.urlopen(self._url(path, "?alt=media")) as reply:
            assert reply.read() == data, "other bytes came back"
        return resource

    def struck(self, fault, use, **how):
        """Calls `use` with the URL of a line on which a fault strikes."""
        with FaultProxy(self.server.port, fault, **how) as line:
            result = use(line.url)
            assert line.struck, "the fault did not strike"
            return result


def throws(kind, function):
    try:
        function()
    except kind:
        return
    raise AssertionError("not refused")
