"""Photos Library and YouTube: names of files, and limits of titles and tags."""

from rules import reported
from samples import PNG, multipart


@reported(
    "google/java-photoslibrary#42", "google/java-photoslibrary#7", "3846masa/upload-gphotos#354",
    "googleapis/google-api-dotnet-client#1489", "int128/gpup#2",
)
def file_names_of_photos_are_any_bytes(server, expect):
    """A photo's upload needs no file name, and takes any bytes as one."""
    reply = server.call(
        "POST", "/v1/uploads", b"", X_Goog_Upload_Protocol="resumable",
        X_Goog_Upload_Command="start", X_Goog_Upload_Raw_Size=str(len(PNG)),
        X_Goog_Upload_Content_Type="image/png",
    )
    expect.same((reply.status, bool(reply["x-goog-upload-url"])), (200, True), "start", reply)
    headers = {"X_Goog_Upload_Command": "upload, finalize", "X_Goog_Upload_Offset": "0"}
    reply = server.call("POST", reply["x-goog-upload-url"] or "/", PNG, **headers)
    expect.same(reply.status, 200, "finalize", reply)
    tokens = [reply.body.decode()]
    for name in (
        "xin ch\u00e0o c\u00e1c b\u1ea1n.png".encode(), "\u30c6.png".encode(),
        b"xin%20ch%C3%A0o.png", b"caf\xe9.png",
    ):
        said = server.whole(raw_upload(server, name))
        expect.true(said.startswith(b"HTTP/1.1 200"), name, said[:200])
        tokens.append(said.split(b"\r\n\r\n", 1)[-1].decode(errors="replace").strip())
    items = [{"simpleMediaItem": {"uploadToken": it, "fileName": "ch\u00e0o.png"}} for it in tokens]
    reply = server.call("POST", "/v1/mediaItems:batchCreate", {"newMediaItems": items})
    results = [it.get("mediaItem", {}) for it in reply.json.get("newMediaItemResults", [])]
    expect.same(len(results), len(tokens), "items", reply)
    for it in results:
        got = (it.get("filename"), it.get("mimeType"))
        expect.same(got, ("ch\u00e0o.png", "image/png"), "item")
    headers = {"Content_Type": "application/octet-stream"}
    reply = server.call("POST", "/v1/mediaItems:batchCreate", PNG, **headers)
    expect.same(reply.status, 400, "a picture in place of JSON")


def raw_upload(server, name):
    """An upload in one request, with bytes as a file name that libraries for HTTP refuse."""
    head = (
        f"POST /v1/uploads HTTP/1.1\r\nHost: {server.host}\r\nConnection: close\r\n"
        f"Content-Type: application/octet-stream\r\nX-Goog-Upload-Content-Type: image/png\r\n"
        f"X-Goog-Upload-Protocol: raw\r\nContent-Length: {len(PNG)}\r\nX-Goog-Upload-File-Name: "
    )
    return head.encode() + name + b"\r\n\r\n" + PNG


SNIPPETS = (
    ("title: empty", 400, {"title": ""}),
    ("title: 100 letters", 200, {"title": "x" * 100}),
    ("title: 100 cows", 200, {"title": "\U0001f404" * 100}),
    ("title: 101 letters", 400, {"title": "x" * 101}),
    ("title: <", 400, {"title": "a < b"}),
    ("description: >", 400, {"title": "t", "description": "a -> b"}),
    ("description: 5000 bytes", 200, {"title": "t", "description": "\u00e9" * 2500}),
    ("description: 5001 bytes", 400, {"title": "t", "description": "\u00e9" * 2500 + "x"}),
    ("tags: 500", 200, {"title": "t", "tags": ["x" * 500]}),
    ("tags: 501", 400, {"title": "t", "tags": ["x" * 501]}),
    ("tags: 250, 249 and a comma", 200, {"title": "t", "tags": ["x" * 250, "y" * 249]}),
    ("tags: 250, 250 and a comma", 400, {"title": "t", "tags": ["x" * 250, "y" * 250]}),
    ("tags: 498 with a blank, and quotes", 200, {"title": "t", "tags": ["a b" + "x" * 495]}),
    ("tags: 499 with a blank, and quotes", 400, {"title": "t", "tags": ["a b" + "x" * 496]}),
)


@reported(
    "FujiwaraChoki/MoneyPrinter#192", "nang-dev/automated_youtube_channel#17",
    "sam5epi0l/BotTuber#9", "ryanfox1985/OctoPrint-Youtube-Timelapse#22",
    "developers.google.com/youtube/v3/docs/videos",
)
def titles_and_tags_have_their_limits(server, expect):
    """Titles, descriptions and tags have YouTube's limits; commas and quotes of tags count."""
    path = "/upload/youtube/v3/videos?uploadType=multipart&part=snippet"
    for what, right, snippet in SNIPPETS:
        reply = multipart(server, path, {"snippet": snippet}, "video/mp4", b"\0\0\0\x18ftypmp42")
        expect.same(reply.status, right, what)
