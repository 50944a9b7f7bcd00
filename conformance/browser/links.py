"""Signed links, made by `windlass sign`, in the hands of pages that have no credentials."""

import hashlib
import json
import os
import secrets
import subprocess
import tempfile
import urllib.request

from chromium import Failed
from server import Server

KIB = 1024
UPLOADS = "/upload/shelf/v1/things"
GIF = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c000000000100010000020144003b")


class Linked:
    """A server that demands credentials, and the key of its links."""

    def __init__(self, binary, origins, *options, **settings):
        self.binary = binary
        self.folder = tempfile.TemporaryDirectory(prefix="conformance-links-")
        self.token = secrets.token_hex(32)
        self.file = os.path.join(self.folder.name, "auth.toml")
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(f"[[tokens]]\nprincipal = 'suite'\nsha256 = '{hashlib.sha256(self.token.encode()).hexdigest()}'\n"
                       f"[[links.keys]]\nid = 'k'\nsecret = '{secrets.token_hex(32)}'\n")
        self.server = Server(binary, *options, auth_file=self.file, cors_origins=",".join(origins), **settings)

    def sign(self, path, *flags, expires="1h"):
        """A link for a path, in whose name the query may be."""
        command = [self.binary, "sign", "--json", "--key-file", self.file, "--expires", expires, *flags, self.server.url + path]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["url"]

    def ask(self, path):
        """What the bearer of the token reads."""
        request = urllib.request.Request(self.server.url + path, headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request) as reply:
            return reply.read()

    def count(self):
        return len(json.loads(self.ask("/shelf/v1/things?maxResults=1000")).get("things", []))

    def check(self, made):
        """The server has the bytes that the page has sent."""
        media = self.ask(f"/shelf/v1/things/{made['id']}?alt=media")
        assert hashlib.sha256(media).hexdigest() == made["sha256"], "other bytes"
        return made

    def close(self):
        self.server.remove()
        self.folder.cleanup()


def altered(link):
    """The same link with one other character in its signature."""
    at = len(link) - 20
    return link[:at] + ("B" if link[at] == "A" else "A") + link[at + 1:]


def call(function, *arguments):
    return f"{function}({', '.join(map(json.dumps, arguments))})"


def links(report, chromium, sites, binary, shelf):
    allowed, other, forbidden = sites
    origins = [allowed.url, other.url]
    linked = Linked(binary, origins, *shelf)
    showing = Linked(binary, origins, *shelf, downloads_inline="image/*", downloads_resource_policy="cross-origin")

    def run(function, *arguments, page=allowed):
        with chromium.tab() as tab:
            tab.open(page.url)
            return tab.run(call(function, *arguments))

    try:
        uploads(report, run, allowed, linked)
        refusals(report, run, sites, linked)
        downloads(report, run, sites, linked, showing)
    finally:
        linked.close()
        showing.close()


def uploads(report, run, allowed, linked):
    def simple():
        linked.check(run("simpleByLink", linked.sign(UPLOADS), "image/png", 100 * KIB))

    def resumable():
        made = linked.check(run("resumableByLink", linked.sign(UPLOADS), "image/png", 1024 * KIB + 7, 256 * KIB))
        assert made["chunks"] == 5, made
        assert "X-Windlass-Link" not in made["uri"], made["uri"]

    def bound():
        flags = ("--origin", allowed.url, "--type", "image/*", "--max-size", "1000B", "--once")
        linked.check(run("simpleByLink", linked.sign(UPLOADS, *flags), "image/png", 1000))
        linked.check(run("resumableByLink", linked.sign(UPLOADS, *flags), "image/png", 1000, 256 * KIB))

    report.case("a link: simple", simple)
    report.case("a link: resumable, chunks to the session URI", resumable)
    report.case("a link that is bound to the page, a type, a size and one use", bound)


def refusals(report, run, sites, linked):
    allowed, other, forbidden = sites

    def case(name, status, said, link, content_type="image/png", length=1000):
        """Both upload types are refused; the page reads why, and nothing is made."""
        def refused():
            before = linked.count()
            for function, *rest in (("simpleByLink",), ("resumableByLink", 256 * KIB)):
                found = run("refusal", function, link(), content_type, length, *rest)
                assert found["status"] == status and said in found["message"], found
            assert linked.count() == before, "something was made"

        report.case(f"a link is refused and the page reads why: {name}", refused)

    case("expired", 403, "has expired", lambda: linked.sign(UPLOADS, expires="0s"))
    case("altered", 403, "has been altered", lambda: altered(linked.sign(UPLOADS)))
    case("for pages of another origin", 403, f"may be used only by pages of {other.url}", lambda: linked.sign(UPLOADS, "--origin", other.url))
    case("for another type", 400, "the signed link allows video/*", lambda: linked.sign(UPLOADS, "--type", "video/*"))
    case("for a smaller size", 413, "the limit of 999 bytes that the signed link sets", lambda: linked.sign(UPLOADS, "--max-size", "999B"))
    case("for a download", 403, "is for GET, not for POST", lambda: linked.sign(UPLOADS, "--method", "get"))

    def used_up():
        link = linked.sign(UPLOADS, "--once")
        linked.check(run("simpleByLink", link, "image/png", 10))
        found = run("refusal", "simpleByLink", link, "image/png", 10)
        assert found["status"] == 403 and "once" in found["message"], found

    def without():
        found = run("refusal", "simpleByLink", linked.server.url + UPLOADS, "image/png", 10)
        assert found["status"] == 401, found

    def unread():
        try:
            said = run("refusal", "simpleByLink", linked.sign(UPLOADS), "image/png", 10, page=forbidden)
        except Failed as failed:
            assert "Failed to fetch" in str(failed), failed
        else:
            raise AssertionError(f"a page of a forbidden origin reads {said}")

    report.case("a link that counts once is refused the second time, and the page reads why", used_up)
    report.case("the same upload without a link is refused, and the page reads why", without)
    report.case("a page of a forbidden origin reads nothing, whatever link it has", unread)


def downloads(report, run, sites, linked, showing):
    allowed, other, _ = sites

    def picture(server):
        """A picture that a link has uploaded: its path."""
        request = urllib.request.Request(f"{server.sign(UPLOADS)}&uploadType=media", GIF, {"Content-Type": "image/gif"})
        with urllib.request.urlopen(request) as reply:
            return f"/shelf/v1/things/{json.load(reply)['id']}"

    def fetched():
        found = run("downloadByLink", linked.sign(picture(linked)))
        assert found == {"status": 200, "sha256": hashlib.sha256(GIF).hexdigest()}, found

    def embedded():
        here, there = linked.sign(picture(linked)), showing.sign(picture(showing))
        cors = {"crossOrigin": "anonymous"}
        expected = [(here, {}, "refused"), (here, cors, "loaded"), (there, {}, "loaded"), (there, cors, "loaded")]
        for link, attributes, said in expected:
            assert run("embed", "img", link, attributes) == said, (link == here, attributes, said)

    def bound():
        # A picture that is embedded without CORS is asked for without an origin.
        link = showing.sign(picture(showing), "--origin", allowed.url)
        for page, attributes, said in ((allowed, {}, "refused"), (allowed, {"crossOrigin": "anonymous"}, "loaded"),
                                       (other, {"crossOrigin": "anonymous"}, "refused")):
            assert run("embed", "img", link, attributes, page=page) == said, (page is allowed, attributes, said)

    def refused():
        path = picture(showing)
        for link, said in ((showing.sign(path, expires="0s"), "has expired"), (altered(showing.sign(path)), "has been altered"),
                           (showing.sign(path, "--origin", other.url), f"may be used only by pages of {other.url}")):
            found = run("refusal", "downloadByLink", link)
            assert found["status"] == 403 and said in found["message"], found
            assert run("embed", "img", link) == "refused", said

    report.case("a link: a download by fetch", fetched)
    report.case("a link: a picture is embedded as resource_policy says, or by CORS", embedded)
    report.case("a link that is bound to a page: its picture is embedded by CORS alone", bound)
    report.case("a link for a download is refused and the page reads why", refused)
