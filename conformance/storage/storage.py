"""google-cloud-storage and gsutil, unmodified, against Cloud Storage: by our own description and by the published one.

    storage.py BINARY
"""

import importlib.resources
import pathlib
import sys
import tempfile

import batches
import broken
import buckets
import downloads
import limits
import objects
import packed
import uploads
import with_gsutil
from report import Report
from server import Server
from store import Store


def published():
    """The discovery document that comes with Google's generic library."""
    documents = importlib.resources.files("googleapiclient.discovery_cache.documents")
    return str(documents / "storage.v1.json")


def against(report, binary, title, api):
    server = Server(binary, "--api", api)
    try:
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            print(title)
            store = Store(server, pathlib.Path(folder))
            for cases in buckets, uploads, downloads, packed, objects, batches, broken, limits:
                cases.run(report, store)
        report.case("the server ends when it is asked to", lambda: stopped(server))
    finally:
        server.remove()


def stopped(server):
    code = server.stop()
    assert code == 0, f"exit code {code}"


def main():
    binary, report = sys.argv[1], Report()
    against(report, binary, "our own description", "storage")
    against(report, binary, "the published document", published())
    with_gsutil.run(report, binary)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
