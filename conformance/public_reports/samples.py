"""What the cases put into the server before the rule comes: buckets, objects, sessions, mails."""

import base64
import json
import uuid

from wire import escaped

# Chunks of a session are multiples of this.
CHUNK = 256 * 1024
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAA"
    "AABJRU5ErkJggg=="
)
RELATED = "multipart/related; boundary=bnd"


def unique(prefix):
    return prefix + uuid.uuid4().hex[:20]


def bucket(server):
    """A new bucket's name."""
    name = unique("b")
    reply = server.call("POST", "/storage/v1/b?project=p", {"name": name})
    assert reply.status == 200, reply
    return name


def put(server, of, name, data=b"x", content_type="text/plain"):
    """Uploads an object in one request, and returns its resource."""
    path = f"/upload/storage/v1/b/{of}/o?uploadType=media&name={escaped(name)}"
    reply = server.call("POST", path, data, Content_Type=content_type)
    assert reply.status == 200, (name, reply)
    return reply.json


def multipart(server, path, metadata, content_type, data, **headers):
    """A multipart upload: metadata and media in one body."""
    body = related(metadata, content_type, data)
    return server.call("POST", path, body, Content_Type=RELATED, **headers)


def related(metadata, content_type, data):
    """A body of `multipart/related` with the boundary of `RELATED`."""
    return b"".join((
        b"--bnd\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n",
        json.dumps(metadata).encode(), b"\r\n--bnd\r\nContent-Type: ", content_type.encode(),
        b"\r\n\r\n", data, b"\r\n--bnd--\r\n",
    ))


def start(server, path, metadata=None, **headers):
    """Starts a session, and returns its URI."""
    reply = server.call("POST", path, metadata or {}, **headers)
    assert reply.status == 200 and reply["location"], reply
    return reply["location"]


def start_object(server, of, name, metadata=None, **headers):
    """Starts a session for an object that the query names."""
    path = f"/upload/storage/v1/b/{of}/o?uploadType=resumable&name={escaped(name)}"
    return start(server, path, metadata, **headers)


def file(server, name, **fields):
    """A new file of Drive without media; its id."""
    reply = server.call("POST", "/drive/v3/files?fields=id", {"name": name, **fields})
    assert reply.status == 200, reply
    return reply.json["id"]


def user():
    """The owner of a mailbox that no other case uses."""
    return f"{unique('u')}@windlass.localhost"


def mail(server, of, text, query=""):
    """Inserts a message with these lines, and returns its resource."""
    data = text if isinstance(text, bytes) else text.replace("\n", "\r\n").encode()
    path = f"/upload/gmail/v1/users/{of}/messages?uploadType=media{query}"
    reply = server.call("POST", path, data, Content_Type="message/rfc822")
    assert reply.status == 200, reply
    return reply.json


def decoded(text):
    """The bytes of base64 as Gmail writes it, without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
