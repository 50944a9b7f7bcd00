"""Cloud Storage: buckets, and lists of buckets and objects."""

import json

from rules import reported
from samples import bucket, put, unique
from wire import escaped


@reported(
    "floci-io/floci-gcp#178", "googleapis/google-cloud-python#3711",
    "googleapis/google-cloud-dotnet#1087",
)
def full_bucket_is_not_deleted(server, expect):
    """A bucket with objects is not deleted."""
    name = bucket(server)
    put(server, name, "a")
    reply = server.call("DELETE", f"/storage/v1/b/{name}")
    expect.same((reply.status, reply.refusal[0]), (409, "conflict"), "full", reply)
    expect.true("is not empty" in reply.message, "message", reply)
    expect.same(server.get(f"/storage/v1/b/{name}/o/a").status, 200, "its object")
    server.call("DELETE", f"/storage/v1/b/{name}/o/a")
    expect.same(server.call("DELETE", f"/storage/v1/b/{name}").status, 204, "empty")
    expect.same(server.get(f"/storage/v1/b/{name}/o").status, 404, "a list of what is gone")


@reported("floci-io/floci-gcp#180", "fsouza/fake-gcs-server#1477")
def labels_are_kept_merged_and_removed(server, expect):
    """Labels of a bucket are merged by PATCH, removed by null, and replaced by PUT."""
    name = unique("b")
    made = server.call("POST", "/storage/v1/b?project=p", {"name": name, "labels": {"k": "v"}})
    expect.same(made.json.get("labels"), {"k": "v"}, "at the creation")
    path = f"/storage/v1/b/{name}"
    for verb, change, right in (
        ("PATCH", {"none": None}, {"k": "v"}),
        ("PATCH", {"k": None, "a": "1", "b": "2"}, {"a": "1", "b": "2"}),
        ("PATCH", {"a": None, "c": "3"}, {"b": "2", "c": "3"}),
        ("PUT", {"z": "9"}, {"z": "9"}),
    ):
        reply = server.call(verb, path, {"labels": change})
        expect.same((reply.status, reply.json.get("labels")), (200, right), verb, change)


@reported("floci-io/floci-gcp#15")
def type_of_a_json_body_does_not_matter(server, expect):
    """A call's JSON is taken whatever its Content-Type is."""
    for content_type in ("application/json", "application/json; charset=UTF-8", "text/json", None):
        name = unique("b")
        headers = {"Content_Type": content_type} if content_type else {}
        body = json.dumps({"name": name})
        reply = server.call("POST", "/storage/v1/b?project=p", body, **headers)
        expect.same((reply.status, reply.json.get("name")), (200, name), content_type, reply)


@reported("fsouza/fake-gcs-server#206", "fsouza/fake-gcs-server#1266")
def empty_lists_of_objects_have_no_keys(server, expect):
    """A list of objects has neither items nor prefixes if there are none."""
    name = bucket(server)
    path = f"/storage/v1/b/{name}/o"
    expect.same(sorted(server.get(path).json), ["kind"], "empty bucket")
    put(server, name, "d/x")
    for delimiter, right in (("nomatch", ["items", "kind"]), ("/", ["kind", "prefixes"])):
        reply = server.get(f"{path}?delimiter={delimiter}").json
        expect.same(sorted(reply), right, "delimiter", delimiter)


@reported("google-apis-rs/google-cloud-rs#42", "google-apis-rs/google-cloud-rs#40",
    "googleapis/google-cloud-php#114")
def empty_list_of_buckets_has_no_items(server, expect):
    """A list of buckets has no items if there are none."""
    reply = server.get("/storage/v1/b?project=p&prefix=zzz-nothing").json
    expect.same(reply, {"kind": "storage#buckets"}, "buckets")


@reported(
    "fsouza/fake-gcs-server#1912", "fsouza/fake-gcs-server#1738", "fsouza/fake-gcs-server#2084",
    "googleapis/google-cloud-cpp#4615", "noobaa/noobaa-core#7232",
)
def pages_repeat_and_leave_out_nothing(server, expect):
    """maxResults counts items and prefixes, and pages repeat and leave out neither."""
    name = bucket(server)
    objects = [f"{start}{i}" for i in range(3) for start in ("a/", "b/", "c", "d/e/")]
    objects += ["a", "a/", "zz", "a!"]
    for each in objects:
        put(server, name, each)
    folders = ["a/", "b/", "d/"]
    for query, right in (
        ("", (sorted(objects), [])),
        ("&delimiter=/", (["a", "a!", "c0", "c1", "c2", "zz"], folders)),
        ("&delimiter=/&prefix=a/", (["a/", "a/0", "a/1", "a/2"], [])),
        (
            "&delimiter=/&includeTrailingDelimiter=true",
            (["a", "a!", "a/", "c0", "c1", "c2", "zz"], folders),
        ),
    ):
        for size in (1, 2, 3, 5, 8, 100):
            path = f"/storage/v1/b/{name}/o?maxResults={size}{query}"
            items, prefixes, largest = pages(server, path)
            expect.same((items, prefixes), right, query, size)
            # What is an item and a prefix at once may count once.
            most = size + ("Trailing" in query)
            expect.true(largest <= most, query, "a page of", size, "has", largest)


def pages(server, path):
    """All items and prefixes of a list, and the number of them on its largest page."""
    items, prefixes, largest, token = [], [], 0, ""
    for _ in range(100):
        page = server.get(path + (f"&pageToken={escaped(token)}" if token else "")).json
        here = [it["name"] for it in page.get("items", [])]
        largest = max(largest, len(here) + len(page.get("prefixes", [])))
        items += here
        prefixes += page.get("prefixes", [])
        token = page.get("nextPageToken")
        if not token:
            return items, prefixes, largest
    raise AssertionError("the list does not end")
