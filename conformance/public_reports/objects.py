"""Cloud Storage: fields and metadata of objects, copies, compositions, batches."""

import re

from rules import reported
from samples import bucket, multipart, put, start
from wire import escaped


@reported(
    "googleapis/google-cloud-go#380", "fsouza/fake-gcs-server#1468", "fsouza/fake-gcs-server#2292",
    "googleapis/python-storage#381", "googleapis/google-cloud-node#597",
)
def null_clears_and_empty_keeps_metadata(server, expect):
    """PATCH merges metadata: null clears, {} keeps, a null key is removed. PUT replaces it."""
    name = bucket(server)
    path = f"/storage/v1/b/{name}/o/a"
    upload = f"/upload/storage/v1/b/{name}/o?uploadType=multipart"
    both = {"foo": "bar", "baz": "qux"}
    for verb, change, right in (
        ("PATCH", {}, both),
        ("PATCH", {"metadata": {}}, both),
        ("PATCH", {"metadata": None}, None),
        ("PATCH", {"metadata": {"foo": None}}, {"baz": "qux"}),
        ("PATCH", {"metadata": {"foo": None, "new": ""}}, {"baz": "qux", "new": ""}),
        ("PATCH", {"metadata": {"baz": "blah"}}, {"foo": "bar", "baz": "blah"}),
        ("PATCH", {"metadata": {"foo": None, "baz": None}}, None),
        ("PUT", {}, None),
        ("PUT", {"metadata": {}}, None),
        ("PUT", {"metadata": None}, None),
        ("PUT", {"metadata": {"k": "v"}}, {"k": "v"}),
    ):
        multipart(server, upload, {"name": "a", "metadata": both}, "text/plain", b"x")
        reply = server.call(verb, path, change)
        expect.same(reply.status, 200, verb, change, reply)
        for where, it in (("reply", reply), ("then", server.get(path))):
            expect.same(it.json.get("metadata") or None, right, verb, change, where)


METADATA = {
    "cacheControl": "max-age=3600",
    "contentDisposition": "attachment; filename=doc.pdf",
    "contentLanguage": "de-CH",
    "contentType": "application/pdf",
    "customTime": "2026-01-02T03:04:05Z",
    "metadata": {"owner": "user123", "Key": "\u00e4"},
}


@reported(
    "fsouza/fake-gcs-server#2102", "fsouza/fake-gcs-server#273", "fsouza/fake-gcs-server#1430",
    "oittaa/gcp-storage-emulator#288", "firebase/firebase-tools#4278",
)
def fields_of_an_upload_are_kept(server, expect):
    """Fields of an upload come back in the resource and as headers, and PATCH changes them."""
    name = bucket(server)
    upload = f"/upload/storage/v1/b/{name}/o?uploadType="
    named = METADATA | {"name": "whole"}
    whole = multipart(server, upload + "multipart", named, "text/plain", b"%PDF")
    uri = start(server, upload + "resumable", METADATA | {"name": "session"})
    for key, reply in (("whole", whole), ("session", server.call("PUT", uri, b"%PDF"))):
        path = f"/storage/v1/b/{name}/o/{key}"
        for got in (reply.json, server.get(path).json):
            # The time may come back with a fraction of a second.
            got["customTime"] = got.get("customTime", "")[:19] + "Z"
            expect.same({field: got.get(field) for field in METADATA}, METADATA, key)
        for media in (f"{path}?alt=media", f"/{name}/{key}"):
            reply = server.get(media)
            for header, field in (
                ("cache-control", "cacheControl"), ("content-disposition", "contentDisposition"),
                ("content-language", "contentLanguage"), ("content-type", "contentType"),
            ):
                expect.same(reply[header], METADATA[field], media, header)
    path = f"/storage/v1/b/{name}/o/session"
    server.call("PATCH", path, {"contentType": "text/csv", "cacheControl": None})
    expect.same(server.get(f"{path}?alt=media")["content-type"], "text/csv", "PATCH of the type")
    expect.same(server.get(path).json.get("cacheControl"), None, "PATCH to null")


@reported(
    "fsouza/fake-gcs-server#1019", "fsouza/fake-gcs-server#1020", "floci-io/floci-gcp#123",
    "oittaa/gcp-storage-emulator#323",
)
def own_metadata_are_headers_of_the_xml_paths(server, expect):
    """GET /BUCKET/OBJECT shows own metadata as x-goog-meta-KEY."""
    name = bucket(server)
    metadata = {"owner": "user123", "Mixed-Case": "x y"}
    upload = f"/upload/storage/v1/b/{name}/o?uploadType=multipart"
    multipart(server, upload, {"name": "a", "metadata": metadata}, "text/plain", b"x")
    for verb in ("GET", "HEAD"):
        reply = server.call(verb, f"/{name}/a")
        got = (reply.status, reply["x-goog-meta-owner"], reply["x-goog-meta-mixed-case"])
        expect.same(got, (200, "user123", "x y"), verb)


@reported("fsouza/fake-gcs-server#1116", "fsouza/fake-gcs-server#187", "minio/minio#5806")
def copies_keep_the_fields_without_a_body(server, expect):
    """A copy keeps the source's fields without a body, and has those of the body with one."""
    source, other = bucket(server), bucket(server)
    fields = {"metadata": {"foo": "bar"}, "cacheControl": "no-store", "contentLanguage": "en"}
    upload = f"/upload/storage/v1/b/{source}/o?uploadType=multipart"
    multipart(server, upload, {"name": "d/a b", **fields}, "image/png", b"x" * 1000)
    path = f"/storage/v1/b/{source}/o/{escaped('d/a b')}"

    copy = server.call("POST", f"{path}/copyTo/b/{other}/o/{escaped('e/f')}").json
    right = {"kind": "storage#object", "name": "e/f", "bucket": other, "contentType": "image/png"}
    right |= fields
    expect.same({key: copy.get(key) for key in right}, right, "copyTo")
    rewrite = server.call("POST", f"{path}/rewriteTo/b/{other}/o/g").json
    right = {"kind": "storage#rewriteResponse", "done": True}
    right |= {"totalBytesRewritten": "1000", "objectSize": "1000"}
    expect.same({key: rewrite.get(key) for key in right}, right, "rewriteTo")
    expect.same(rewrite.get("resource", {}).get("name"), "g", "rewriteTo")
    for to, body in (
        (f"{other}/o/h", {"contentType": "text/css", "metadata": {"x": "y"}}),
        (f"{source}/o/{escaped('d/a b')}", {"contentType": "text/css"}),
    ):
        made = server.call("POST", f"{path}/rewriteTo/b/{to}", body).json.get("resource", {})
        right = {"metadata": None, "cacheControl": None, "size": "1000", **body}
        expect.same({key: made.get(key) for key in right}, right, "rewriteTo", to, body)
    for condition in ("ifGenerationMatch", "ifSourceGenerationMatch"):
        reply = server.call("POST", f"{path}/rewriteTo/b/{other}/o/i?{condition}=7")
        expect.same(reply.status, 412, condition)
    reply = server.call("POST", f"/storage/v1/b/{source}/o/none/rewriteTo/b/{other}/o/i")
    expect.same(reply.status, 404, "no source")


@reported("googleapis/nodejs-storage#166")
def compose_needs_no_type(server, expect):
    """compose needs no contentType: the object is then served as application/octet-stream."""
    name = bucket(server)
    put(server, name, "1", b"one,", "text/csv")
    put(server, name, "2", b"two", "text/csv")
    both = [{"name": "1"}, {"name": "2"}]
    base = f"/storage/v1/b/{name}/o"
    out = f"{base}/{escaped('out/all')}"
    reply = server.call("POST", f"{out}/compose", {"sourceObjects": both})
    right = {"size": "7", "componentCount": 2, "md5Hash": None}
    got = {key: reply.json.get(key) for key in right}
    expect.same((reply.status, got), (200, right), "compose")
    media = server.get(f"{out}?alt=media")
    got = (media.body, media["content-type"])
    expect.same(got, (b"one,two", "application/octet-stream"), "media")
    fields = {"contentType": "text/plain", "metadata": {"k": "v"}}
    reply = server.call("POST", f"{base}/1/compose", {"sourceObjects": both, "destination": fields})
    got = {key: reply.json.get(key) for key in fields}
    expect.same((reply.status, got), (200, fields), "onto a source")
    expect.same(server.get(f"{base}/1?alt=media").body, b"one,two", "onto a source")
    for sources, right in (([], 400), ([{"name": "none"}], 404)):
        reply = server.call("POST", f"{base}/x/compose", {"sourceObjects": sources})
        expect.same(reply.status, right, sources)


@reported("googleapis/google-api-java-client#1013")
def replies_of_a_batch_have_the_ids_of_its_calls(server, expect):
    """A batch answers in its calls' order, and Content-ID: 1 comes back as response-1."""
    name = bucket(server)
    for each in ("a", "b+c"):
        put(server, name, each)
    base = f"/storage/v1/b/{name}/o"
    body = '{"metadata":{"k":"v"}}\n'
    head = f"Content-Type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    calls = [
        f"GET {base}/a?fields=name HTTP/1.1\r\n\r\n",
        # Some libraries leave the version out.
        f"GET {base}/none\r\n\r\n",
        f"PATCH {base}/b%2Bc?fields=metadata HTTP/1.1\r\n{head}{body}",
        f"DELETE {base}/a HTTP/1.1\r\n\r\n",
    ]
    parts = "".join(
        f"--__END_OF_PART__\r\nContent-Length: {len(call)}\r\nContent-Type: application/http\r\n"
        f"content-id: {number}\r\ncontent-transfer-encoding: binary\r\n\r\n{call}\r\n"
        for number, call in enumerate(calls, 1)
    )
    batch = parts + "--__END_OF_PART__--\r\n"
    content_type = "multipart/mixed; boundary=__END_OF_PART__"
    reply = server.call("POST", "/batch/storage/v1", batch, Content_Type=content_type)
    expect.same(reply.status, 200, "batch", reply)
    text = reply.body.decode()
    ids = re.findall(r"(?i)content-id: *<?response-(\d)>?", text)
    expect.same(ids, ["1", "2", "3", "4"], "ids", text)
    expect.same(re.findall(r"HTTP/1.1 (\d+)", text), ["200", "404", "200", "204"], "statuses")
