"""Cloud Storage: names of objects that have to be escaped."""

import urllib.parse

from rules import reported
from samples import bucket, multipart, put, start, start_object
from wire import escaped


@reported("floci-io/floci-gcp#93")
def names_are_decoded_once(server, expect):
    """%2F, %20, %25 and %2B in a name stay what they are."""
    of = bucket(server)
    names = ["literal%2Fslash", "a%20b", "a%25b", "a%2Bb", "literal/slash", "%", "%zz", "100%"]
    for name in names:
        made = put(server, of, name, name.encode())
        expect.same(made.get("name"), name, "insert")
        got = server.get(f"/storage/v1/b/{of}/o/{escaped(name)}").json.get("name")
        expect.same(got, name, "get")
        expect.same(server.get(made.get("selfLink", "/")).json.get("name"), name, "selfLink")
        expect.same(server.get(made.get("mediaLink", "/")).body, name.encode(), "mediaLink", name)
        got = server.get(f"/{of}/{urllib.parse.quote(name)}").body
        expect.same(got, name.encode(), "XML", name)
    expect.same(listed(server, of), sorted(names), "list")


ODD_NAMES = (
    "file with space and #hash%percent+plus.txt", "a?b=c&d;e", "quo\"te's", "back\\slash",
    "tab\there", "[1]*{2}|~`^<>", "a+b", "a b", "@:$,!()", "\u00e9\u4e2d\U0001f404",
)


@reported(
    "DataBiosphere/jade-data-repo#697", "fsspec/gcsfs#270", "fsspec/gcsfs#447",
    "fsouza/fake-gcs-server#861",
)
def odd_names_work_every_way(server, expect):
    """Names with #, +, ?, &, quotes and blanks are uploaded, read, copied and deleted every way."""
    of = bucket(server)
    base = f"/storage/v1/b/{of}/o"
    for name in ODD_NAMES:
        data = name.encode() + b"!"
        for way, made in uploaded_every_way(server, of, name, data):
            expect.same(made.json.get("name"), name, way)
        resource = server.get(f"{base}/{escaped(name)}").json
        expect.same(server.get(resource.get("selfLink", "/")).json.get("name"), name, "selfLink")
        for way, path in (
            ("mediaLink", resource.get("mediaLink", "/")),
            ("download", f"/download{base}/{escaped(name)}?alt=media"),
            ("XML", f"/{of}/{urllib.parse.quote(name)}"),
        ):
            expect.same(server.get(path).body, data, way, name)
        to = f"b/{of}/o/{escaped('copy ' + name)}"
        copy = server.call("POST", f"{base}/{escaped(name)}/copyTo/{to}")
        expect.same(copy.json.get("name"), f"copy {name}", "copy")
    # A plus is a plus in a path, and a blank in a query.
    expect.same(server.get(f"{base}/a+b?alt=media").body, b"a+b!", "a plus in a path")
    first = server.get(f"{base}?prefix=a+b").json["items"][0]
    expect.same(first["name"], "a b", "a plus in a query")
    copies = [f"copy {name}" for name in ODD_NAMES]
    expect.same(sorted(listed(server, of)), sorted([*ODD_NAMES, *copies]), "list")
    for name in ODD_NAMES:
        expect.same(server.call("DELETE", f"{base}/{escaped(name)}").status, 204, "delete", name)


def uploaded_every_way(server, of, name, data):
    upload = f"/upload/storage/v1/b/{of}/o?uploadType="
    yield "multipart", multipart(server, upload + "multipart", {"name": name}, "text/plain", data)
    query = f"media&name={escaped(name)}"
    yield "media", server.call("POST", upload + query, data, Content_Type="text/plain")
    uri = start(server, upload + "resumable", {"name": name})
    yield "by metadata", server.call("PUT", uri, data)
    yield "by the query", server.call("PUT", start_object(server, of, name), data)


def listed(server, of):
    return [item["name"] for item in server.get(f"/storage/v1/b/{of}/o").json.get("items", [])]


@reported(
    "fsouza/fake-gcs-server#1014", "scylladb/scylladb#28398", "google-apis-rs/google-cloud-rs#32",
)
def bare_slashes_find_no_object(server, expect):
    """A name's slashes have to be escaped in the JSON API, so that tests find what does not."""
    of = bucket(server)
    put(server, of, "pets/dog.png")
    base = f"/storage/v1/b/{of}/o"
    bare = f"{base}/pets/dog.png"
    for verb, path in (
        ("GET", bare), ("GET", f"/download{bare}?alt=media"), ("GET", f"{bare}?alt=media"),
        ("DELETE", bare),
    ):
        expect.same(server.call(verb, path).status, 404, verb, path)
    expect.same(server.get(f"{base}/pets%2fdog.png").status, 200, "small hexadecimal digits")
