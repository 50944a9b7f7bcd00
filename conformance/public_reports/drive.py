"""Drive: searches, lists, and new media of a file."""

import base64
import hashlib
import json
import os

from rules import reported
from samples import file, multipart, start, unique
from wire import escaped

FOLDER = "application/vnd.google-apps.folder"
ODD_NAMES = (
    "I'm Not a Robot", "'", "back\\slash", "ends\\", "x\\' or name != '", 'say "hi"', "a/b",
    "a\uff0fb", "100% # + ? &", " spaced  out ",
)


@reported(
    "open-webui/oikb#105", "apache/opendal#8093", "rclone/rclone#2421", "rclone/rclone#3262",
    "GAM-team/GAM#749", "developers.google.com/workspace/drive/api/guides/search-files",
)
def quotes_in_a_search_are_escaped_or_refused(server, expect):
    """Quotes in q are escaped by a backslash, and an unescaped one is 400, never a wider search."""
    for odd in ODD_NAMES:
        name = odd if odd == "'" else odd + unique("")
        made = file(server, name)
        literal = name.replace("\\", "\\\\").replace("'", "\\'")
        reply = search(server, f"name = '{literal}' and trashed = false")
        found = reply.json.get("files", [])
        expect.true(made in [it["id"] for it in found], name, reply)
        expect.true(all(it["name"] == name for it in found), name, reply)
    reply = search(server, "name = 'it's'")
    expect.same((reply.status, reply.refusal[1]), (400, "q"), "unescaped")
    expect.same(search(server, "name = 'x\\'").status, 400, "a literal without an end")
    expect.true(search(server, 'name = "double"').status in (200, 400), "double quotes")


def search(server, query):
    return server.get(f"/drive/v3/files?q={escaped(query)}&fields=files(id,name)")


@reported(
    "googleapis/google-api-python-client#1471", "tidyverse/googledrive#148",
    "googleapis/google-api-php-client#468",
)
def new_media_changes_type_and_checksum(server, expect):
    """New media of a file changes its type, size and checksum, and keeps its name."""
    made = old_file(server)
    data = b"a,b\n1,2\n"
    reply = server.call("PATCH", upload_of(made, "media"), data, Content_Type="text/csv")
    digest = hashlib.md5(data).hexdigest()
    right = {
        "name": "report.txt", "mimeType": "text/csv", "size": "8", "md5Checksum": digest,
        "description": "d",
    }
    expect.same({key: reply.json.get(key) for key in right}, right, "media")
    expect.same(server.get(f"/drive/v3/files/{made}?alt=media").body, data, "bytes")
    headers = {"X_HTTP_Method_Override": "PATCH"}
    uri = start(server, upload_of(made, "resumable"), {"name": "again.bin"}, **headers)
    reply = server.call("PUT", uri, b"12345")
    got = (reply.status, reply.json.get("name"), reply.json.get("size"))
    expect.same(got, (200, "again.bin", "5"), "resumable")
    plain = f"/drive/v3/files/{made}?uploadType=media"
    reply = server.call("PATCH", plain, b"x", Content_Type="image/png")
    expect.same(reply.status, 400, "media to the plain URI")
    expect.true(b"pload" in reply.body, "media to the plain URI", reply)


@reported("googleapis/google-api-nodejs-client#778", "google/google-api-javascript-client#1404")
def base64_in_a_multipart_body_is_decoded(server, expect):
    """Media of a multipart body in base64, as gapi's snippet writes it, is decoded."""
    made, data = old_file(server), os.urandom(3000)
    text = base64.b64encode(data).decode()
    lines = "\r\n".join(text[at : at + 76] for at in range(0, len(text), 76))
    metadata = json.dumps({"name": "pic.png", "mimeType": "image/png"})
    for way, written in (("one line", text), ("lines", lines), ("unpadded", text.rstrip("="))):
        body = (
            f"\r\n--XX\r\nContent-Type: application/json\r\n\r\n{metadata}\r\n--XX\r\n"
            "Content-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\n"
            f"{written}\r\n--XX--"
        )
        headers = {"Content_Type": 'multipart/related; boundary="XX"'}
        reply = server.call("PATCH", upload_of(made, "multipart"), body, **headers)
        got = (reply.status, *(reply.json.get(key) for key in ("name", "mimeType", "size")))
        expect.same(got, (200, "pic.png", "image/png", "3000"), way, reply)
        media = server.get(f"/drive/v3/files/{made}?alt=media").body
        expect.true(media == data, way, "other bytes")


def old_file(server):
    path = "/upload/drive/v3/files?uploadType=multipart&fields=id"
    metadata = {"name": "report.txt", "description": "d"}
    return multipart(server, path, metadata, "text/plain", b"old").json["id"]


def upload_of(file_id, upload_type):
    fields = "name,mimeType,size,md5Checksum,description"
    return f"/upload/drive/v3/files/{file_id}?uploadType={upload_type}&fields={fields}"


SORTED = (
    ("orderBy=name", "abc"),
    ("orderBy=name%20asc", "abc"),
    ("orderBy=name%20desc", "cba"),
    ("orderBy=name%20desc,createdTime", "cba"),
    # The first of two equal parameters counts.
    ("orderBy=name&orderBy=name%20desc", "abc"),
    ("orderBy=name&pageSize=1&pageSize=3", "a"),
)
SORT_KEYS = (
    "viewedByMeTime", "modifiedByMeTime", "recency", "folder", "quotaBytesUsed", "starred",
    "sharedWithMeTime", "name_natural", "createdTime", "modifiedTime",
)


@reported(
    "brekkylab/backlot#337", "brekkylab/backlot#341", "brekkylab/backlot#306",
    "brekkylab/backlot#23",
)
def parameters_of_lists_are_used_or_refused(server, expect):
    """Parameters of files.list are used, and what cannot be used is 400."""
    folder = file(server, "p", mimeType=FOLDER)
    for name in "bca":
        file(server, name, parents=[folder])
    inside = escaped(f"'{folder}' in parents")
    path = f"/drive/v3/files?q={inside}&fields=files(name)&"
    for bad in ("pageSize=NOPE", "pageSize=", "orderBy=nonsense", "pageToken=nonsense"):
        expect.same(server.get(path + bad).status, 400, bad)
    expect.same(server.get(path + "pageToken=nonsense").refusal, ("invalid", "pageToken"), "where")
    for query, right in SORTED:
        names = "".join(it["name"] for it in server.get(path + query).json.get("files", []))
        expect.same(names, right, query)
    for key in SORT_KEYS:
        expect.same(server.get(f"{path}orderBy={key}").status, 200, key)
    for mask in ("files(name),", "files(name),,kind", "files(name", "files(name))"):
        expect.same(server.get(f"/drive/v3/files?fields={mask}").status, 400, mask)


@reported(
    "developers.google.com/workspace/drive/api/guides/appdata",
    "developers.google.com/workspace/drive/api/reference/rest/v3/files/list",
)
def other_spaces_and_drives_are_not_the_users(server, expect):
    """A list of appDataFolder or of an unknown drive has no file of the user's Drive."""
    made = file(server, "my-own-document")
    whole = "fields=files(id)&pageSize=1000"
    for query in (
        "spaces=appDataFolder",
        "spaces=appDataFolder&q=trashed%20%3D%20false",
        "corpora=drive&driveId=0ANonesuch&includeItemsFromAllDrives=true&supportsAllDrives=true",
    ):
        reply = server.get(f"/drive/v3/files?{query}&{whole}")
        # What a clean-up deletes is what such a list shows. A server may not know the space.
        found = made in [it["id"] for it in reply.json.get("files", [])]
        refused = reply.status in (400, 404, 501)
        expect.true(refused or reply.status == 200 and not found, query, reply)
    found = server.get(f"/drive/v3/files?spaces=drive&{whole}").json.get("files", [])
    expect.true(made in [it["id"] for it in found], "spaces=drive")
