"""google-api-python-client, unmodified, against Drive v3 and YouTube v3.

    suite.py BINARY

Once with the published discovery documents, and once with the descriptions that come with windlass, of which the
library builds itself.
"""

import json
import pathlib
import sys

import googleapiclient
from google.auth.credentials import AnonymousCredentials
from googleapiclient.discovery import build, build_from_document

import files
import videos
from library import same
from report import Report
from server import Server

DOCUMENTS = pathlib.Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
APIS = {"drive": ("v3", files.cases), "youtube": ("v3", videos.cases)}


class Named:
    """A report whose cases say which description they are about."""

    def __init__(self, report, name):
        self.report, self.name = report, name

    def case(self, name, function, *of):
        self.report.case(f"{self.name}: {name}", function, *of)


def published(report, binary):
    documents = {name: DOCUMENTS / f"{name}.{version}.json" for name, (version, _) in APIS.items()}
    options = [option for path in documents.values() for option in ("--api", str(path))]

    def client(name, url):
        document = json.loads(documents[name].read_text(encoding="utf-8"))
        document["rootUrl"] = url + "/"
        return build_from_document(document, credentials=AnonymousCredentials())

    over(Named(report, "published"), binary, options, client)


def built_in(report, binary):
    def client(name, url):
        return build(name, APIS[name][0], discoveryServiceUrl=url + "/discovery/v1/apis/{api}/{apiVersion}/rest",
                     credentials=AnonymousCredentials())

    options = [option for name in APIS for option in ("--api", name)]
    over(Named(report, "built in"), binary, options, client)


def over(report, binary, options, client):
    server = Server(binary, *options)
    try:
        for name, (_, cases) in APIS.items():
            cases(report, server, client(name, server.url))
        stopped = server.stop()
        report.case("the server drains and exits with 0", lambda: same(stopped, 0))
    finally:
        server.remove()


def main():
    report = Report()
    published(report, sys.argv[1])
    built_in(report, sys.argv[1])
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
