"""Buckets."""

from store import refused


def run(report, store):
    client = store.client

    def made():
        bucket = client.bucket("stall-made")
        bucket.labels, bucket.storage_class = {"herd": "north"}, "NEARLINE"
        bucket.create(location="EU")
        found = client.get_bucket("stall-made")
        assert (found.labels, found.storage_class, found.location) == ({"herd": "north"}, "NEARLINE", "EU")
        assert found.time_created is not None and found.metageneration == 1

    def patched():
        bucket = client.create_bucket("stall-patched")
        bucket.labels = {"herd": "south"}
        bucket.patch()
        found = client.get_bucket("stall-patched")
        assert (found.labels, found.metageneration) == ({"herd": "south"}, 2), found._properties
        refused(412, lambda: bucket.patch(if_metageneration_match=1))

    def listed():
        names = [f"herd-{n}" for n in range(5)]
        for name in names:
            client.create_bucket(name)
        assert [bucket.name for bucket in client.list_buckets(prefix="herd-", page_size=2)] == names

    def deleted():
        bucket = client.create_bucket("stall-deleted")
        bucket.blob("cow").upload_from_string("moo")
        refused(409, bucket.delete)
        bucket.delete(force=True)
        assert client.lookup_bucket("stall-deleted") is None
        assert not bucket.exists()

    report.case("a bucket is made", made)
    report.case("a bucket is patched", patched)
    report.case("buckets are listed in pages", listed)
    report.case("a bucket is deleted when it is empty", deleted)
    report.case("a bucket is made once", lambda: refused(409, lambda: client.create_bucket("barn")))
    report.case("a name that breaks the rules", lambda: refused(400, lambda: client.create_bucket("Barn")))
    report.case("no bucket", lambda: refused(404, lambda: client.get_bucket("none")))
    report.case("an upload to no bucket",
                lambda: refused(404, lambda: client.bucket("none").blob("cow").upload_from_string("moo")))
