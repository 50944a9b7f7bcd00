"""Cloud Storage for Firebase: metadata, names and sizes."""

import os

from rules import reported
from samples import CHUNK, multipart, unique
from wire import escaped


@reported(
    "firebase/firebase-tools#3385", "firebase/firebase-tools#3398", "firebase/firebase-tools#4889",
    "firebase/firebase-ios-sdk#9849",
)
def null_removes_a_field(server, expect):
    """null removes a field or a key of the own metadata, and never becomes a text."""
    name = "dir/file1.txt"
    base = f"/v0/b/{unique('b')}/o"
    metadata = {"removeMe": "please", "keep": "1"}
    body = {"metadata": metadata, "contentType": "text/plain"}
    upload = f"{base}?name={escaped(name)}"
    headers = {"X_Goog_Upload_Protocol": "multipart"}
    reply = multipart(server, upload, body, "text/plain", b"hello!", **headers)
    right = {"metadata": metadata, "size": "6", "name": name, "cacheControl": None}
    expect.same({key: reply.json.get(key) for key in right}, right, "upload")
    path = f"{base}/{escaped(name)}"
    reply = server.call("PATCH", path, {"metadata": {"removeMe": None}})
    expect.same(reply.json.get("metadata"), {"keep": "1"}, "a null key")
    fields = {
        "cacheControl": "no-store", "contentLanguage": "es", "contentType": "image/jpeg",
        "contentDisposition": "attachment; filename=example.html", "contentEncoding": "gzip",
    }
    reply = server.call("PATCH", path, fields)
    for key in ("cacheControl", "contentLanguage", "contentType"):
        expect.same(reply.json.get(key), fields[key], "set")
    reply = server.call("PATCH", path, dict.fromkeys([*fields, "metadata"]))
    for where, it in (("reply", reply.json), ("then", server.get(path).json)):
        for key in ("cacheControl", "contentLanguage", "metadata"):
            expect.same(it.get(key) or None, None, where, key)
        encoding = it.get("contentEncoding")
        expect.true(encoding in (None, "identity"), where, "contentEncoding", encoding)
        expect.true("null" not in it.values(), where, "the text null", it)
    expect.same(server.get(path + "?alt=media").body, b"hello!", "media")
    change = {"metadata": {"x": "1"}}
    reply = server.call("POST", path, change, X_HTTP_Method_Override="PATCH")
    expect.same((reply.status, reply.json.get("metadata")), (200, {"x": "1"}), "override")


@reported(
    "firebase/firebase-tools#6834", "firebase/firebase-tools#5571", "firebase/firebase-tools#5457",
    "firebase/firebase-tools#7308", "firebase/firebase-ios-sdk#9849", "RFC 6266",
)
def names_in_headers_are_ascii(server, expect):
    """A download of any name has an ASCII Content-Disposition."""
    base = f"/v0/b/{unique('b')}/o"
    for name in (
        "Screenshot 2024-03-05 at 3.27.42\u202fPM.png", "\u30c6\u30b9\u30c8.txt", 'a"b;c.txt',
        "x\u00e9/\u00fc 100%.txt", "test..txt", "line\u2028sep.txt",
    ):
        data, path = name.encode(), f"{base}/{escaped(name)}"
        headers = {"X_Goog_Upload_Protocol": "raw", "Content_Type": "image/png"}
        reply = server.call("POST", f"{base}?name={escaped(name)}", data, **headers)
        expect.same((reply.status, reply.json.get("name")), (200, name), "upload")
        disposition = reply.json.get("contentDisposition") or ""
        expect.true(disposition.isascii(), "contentDisposition of the resource", disposition)
        for query in ("", f"&token={reply.json.get('downloadTokens')}"):
            reply = server.get(f"{path}?alt=media{query}")
            expect.same((reply.status, reply.body), (200, data), name)
            disposition = reply["content-disposition"] or ""
            expect.true(disposition.isascii(), "header", disposition)
        expect.same(server.call("DELETE", path).status, 204, "delete", name)


@reported(
    "firebase/firebase-tools#4958", "firebase/firebase-tools#4959", "firebase/firebase-tools#4364",
    "firebase/firebase-tools#5412",
)
def sessions_of_all_sizes_end(server, expect):
    """A session of any size is active, then final, or cancelled."""
    base = f"/v0/b/{unique('b')}/o"
    for size in (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 262406, 2 * CHUNK, 3 * CHUNK + 5):
        data, at, name = os.urandom(size), 0, f"n{size}"
        uri = begin(server, expect, base, name, size)
        while size - at > CHUNK:
            chunk = data[at : at + CHUNK]
            reply = command(server, uri, "upload", chunk, X_Goog_Upload_Offset=str(at))
            expect.same((reply.status, reply["x-goog-upload-status"]), (200, "active"), size, at)
            at += CHUNK
            reply = command(server, uri, "query")
            received = reply["x-goog-upload-size-received"]
            got = (reply.status, reply["x-goog-upload-status"], received)
            expect.same(got, (200, "active", str(at)), size, "query")
        reply = command(server, uri, "upload, finalize", data[at:], X_Goog_Upload_Offset=str(at))
        got = (reply.status, reply["x-goog-upload-status"], reply.json.get("size"))
        expect.same(got, (200, "final", str(size)), size, "end")
        expect.true(server.get(f"{base}/{name}?alt=media").body == data, size, "other bytes")
    uri = begin(server, expect, base, "c", 3 * CHUNK)
    command(server, uri, "upload", b"x" * CHUNK, X_Goog_Upload_Offset="0")
    reply = command(server, uri, "cancel")
    expect.same((reply.status, reply["x-goog-upload-status"]), (200, "cancelled"), "cancel")
    expect.same(server.get(f"{base}/c").status, 404, "what is left of a cancelled session")


def command(server, uri, word, body=b"", **headers):
    return server.call("POST", uri, body, X_Goog_Upload_Command=word, **headers)


def begin(server, expect, base, name, size):
    """Starts a session as Firebase's library for JavaScript does, and returns its URI."""
    reply = server.call(
        "POST", f"{base}?name={name}", {"name": name, "contentType": "text/plain"},
        X_Goog_Upload_Protocol="resumable", X_Goog_Upload_Command="start",
        X_Goog_Upload_Header_Content_Length=str(size),
        X_Goog_Upload_Header_Content_Type="text/plain",
    )
    expect.same((reply.status, reply["x-goog-upload-status"]), (200, "active"), "start")
    return reply["x-goog-upload-url"]
