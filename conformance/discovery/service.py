"""One document, served by windlass and called through the library."""

import base64
import copy
import hashlib
import io
import json
import re
import struct

import google_crc32c
from google.auth.credentials import AnonymousCredentials
from googleapiclient.discovery import build_from_document, fix_method_name
from googleapiclient.http import MediaIoBaseUpload

import samples
from documents import methods
from schema import admit

KIB = 1024
CHUNK = 256 * KIB
SIZES = {"size", "sizeBytes", "size_bytes", "fileSize", "filesize"}
DIGESTS = {
    "md5Checksum": lambda data: hashlib.md5(data).hexdigest(),
    "md5Hash": lambda data: base64.b64encode(hashlib.md5(data).digest()).decode(),
    "sha256": lambda data: hashlib.sha256(data).hexdigest(),
    "sha256Checksum": lambda data: hashlib.sha256(data).hexdigest(),
    "crc32c": lambda data: base64.b64encode(struct.pack(">I", google_crc32c.value(data))).decode(),
}


class Upload:
    """An upload that is going to be made, or was."""

    def __init__(self, method, data, content_type, values, body, telling):
        self.method, self.data, self.content_type = method, data, content_type
        self.values, self.body, self.telling = values, body, telling
        self.reply = None


class Service:
    def __init__(self, server, document):
        self.url, self.port, self.document = server.url, server.port, document
        served = copy.deepcopy(document)
        served["rootUrl"] = server.url + "/"
        self.library = build_from_document(served, credentials=AnonymousCredentials())
        self.http = self.library._http
        self.methods = list(methods(document))

    def call(self, method, values, **more):
        """The library's request for a call."""
        collection = self.library
        for name in method.collections:
            collection = getattr(collection, fix_method_name(name))()
        # As the library turns the names of parameters into those of Python.
        values = {re.sub(r"[^A-Za-z0-9_]", "_", name): value for name, value in values.items()}
        return getattr(collection, fix_method_name(method.key))(**values, **more)

    def execute(self, method_id, **values):
        method = next(method for method in self.methods if method.id == method_id)
        return self.call(method, values).execute()

    def prepare(self, method, length):
        """An upload that makes sense to the service: what it is about is there."""
        content_type = samples.media_type_for(method)
        data = samples.media_of(content_type, length)
        body, telling = samples.metadata(method) if method.request else (None, {})
        upload = Upload(method, data, content_type, samples.parameters(method), body, telling)
        self._make_ready(upload)
        return upload

    def _make_ready(self, upload):
        method, values = upload.method.id, upload.values
        if method in ("gmail.users.drafts.update", "gmail.users.drafts.send"):
            draft = self.made("gmail.users.drafts.create")["id"]
            values.update({"id": draft} if method.endswith("update") else {})
            upload.body = {"id": draft}
        elif method == "drive.files.update":
            made = "drive.files.insert" if self.document["version"] == "v2" else "drive.files.create"
            values["fileId"] = self.made(made)["id"]
        elif method == "chromewebstore.items.update":
            values["itemId"] = self.made("chromewebstore.items.insert")["id"]
        elif method in ("youtube.captions.update", "youtube.playlistImages.update"):
            insert = method.replace("update", "insert")
            upload.body = {"id": self.made(insert)["id"], "snippet": samples.METADATA[insert]["snippet"]}
        elif method == "youtube.thumbnails.set":
            values["videoId"] = self.made("youtube.videos.insert")["id"]
        elif method == "youtube.captions.insert":
            video = self.made("youtube.videos.insert")["id"]
            upload.body = {"snippet": {**upload.body["snippet"], "videoId": video}}

    def made(self, method_id):
        method = next(method for method in self.methods if method.id == method_id)
        return self.request(self.prepare(method, 10 * KIB)).execute()

    def request(self, upload, metadata=True, resumable=False):
        """The library's request for an upload."""
        media_body = MediaIoBaseUpload(
            io.BytesIO(upload.data), mimetype=upload.content_type, chunksize=CHUNK, resumable=resumable)
        more = {"media_body": media_body}
        if metadata and upload.body is not None:
            more["body"] = upload.body
        return self.call(upload.method, upload.values, **more)

    def upload_url(self, upload, upload_type):
        """The URL that the library would upload to, for requests that it does not send."""
        uri = self.call(upload.method, upload.values).uri
        plain = uri.split("/", 3)[3]
        simple = upload.method.upload["protocols"]["simple"]["path"]
        path, _, query = plain.partition("?")
        assert simple.startswith("/upload/"), simple
        query = re.sub("&?alt=json", "", query)
        return f"{self.url}/upload/{path}?uploadType={upload_type}&{query}".rstrip("&")

    def verify(self, upload, reply, shows=True):
        """The reply must have the form that the document says, and tell of what was sent."""
        upload.reply = reply
        if upload.method.response is None:
            assert reply in (None, "", b"") or json.loads(reply) == {}, f"a reply that the document does not know: {reply!r}"
            return
        assert isinstance(reply, dict), f"no object: {reply!r}"
        admit(self.document, upload.method.response, reply)
        check_facts(self.document, reply, upload.data)
        if shows:
            self._verify_shown(upload, reply)

    def _verify_shown(self, upload, reply):
        found = dict(fields(reply))
        schema = self.document["schemas"][upload.method.response["$ref"]]
        for name, value in upload.telling.items():
            if name in schema.get("properties", {}) or name in found:
                assert found.get(name) == value, f"{name} is {found.get(name)!r}, not {value!r}"


def fields(reply):
    """All fields of an object and of the objects in it; those outside last."""
    for name, value in reply.items():
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                yield from fields(inner)
    for name, value in reply.items():
        if not isinstance(value, (dict, list)):
            yield name, value


def check_facts(document, reply, data):
    # The sizes that Gmail shows are those of a message's parts.
    sizes = set() if document["name"] == "gmail" else SIZES
    for name, value in fields(reply):
        if name in sizes:
            assert int(value) == len(data), f"{name} is {value}, sent {len(data)}"
        elif name in DIGESTS:
            assert value == DIGESTS[name](data), f"{name} is {value}"
