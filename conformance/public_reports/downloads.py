"""Cloud Storage: ranges of downloads, empty objects, conditions of the XML paths."""

from rules import reported
from samples import RELATED, bucket, put, related, start_object

RANGES = (
    ("bytes=0-4", 206, "bytes 0-4/11", b"hello"),
    ("bytes=6-", 206, "bytes 6-10/11", b"world"),
    ("bytes=-5", 206, "bytes 6-10/11", b"world"),
    ("bytes=0-10", 206, "bytes 0-10/11", b"hello world"),
    ("bytes=0-100", 206, "bytes 0-10/11", b"hello world"),
    ("bytes=10-10", 206, "bytes 10-10/11", b"d"),
    ("bytes=5-2", 200, None, b"hello world"),
    ("bytes=abc", 200, None, b"hello world"),
    ("0-4", 200, None, b"hello world"),
    ("bytes=-10-", 200, None, b"hello world"),
    ("chars=0-4", 200, None, b"hello world"),
)


@reported(
    "fsouza/fake-gcs-server#536", "fsouza/fake-gcs-server#803", "fsouza/fake-gcs-server#511",
    "fsouza/fake-gcs-server#263", "fsouza/fake-gcs-server#266", "fsouza/fake-gcs-server#2253",
    "9001/copyparty#1628", "rclone/rclone#9551",
)
def ranges_are_sent_ignored_or_refused(server, expect):
    """A range is 206, one that is no range is ignored, and one behind the end is 416."""
    name = bucket(server)
    put(server, name, "h", b"hello world")
    for path in (f"/storage/v1/b/{name}/o/h?alt=media", f"/{name}/h"):
        for asked, *right in RANGES:
            reply = server.get(path, Range=asked)
            expect.same([reply.status, reply["content-range"], reply.body], right, path, asked)
        reply = server.get(path, Range="bytes=-50")
        got = (reply.status, reply["content-range"], reply.body)
        whole = ((206, "bytes 0-10/11", b"hello world"), (200, None, b"hello world"))
        expect.true(got in whole, path, "bytes=-50", got)
        reply = server.get(path, Range="bytes=11-")
        got = (reply.status, reply["content-range"])
        expect.same(got, (416, "bytes */11"), path, "behind the end")
        expect.same(server.get(path, Range="bytes=-0").status, 416, path, "bytes=-0")


@reported("fsouza/fake-gcs-server#2253")
def unsatisfiable_range_says_why(server, expect):
    """A 416 has Content-Range: bytes */SIZE and a body."""
    name = bucket(server)
    put(server, name, "a", b"hello")
    for path in (f"/{name}/a", f"/storage/v1/b/{name}/o/a?alt=media"):
        reply = server.get(path, Range="bytes=9-")
        got = (reply.status, reply["content-range"], bool(reply.body))
        expect.same(got, (416, "bytes */5", True), path)


@reported(
    "googleapis/google-cloud-go#242", "googleapis/google-api-java-client#2076",
    "JuliaServices/CloudStore.jl#17", "bolcom/libunftp#510",
)
def objects_without_bytes_are_objects(server, expect):
    """An object without bytes is downloaded, and a range of it is 416."""
    name = bucket(server)
    put(server, name, "simple", b"")
    server.call("PUT", start_object(server, name, "session"), b"", Content_Range="bytes */0")
    path = f"/upload/storage/v1/b/{name}/o?uploadType=multipart"
    body = related({"name": "multipart"}, "text/plain", b"")
    server.call("POST", path, body, Content_Type=RELATED)
    for key in ("simple", "session", "multipart"):
        resource = f"/storage/v1/b/{name}/o/{key}"
        for path in (f"{resource}?alt=media", f"/{name}/{key}"):
            reply = server.get(path)
            expect.same((reply.status, reply.body, reply["content-length"]), (200, b"", "0"), path)
            expect.same(server.call("HEAD", path).status, 200, "HEAD", path)
            reply = server.get(path, Range="bytes=0-")
            got = (reply.status, reply["content-range"])
            expect.same(got, (416, "bytes */0"), path, "bytes=0-")
            status = server.get(path, Range="bytes=-1").status
            expect.true(status in (200, 206, 416), path, "bytes=-1", status)
        right = {"size": "0", "crc32c": "AAAAAA==", "md5Hash": "1B2M2Y8AsgTpgAmY7PhCfg=="}
        got = server.get(resource).json
        expect.same({field: got.get(field) for field in right}, right, key)


@reported(
    "fsouza/fake-gcs-server#1076", "cloud.google.com/storage/docs/xml-api/reference-headers",
)
def generations_in_headers_of_the_xml_paths_decide(server, expect):
    """x-goog-if-generation-match and ?generation= decide at GET /BUCKET/OBJECT."""
    name = bucket(server)
    made = put(server, name, "a", b"hello")
    generation, metageneration = made["generation"], made["metageneration"]
    for header, value, right in (
        ("x-goog-if-generation-match", generation, 200),
        ("x-goog-if-generation-match", "1234", 412),
        ("x-goog-if-metageneration-match", metageneration, 200),
        ("x-goog-if-metageneration-match", "77", 412),
    ):
        reply = server.get(f"/{name}/a", **{header: value})
        expect.same(reply.status, right, header, value)
    resource = f"/storage/v1/b/{name}/o/a"
    for path, right in (
        (f"/{name}/a?generation={generation}", 200),
        (f"/{name}/a?generation=1234", 404),
        (f"{resource}?alt=media&ifGenerationMatch=1234", 412),
        (f"{resource}?alt=media&ifGenerationNotMatch={generation}", 304),
        (f"{resource}?generation=1234", 404),
    ):
        expect.same(server.get(path).status, right, path)
