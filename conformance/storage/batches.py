"""Several calls in one request: client.batch()."""

from google.api_core.exceptions import GoogleAPICallError, NotFound

from store import SMALL


def run(report, store):
    def deleted():
        blobs = [store.put() for _ in range(10)]
        with store.client.batch():
            for blob in blobs:
                blob.delete()
        assert not any(blob.exists() for blob in blobs)

    def patched():
        blobs = [store.put() for _ in range(3)]
        with store.client.batch():
            for number, blob in enumerate(blobs):
                blob.metadata = {"number": str(number), "name": "Müsli"}
                blob.patch()
        for number, blob in enumerate(blobs):
            assert blob.metadata == {"number": str(number), "name": "Müsli"}, blob.metadata
            assert blob.metageneration == 2, blob.metageneration
            assert store.blob(blob.name).download_as_bytes() == SMALL

    def hundred():
        blobs = [store.put() for _ in range(100)]
        with store.client.batch():
            for blob in blobs:
                blob.delete()
        assert not blobs[0].exists() and not blobs[99].exists()

    def missing():
        kept, gone = store.put(), store.put()
        gone.delete()
        try:
            with store.client.batch():
                gone.delete()
                kept.delete()
        except NotFound:
            pass
        else:
            raise AssertionError("not refused")
        assert not kept.exists(), "the others are carried out"

    def statuses():
        blob = store.put()
        batch = store.client.batch(raise_exception=False)
        with batch:
            blob.delete(if_generation_match=7)
            blob.delete()
            blob.delete()
        assert [reply.status_code for reply in batch._responses] == [412, 204, 404], batch._responses

    def media():
        blob = store.put()
        try:
            with store.client.batch():
                store.client._connection.api_request("GET", blob.path, query_params={"alt": "media"})
        except GoogleAPICallError as error:
            assert error.code == 400 and "downloads" in str(error), error
        else:
            raise AssertionError("not refused")

    report.case("batch of deletes", deleted)
    report.case("batch of patches", patched)
    report.case("batch of a hundred calls", hundred)
    report.case("batch with a call that fails", missing)
    report.case("statuses of the calls in a batch", statuses)
    report.case("media in a batch", media)
