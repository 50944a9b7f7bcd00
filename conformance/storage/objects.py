"""Objects that are there: listed, changed, copied, deleted."""

from report import check, media
from store import LARGE, SMALL, refused


def run(report, store):
    bucket = store.bucket

    def listed():
        names = ["l/1", "l/2", "l/a/1", "l/a/2", "l/b/1", "l0"]
        for name in names:
            store.put(b"moo", name)
        def found(**how):
            blobs = bucket.list_blobs(**how)
            return [blob.name for blob in blobs], sorted(blobs.prefixes)
        assert found(prefix="l") == (names, [])
        assert found(prefix="l", page_size=1) == (names, [])
        assert found(prefix="l/", delimiter="/") == (["l/1", "l/2"], ["l/a/", "l/b/"])
        assert found(prefix="l/", delimiter="/", page_size=1) == (["l/1", "l/2"], ["l/a/", "l/b/"])
        assert found(prefix="l", start_offset="l/2", end_offset="l/b") == (["l/2", "l/a/1", "l/a/2"], [])
        assert found(prefix="l", max_results=2) == (names[:2], [])
        assert found(prefix="l", versions=True) == (names, [])
        assert found(prefix="l/", delimiter="/", fields="items(name),prefixes,nextPageToken") == (
            ["l/1", "l/2"], ["l/a/", "l/b/"])

    def patched():
        blob = store.put()
        blob.metadata, blob.content_type = {"herd": "north"}, "video/mp4"
        blob.patch()
        resource = store.verify(blob, SMALL, contentType="video/mp4", metadata={"herd": "north"})
        assert resource["metageneration"] == "2", resource["metageneration"]
        blob.metadata = {"herd": None, "stall": "1"}
        blob.patch()
        store.verify(blob, SMALL, metadata={"stall": "1"})
        refused(412, lambda: blob.patch(if_metageneration_match=1))

    def updated():
        blob = store.put()
        blob.cache_control = "no-store"
        blob.update()
        store.verify(blob, SMALL, cacheControl="no-store")

    def reloaded():
        blob = store.put()
        other = store.blob(blob.name)
        other.reload()
        assert other.size == len(SMALL) and other.generation == blob.generation
        store.put(LARGE, blob.name)
        # It asks for the generation that it knows, of which nothing is left.
        refused(404, other.reload)
        other = store.blob(blob.name)
        other.reload()
        assert other.size == len(LARGE)
        refused(412, lambda: other.reload(if_generation_match=blob.generation))

    def deleted():
        blob = store.put()
        assert blob.exists()
        refused(412, lambda: blob.delete(if_generation_match=7))
        blob.delete(if_generation_match=blob.generation)
        assert not blob.exists()
        refused(404, blob.delete)

    def several_deleted():
        blobs, missing = [store.put() for _ in range(3)], []
        bucket.delete_blobs([*blobs, store.blob("none")], on_error=missing.append)
        assert [blob.name for blob in missing] == ["none"]
        assert not any(blob.exists() for blob in blobs)

    def copied():
        blob = store.put(LARGE)
        copy = bucket.copy_blob(blob, bucket, store.name())
        blob.delete()
        store.verify(copy, LARGE)

    def copied_elsewhere():
        other = store.client.create_bucket("stall-for-copies")
        blob = store.put(LARGE)
        copy = bucket.copy_blob(blob, other, "a/b c")
        assert copy.download_as_bytes() == LARGE
        refused(412, lambda: bucket.copy_blob(blob, other, "a/b c", if_generation_match=0))
        refused(404, lambda: bucket.copy_blob(store.blob("none"), other, "x"))

    def renamed():
        blob = store.put(LARGE)
        renamed = bucket.rename_blob(blob, store.name())
        assert not blob.exists()
        store.verify(renamed, LARGE)

    def moved():
        blob = store.put(LARGE)
        moved = bucket.move_blob(blob, store.name())
        assert not blob.exists()
        store.verify(moved, LARGE)

    def rewritten():
        blob, target = store.put(LARGE), store.blob()
        token, done, total = target.rewrite(blob)
        assert (token, done, total) == (None, len(LARGE), len(LARGE)), (token, done, total)
        store.verify(target, LARGE)

    def other_class():
        blob = store.put(LARGE)
        blob.update_storage_class("ARCHIVE")
        store.verify(blob, LARGE, storageClass="ARCHIVE")

    def composed():
        parts = [store.put(data) for data in (LARGE, SMALL, b"", LARGE)]
        herd = store.blob()
        herd.content_type = "video/mp4"
        herd.compose(parts)
        whole = LARGE + SMALL + LARGE
        assert herd.component_count == len(parts) and herd.md5_hash is None, herd._properties
        check(bucket.get_blob(herd.name)._properties, whole, contentType="video/mp4", componentCount=len(parts))
        # The library compares the checksum.
        assert herd.download_as_bytes() == whole, "other bytes came back"
        for part, data in zip(parts, (LARGE, SMALL, b"", LARGE)):
            store.verify(part, data)

    def composed_of_one():
        blob, copy = store.put(LARGE), store.blob()
        copy.compose([blob])
        blob.delete()
        assert copy.download_as_bytes() == LARGE and copy.component_count == 1

    def appended():
        log, whole = store.put(SMALL), SMALL
        for n in range(2, 6):
            line = store.put(b"moo %d" % n)
            # What the library has read of the old object goes with the call.
            log.compose([log, line], if_generation_match=log.generation)
            whole += b"moo %d" % n
            assert log.component_count == n and log.size == len(whole), log._properties
            assert log.download_as_bytes() == whole, "other bytes came back"

    def composed_on_conditions():
        one, two, herd = store.put(LARGE), store.put(SMALL), store.blob()
        herd.compose([one, two], if_generation_match=0)
        refused(412, lambda: herd.compose([one, two], if_generation_match=0))
        refused(412, lambda: herd.compose([one, two], if_source_generation_match=[one.generation, 7]))
        herd.compose([one, two], if_source_generation_match=[one.generation, two.generation])
        refused(404, lambda: herd.compose([one, store.blob("none")]))
        refused(400, lambda: herd.compose([two] * 33))
        assert herd.download_as_bytes() == LARGE + SMALL

    def composed_of_many():
        parts = [store.put(media(1000 + n, seed=n)) for n in range(32)]
        halves = [store.blob(), store.blob()]
        for half, sources in zip(halves, (parts[:16], parts[16:])):
            half.compose(sources)
        herd = store.blob()
        herd.compose(halves)
        assert herd.component_count == 32, herd.component_count
        assert herd.download_as_bytes() == b"".join(media(1000 + n, seed=n) for n in range(32))

    def access_control():
        blob = store.put()
        blob.acl.user("ann@example.com").grant_owner()
        blob.acl.save()
        blob.make_public()
        again = bucket.blob(blob.name)
        again.acl.reload()
        roles = {(entry["entity"], entry["role"]) for entry in again.acl}
        assert {("user-ann@example.com", "OWNER"), ("allUsers", "READER")} <= roles, roles
        again.acl.save_predefined("private")
        again.acl.reload()
        assert [entry["entity"] for entry in again.acl] == ["project-owners-0"], list(again.acl)
        again.upload_from_string(b"moo", predefined_acl="authenticatedRead")
        again.acl.reload()
        assert again.acl.all_authenticated().get_roles() == {"READER"}, list(again.acl)

    def not_served():
        blob = store.put()
        for call in bucket.get_iam_policy, blob.get_iam_policy, lambda: list(bucket.list_notifications()):
            refused(501, call)

    report.case("objects are listed", listed)
    report.case("metadata is patched", patched)
    report.case("metadata is updated", updated)
    report.case("an object is read again", reloaded)
    report.case("an object is deleted", deleted)
    report.case("several are deleted", several_deleted)
    report.case("an object is copied", copied)
    report.case("an object is copied to another bucket", copied_elsewhere)
    report.case("an object is renamed", renamed)
    report.case("an object is moved", moved)
    report.case("an object is rewritten", rewritten)
    report.case("an object gets another storage class", other_class)
    report.case("objects are composed", composed)
    report.case("an object is composed of one", composed_of_one)
    report.case("composing appends to an object", appended)
    report.case("objects are composed on conditions", composed_on_conditions)
    report.case("composite objects are composed", composed_of_many)
    report.case("what has no meaning here is not implemented", not_served)
    report.case("access control lists are read and changed", access_control)
    report.left_out("policies", "whoever reaches the server may do everything")
