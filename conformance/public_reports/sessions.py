"""Cloud Storage and Drive: sessions, their chunks, and multipart bodies."""

import os

from rules import reported
from samples import CHUNK, RELATED, bucket, related, start_object


@reported("fsouza/fake-gcs-server#2354", "fsouza/fake-gcs-server#1362")
def status_query_finishes_no_session(server, expect):
    """A status query tells exactly what has arrived, and finishes no session."""
    name, data = bucket(server), os.urandom(2 * CHUNK)
    uri, total = start_object(server, name, "x"), len(data)
    for query in ("bytes */*", f"bytes */{total}"):
        reply = server.call("PUT", uri, b"", Content_Range=query)
        got = (reply.status, reply["range"], reply["location"])
        expect.same(got, (308, None, None), "fresh", query)
    half = (308, f"bytes=0-{CHUNK - 1}")
    reply = server.call("PUT", uri, data[:CHUNK], Content_Range=f"bytes 0-{CHUNK - 1}/{total}")
    expect.same((reply.status, reply["range"]), half, "first chunk")
    for query in ("bytes */*", f"bytes */{total}"):
        reply = server.call("PUT", uri, b"", Content_Range=query)
        expect.same((reply.status, reply["range"]), half, query)
    path = f"/storage/v1/b/{name}/o/x"
    expect.same(server.get(path).status, 404, "object before the end")
    last = f"bytes {CHUNK}-{total - 1}/{total}"
    reply = server.call("PUT", uri, data[CHUNK:], Content_Range=last)
    expect.same((reply.status, reply.json.get("size")), (200, str(total)), "last chunk")
    expect.true(server.get(f"{path}?alt=media").body == data, "other bytes")


@reported(
    "floci-io/floci-gcp#34", "googleapis/google-cloud-swift#113", "oittaa/gcp-storage-emulator#324",
)
def streams_state_their_length_at_the_end(server, expect):
    """A stream of unknown length ends with a short chunk, or with an empty bytes */TOTAL."""
    of = bucket(server)
    for name, total in (
        ("multiple", 2 * CHUNK), ("short", 2 * CHUNK + 7), ("small", 3), ("empty", 0),
    ):
        data, at, uri = os.urandom(total), 0, start_object(server, of, name)
        while total - at >= CHUNK:
            body = data[at : at + CHUNK]
            reply = server.call("PUT", uri, body, Content_Range=f"bytes {at}-{at + CHUNK - 1}/*")
            at += CHUNK
            expect.same((reply.status, reply["range"]), (308, f"bytes=0-{at - 1}"), name, "chunk")
        last = f"bytes {at}-{total - 1}/{total}" if at < total else f"bytes */{total}"
        reply = server.call("PUT", uri, data[at:], Content_Range=last)
        expect.same((reply.status, reply.json.get("size")), (200, str(total)), name, last)
        media = server.get(f"/storage/v1/b/{of}/o/{name}?alt=media").body
        expect.true(media == data, name, "other bytes")


@reported("googleapis/java-storage#2059")
def states_of_a_session_are_those_of_the_service(server, expect):
    """A wrong total is 308, a gap is 503, and a finished session answers 200 to everything."""
    uri, data = start_object(server, bucket(server), "a"), os.urandom(2 * CHUNK)
    total = len(data)
    reply = server.call("PUT", uri, data, Content_Range=f"bytes 0-{total - 1}/*")
    expect.same(reply.status, 308, "append")
    for scenario, stated in (("S.2", CHUNK), ("S.3", 3 * CHUNK)):
        reply = server.call("PUT", uri, b"", Content_Range=f"bytes */{stated}")
        expect.same((reply.status, reply["range"]), (308, f"bytes=0-{total - 1}"), scenario)
    gap = f"bytes {3 * CHUNK}-{4 * CHUNK - 1}/*"
    reply = server.call("PUT", uri, b"y" * CHUNK, Content_Range=gap)
    expect.same((reply.status, (reply["content-type"] or "")[:10]), (503, "text/plain"), "S.5")
    expect.true(b"exceeds already uploaded size" in reply.body, "S.5", reply)
    reply = server.call("PUT", uri, b"", Content_Range=f"bytes */{total}")
    expect.same(reply.status, 200, "finish")
    for scenario, body, content_range in (
        ("S.1", data[:CHUNK], f"bytes 0-{CHUNK - 1}/*"),
        ("S.4", b"", f"bytes */{total}"),
        ("S.4.1", b"", f"bytes */{2 * total}"),
        ("S.4.2", b"", f"bytes */{CHUNK}"),
    ):
        reply = server.call("PUT", uri, body, Content_Range=content_range)
        expect.same((reply.status, reply.json.get("size")), (200, str(total)), scenario)


@reported(
    "fsouza/fake-gcs-server#1098", "fsouza/fake-gcs-server#52", "fsouza/fake-gcs-server#1141",
)
def type_of_an_object_is_that_of_the_start(server, expect):
    """An object's type is that of the session's start, and never that of a chunk."""
    of = bucket(server)
    header = {"X_Upload_Content_Type": "image/jpeg"}
    for name, metadata, headers, right in (
        ("header", {}, header, "image/jpeg"),
        ("metadata", {"contentType": "image/png"}, {}, "image/png"),
        ("both", {"contentType": "image/png"}, header, "image/png"),
    ):
        uri = start_object(server, of, name, metadata, **headers)
        reply = server.call("PUT", uri, b"jpeg", Content_Type="multipart/form-data")
        expect.same((reply.status, reply.json.get("contentType")), (200, right), name)
        media = server.get(f"/storage/v1/b/{of}/o/{name}?alt=media")
        expect.same(media["content-type"], right, name, "download")
    default = "application/octet-stream"
    reply = server.call("PUT", start_object(server, of, "none"), b"?", Content_Type="text/html")
    expect.true(reply.json.get("contentType") in (None, default), "no type", reply)
    media = server.get(f"/storage/v1/b/{of}/o/none?alt=media")
    expect.same(media["content-type"], default, "no type", "download")


@reported("talkiq/gcloud-aio#469", "googleapis/google-api-php-client#2368")
def truncated_multipart_is_refused(server, expect):
    """A multipart body without its last boundary is 400, and makes no object."""
    of = bucket(server)
    whole = related({"name": "t"}, "text/plain", "gr\u00fc\u00dfe \u2713".encode())
    path = f"/storage/v1/b/{of}/o/t"
    for cut in (1, 4, 9, 12, 20):
        body = whole[:-cut]
        right = (200, 200) if body.rstrip(b"\r\n").endswith(b"--bnd--") else (400, 404)
        upload = f"/upload/storage/v1/b/{of}/o?uploadType=multipart"
        reply = server.call("POST", upload, body, Content_Type=RELATED)
        expect.same((reply.status, server.get(path).status), right, "without the last", cut, reply)
        server.call("DELETE", path)


@reported("openonion/connectonion#908", "brendanhay/gogol#16")
def simple_uploads_do_not_unpack_multipart(server, expect):
    """uploadType=media stores a multipart body as it is."""
    body = related({"name": "n"}, "text/plain", b"hello")
    size = str(len(body))
    path = "/upload/drive/v3/files?uploadType=media&fields=id,size"
    reply = server.call("POST", path, body, Content_Type=RELATED)
    expect.same((reply.status, reply.json.get("size")), (200, size), "drive")
    expect.same(server.get(f"/drive/v3/files/{reply.json.get('id')}?alt=media").body, body, "bytes")
    path = f"/upload/storage/v1/b/{bucket(server)}/o?uploadType=media&name=m"
    reply = server.call("POST", path, body, Content_Type=RELATED)
    got = (reply.status, reply.json.get("size"), reply.json.get("contentType"))
    expect.same(got, (200, size, RELATED), "storage")


@reported("floci-io/floci-gcp#122", "floci-io/floci-gcp#132", "floci-io/floci-gcp#23")
def sessions_take_chunks_by_post(server, expect):
    """A session takes POST, repeated chunks and X-GUploader-No-308."""
    of, data = bucket(server), os.urandom(2 * CHUNK + 9)
    uri, total = start_object(server, of, "a"), len(data)

    def post(first, last, stated, body, **headers):
        content_range = f"bytes {first}-{last}/{stated}"
        return server.call("POST", uri, body, Content_Range=content_range, **headers)

    for what in ("first", "again"):
        reply = post(0, CHUNK - 1, "*", data[:CHUNK])
        got = (reply.status, reply["range"], reply.body)
        expect.same(got, (308, f"bytes=0-{CHUNK - 1}", b""), what)
    override, no_308 = "x-http-status-code-override", {"X_GUploader_No_308": "yes"}
    reply = post(CHUNK, 2 * CHUNK - 1, "*", data[CHUNK : 2 * CHUNK], **no_308)
    got = (reply.status, reply[override], reply["range"])
    expect.same(got, (200, "308", f"bytes=0-{2 * CHUNK - 1}"), "second")
    expect.same(post(3 * CHUNK, 4 * CHUNK - 1, "*", data[:CHUNK]).status, 503, "a gap")
    for what in ("last", "last, again"):
        reply = post(2 * CHUNK, total - 1, total, data[2 * CHUNK :], **no_308)
        got = (reply.status, reply[override], reply.json.get("size"))
        expect.same(got, (200, None, str(total)), what)
    expect.true(server.get(f"/storage/v1/b/{of}/o/a?alt=media").body == data, "other bytes")
    path = f"/upload/storage/v1/b/{of}/o?uploadType=resumable&name=n"
    reply = server.call("POST", path, b"not json", Content_Type="application/json")
    expect.same(reply.status, 400, "a start that is no JSON")
