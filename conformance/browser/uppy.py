"""Uppy with its plugin for tus, in a page of another origin, against the API `files`."""

import hashlib
import json
import os
import urllib.request

from chromium import Failed
from faults import CUT, FaultProxy
from links import call
from server import Server

MIB = 1024 * 1024
HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = """<!doctype html><title>Uppy</title><link rel="stylesheet" href="/uppy.min.css"><body>
<script src="/uppy.min.js"></script><script src="/uploads.js"></script><script src="/uppy.js"></script>"""


def uppy(report, chromium, allowed, forbidden, binary):
    packages = os.path.join(os.environ["NODE_PACKAGES"], "uppy", "dist")
    for site in allowed, forbidden:
        site.add("/uppy", "text/html", PAGE.encode())
        for folder, name, content_type in (
            (packages, "uppy.min.js", "text/javascript"), (packages, "uppy.min.css", "text/css"), (HERE, "uppy.js", "text/javascript"),
        ):
            with open(os.path.join(folder, name), "rb") as file:
                site.add(f"/{name}", content_type, file.read())
    with Server(binary, "--api", "files", cors_origins=allowed.url) as server:
        cases(report, chromium, allowed, forbidden, server)


def files(server):
    with urllib.request.urlopen(f"{server.url}/files") as reply:
        return json.load(reply).get("items", [])


def cases(report, chromium, allowed, forbidden, server):
    def check(sha256):
        """The newest file has these bytes; it is deleted, so that the next case finds none."""
        (file,) = files(server)
        address = f"{server.url}/files/{file['id']}"
        with urllib.request.urlopen(f"{address}?alt=media") as reply:
            assert hashlib.sha256(reply.read()).hexdigest() == sha256, "other bytes"
        assert (file["name"], file["mimeType"]) == ("cow.mp4", "video/mp4"), file
        urllib.request.urlopen(urllib.request.Request(address, method="DELETE"))

    def dropped():
        with chromium.tab() as tab:
            tab.open(f"{allowed.url}/uppy")
            check(tab.run(call("finished", server.url, 2 * MIB + 7))["sha256"])

    def paused():
        with chromium.tab() as tab:
            tab.open(f"{allowed.url}/uppy")
            made = tab.run(call("pausedAndResumed", server.url, 6 * MIB + 7, 2 * MIB))
            assert made["resumed"] == 1, made
            check(made["sha256"])

    def reloaded():
        """The page is opened again in the middle, and given the same file: Uppy goes on with the upload that it remembers."""
        length = 6 * MIB + 7
        with FaultProxy(server.port, CUT, times=0) as line, chromium.tab() as tab:
            tab.open(f"{allowed.url}/uppy")
            arrived = tab.run(call("paused", line.url, length, 2 * MIB))
            tab.open(f"{allowed.url}/uppy")
            made = tab.run(call("finished", line.url, length))
            starts = [request for request in line.seen if request.kind == "start"]
            offsets = [int(request.headers["upload-offset"]) for request in line.seen if request.kind == "data"]
        assert len(starts) == 1, f"{len(starts)} uploads were started"
        assert arrived >= 2 * MIB and offsets.count(0) == 1, offsets
        check(made["sha256"])

    def cut():
        with FaultProxy(server.port, CUT, times=2, skip=3) as line, chromium.tab() as tab:
            tab.open(f"{allowed.url}/uppy")
            made = tab.run(call("finished", line.url, 3 * MIB + 7))
            assert line.struck == 2, line.struck
        check(made["sha256"])

    def refused():
        with chromium.tab() as tab:
            tab.open(f"{forbidden.url}/uppy")
            try:
                said = tab.run(call("finished", server.url, 1000))
            except Failed:
                pass
            else:
                raise AssertionError(f"it was not refused: {said}")
        assert files(server) == [], "something was stored"

    report.case("Uppy: a file is dropped", dropped)
    report.case("Uppy: paused and resumed", paused)
    report.case("Uppy: a reload in the middle", reloaded)
    report.case("Uppy: the line breaks twice", cut)
    report.case("Uppy: a page of a forbidden origin", refused)
