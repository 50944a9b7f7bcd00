"""django-storages, Cloud Storage as the place of Django's files."""

import gzip
import os
import urllib.request

import django
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from storages.backends.gcloud import GoogleCloudStorage

from faults import CUT, LOST_FINAL_REPLY, LOST_REPLY, UNAVAILABLE
from flows import REFUSALS
from place import LARGE, MIB, SMALL, throws
from report import media

# Django hands files on in what they are; the library leaves multipart at 8 MiB.
SIZES = {"empty": (b"", "empty"), "small": (SMALL, "multipart"), "9 MiB": (media(9 * MIB, seed=3), "resumable"),
         "20 MiB": (LARGE, "resumable")}


def set_up(url):
    """Django with this storage as its default. The library finds the server by the variable of the emulator."""
    os.environ["STORAGE_EMULATOR_HOST"] = url
    options = {"bucket_name": "barn", "project_id": "test", "credentials": AnonymousCredentials()}
    settings.configure(USE_TZ=True, STORAGES={
        "default": {"BACKEND": "storages.backends.gcloud.GoogleCloudStorage", "OPTIONS": options},
        "chunks": {"BACKEND": "storages.backends.gcloud.GoogleCloudStorage", "OPTIONS": {**options, "blob_chunk_size": MIB}},
    })
    django.setup()
    storage.Client(project="test").create_bucket("barn")


def run(report, place):
    set_up(place.server.url)
    store = storages["default"]
    uploads(report, place, store)
    life(report, place, store)
    addresses(report, place)
    faults(report, place)
    refusals(report, place)


def own(**how):
    return GoogleCloudStorage(bucket_name="barn", project_id="test", credentials=AnonymousCredentials(), **how)


def uploads(report, place, store):
    def saved(store, data):
        name = store.save("cow.mp4", ContentFile(data))
        place.verify(f"barn/{name}", data, contentType="video/mp4")
        with store.open(name) as file:
            assert file.read() == data, "other bytes came back"

    def written(data):
        with store.open("written.txt", "wb") as file:
            for start in range(0, len(data), MIB):
                file.write(data[start:start + MIB])
        place.verify("barn/written.txt", data, contentType="text/plain")

    def compressed():
        store = own(gzip=True)
        store.save("cow.css", ContentFile(b"cow {}" * 1000))
        resource = place.resource("barn/cow.css")
        assert (resource["contentEncoding"], resource["contentType"]) == ("gzip", "text/css"), resource
        request = urllib.request.Request(f"{place.server.url}/storage/v1/b/barn/o/cow.css?alt=media")
        request.add_header("Accept-Encoding", "gzip")
        with urllib.request.urlopen(request) as reply:
            assert gzip.decompress(reply.read()) == b"cow {}" * 1000

    def described():
        store = own(object_parameters={"cache_control": "no-store", "metadata": {"herd": "north"}})
        store.save("described", ContentFile(SMALL))
        place.verify("barn/described", SMALL, cacheControl="no-store", metadata={"herd": "north"})

    def kept():
        store = own(file_overwrite=False)
        first, second = (store.save("taken.txt", ContentFile(data)) for data in (SMALL, b"moo"))
        assert first == "taken.txt" and second != first, (first, second)
        place.verify("barn/taken.txt", SMALL)
        place.verify(f"barn/{second}", b"moo")

    for size, (data, flow) in SIZES.items():
        report.case(f"save and open, {size}", lambda data=data: saved(store, data), flow)
        in_chunks = "chunks" if flow == "resumable" else flow
        report.case(f"save and open in chunks, {size}", lambda data=data: saved(storages["chunks"], data), in_chunks)
    # Of these the library does not know the length.
    report.case("written as a file, small", lambda: written(SMALL), "unknown length")
    report.case("written as a file, large", lambda: written(LARGE), "unknown length")
    report.case("compressed", compressed)
    report.case("with metadata", described)
    report.case("a name that is taken", kept)


def life(report, place, store):
    def listed():
        for name in "l/1", "l/2", "l/a/1", "l/b/1":
            store.save(name, ContentFile(b"moo"))
        folders, names = store.listdir("l")
        assert (sorted(folders), sorted(names)) == (["a", "b"], ["1", "2"]), (folders, names)

    def told_of():
        assert store.size("l/1") == 3 and store.exists("l/1") and not store.exists("l/none")
        assert store.get_created_time("l/1") == store.get_modified_time("l/1")
        assert store.exists("")

    def deleted():
        store.delete("l/1")
        assert not place.exists("barn/l/1")
        store.delete("l/1")
        throws(FileNotFoundError, lambda: store.open("l/1"))

    report.case("listdir", listed)
    report.case("size, exists, times", told_of)
    report.case("delete", deleted)


def addresses(report, place):
    def public(**how):
        store = own(querystring_auth=False, **how)
        store.save("herd/ü cow.txt", ContentFile(SMALL))
        with urllib.request.urlopen(store.url("herd/ü cow.txt")) as reply:
            assert (reply.read(), reply.headers["Content-Type"]) == (SMALL, "text/plain")

    report.case("the public URL", public)
    report.case("the URL at an endpoint of one's own", lambda: public(custom_endpoint=f"{place.server.url}/barn"))
    report.left_out("a signed URL", "it needs the key of a service account, and signatures are not checked here")


def save_at(place, url, name):
    """Saves a large file in chunks over another line."""
    os.environ["STORAGE_EMULATOR_HOST"] = url
    try:
        own(blob_chunk_size=MIB).save(name, ContentFile(LARGE))
    finally:
        os.environ["STORAGE_EMULATOR_HOST"] = place.server.url


def faults(report, place):
    def upload(fault):
        place.struck(fault, lambda url: save_at(place, url, "struck"))
        place.verify("barn/struck", LARGE)

    for fault in UNAVAILABLE, CUT, LOST_REPLY, LOST_FINAL_REPLY:
        report.case(f"save, {fault}", lambda fault=fault: upload(fault), fault)


def refusals(report, place):
    def refused(flow):
        with place.refusing(flow) as url:
            try:
                save_at(place, url, "refused")
            except GoogleAPICallError as error:
                return f"`{type(error).__name__}` {error.code}"
        raise AssertionError("not refused")

    for flow in REFUSALS:
        report.case(f"save, {flow}", lambda flow=flow: refused(flow), flow)
