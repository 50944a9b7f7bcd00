"""Calls of all APIs: packed JSON, a long GET as a POST, selected fields, expectations."""

import base64
import gzip
import json
import urllib.parse

from rules import reported
from samples import CHUNK, bucket, file, mail, put, start_object, unique, user

FORM = "application/x-www-form-urlencoded"


@reported("googleapis/google-api-dotnet-client#804")
def json_of_a_call_may_be_packed(server, expect):
    """The JSON of any call may have Content-Encoding: gzip."""
    def packed(method, path, body, **headers):
        headers |= {"Content_Encoding": "gzip", "Content_Type": "application/json; charset=utf-8"}
        return server.call(method, path, gzip.compress(json.dumps(body).encode()), **headers)

    name = unique("b")
    reply = packed("POST", "/storage/v1/b?project=p", {"name": name})
    expect.same((reply.status, reply.json.get("name")), (200, name), "buckets.insert", reply)
    put(server, name, "a")
    reply = packed("PATCH", f"/storage/v1/b/{name}/o/a", {"metadata": {"k": "v"}})
    got = (reply.status, reply.json.get("metadata"))
    expect.same(got, (200, {"k": "v"}), "objects.patch", reply)
    reply = packed("POST", "/drive/v3/files?fields=name", {"name": "n"})
    expect.same((reply.status, reply.json.get("name")), (200, "n"), "files.create", reply)
    raw = b"To: bob@windlass.localhost\r\nSubject: packed\r\n\r\nhello\r\n"
    message = {"raw": base64.urlsafe_b64encode(raw).decode()}
    reply = packed("POST", "/gmail/v1/users/me/messages/send", message)
    expect.same(reply.status, 200, "messages.send", reply)
    path = f"/upload/storage/v1/b/{name}/o?uploadType=resumable"
    reply = packed("POST", path, {"name": "s"}, X_Upload_Content_Type="text/plain")
    expect.same(reply.status, 200, "start of a session", reply)
    reply = server.call("PUT", reply["location"] or "/", b"media")
    expect.same((reply.status, reply.json.get("name")), (200, "s"), "end of the session")


@reported(
    "tus/tus-resumable-upload-protocol#152", "tus/tus-resumable-upload-protocol#151",
    "RFC 9110, 10.1.1",
)
def refusal_comes_in_place_of_100(server, expect):
    """Expect: 100-continue is answered 100 before the body, or by the refusal."""
    name = bucket(server)
    uri = urllib.parse.urlsplit(start_object(server, name, "a"))
    session = f"{uri.path}?{uri.query}"
    media = "Content-Type: text/plain\r\n"
    upload = f"/upload/storage/v1/b/{name}/o?uploadType=media&name=zz"
    length = 600_000
    for what, target, extra, right in (
        ("PUT", session, "", 100),
        ("PUT", session[:-3] + "abc", "", 404),
        ("PUT", session, f"Content-Range: bytes {CHUNK}-{CHUNK + length - 1}/*\r\n", 503),
        ("POST", "/upload/storage/v1/b/nobucket-there/o?uploadType=media&name=x", media, 404),
        ("POST", f"{upload}&ifGenerationMatch=5", media, 412),
        ("POST", "/upload/nowhere/v1/x?uploadType=media", media, 404),
    ):
        head = f"{what} {target} HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: {length}\r\n"
        said = server.head_of(f"{head}Expect: 100-continue\r\n{extra}\r\n".encode())
        expect.true(said.startswith(f"HTTP/1.1 {right}".encode()), what, target, extra, said[:100])


@reported(
    "googleapis/google-api-java-client#667", "googleapis/google-api-java-client#837",
    "googleapis/google-api-dotnet-client#146",
    "MAX_URI_LENGTH in googleapiclient/http.py of google-api-python-client",
)
def long_get_as_post_has_its_query_in_the_body(server, expect):
    """A GET that is sent as POST takes its parameters from the form in its body."""
    def as_post(path, form, content_type=FORM):
        headers = {"X_HTTP_Method_Override": "GET", "Content_Type": content_type}
        return server.call("POST", path, form, **headers)

    file(server, "needle-7")
    for number in range(3):
        file(server, f"hay-{number}")
    query = " or ".join(f"name = 'needle-{number}'" for number in range(150))
    form = urllib.parse.urlencode({"q": query, "fields": "files(name)", "alt": "json"})
    reply = as_post("/drive/v3/files", form)
    found = {it["name"] for it in reply.json.get("files", [])}
    expect.same((reply.status, sorted(reply.json), found), (200, ["files"], {"needle-7"}), "drive")

    name = bucket(server)
    put(server, name, "a/1")
    put(server, name, "b/2")
    base = f"/storage/v1/b/{name}/o"
    reply = as_post(base, "prefix=b%2F&fields=items(name)", f"{FORM}; charset=UTF-8")
    expect.same((reply.status, reply.json), (200, {"items": [{"name": "b/2"}]}), "storage, list")
    reply = as_post(f"{base}/a%2F1", "alt=media")
    expect.same((reply.status, reply.body), (200, b"x"), "storage, media")

    owner = user()
    mail(server, owner, "From: a@example.com\nSubject: one\n\nx\n")
    two = mail(server, owner, "From: a@example.com\nSubject: two\n\nx\n")["id"]
    reply = as_post(f"/gmail/v1/users/{owner}/messages", "q=subject%3Atwo")
    found = [it["id"] for it in reply.json.get("messages", [])]
    expect.same((reply.status, found), (200, [two]), "gmail")


@reported(
    "fsouza/fake-gcs-server#267", "googleapis/google-cloud-go#1763",
    "googleapis/google-cloud-java#932", "googleapis/google-api-dotnet-client#1444",
    "google/google-api-objectivec-client#202",
    "developers.google.com/workspace/drive/api/guides/fields-parameter",
)
def selected_fields_are_exactly_those(server, expect):
    """fields selects exactly what it names, and a name that the reply cannot have is 400."""
    name = bucket(server)
    for each in ("a/1", "b", "c"):
        put(server, name, each)
    path = f"/storage/v1/b/{name}/o?delimiter=/&maxResults=2&fields="
    for mask, right in (
        ("prefixes", {"prefixes": ["a/"]}),
        ("items(name)", {"items": [{"name": "b"}]}),
        ("items/name", {"items": [{"name": "b"}]}),
    ):
        expect.same(server.get(path + mask).json, right, mask)
    three = server.get(path + "nextPageToken,prefixes,items(name,size)").json
    expect.same(sorted(three), ["items", "nextPageToken", "prefixes"], "three")
    some = server.get(path + "kind,items/*").json
    expect.same(some.get("items", [{}])[0].get("name"), "b", "items/*")
    for bad in ("FOOBARR", "pageToken,items(name)", "items(name,nosuch)", "items/nosuch"):
        expect.same(server.get(path + bad).status, 400, "storage", bad)
    for bad in ("items(id,name)", "files(id,capabilities,canAddChildren)", "nextpagetoken"):
        expect.same(server.get("/drive/v3/files?fields=" + bad).status, 400, "drive", bad)
