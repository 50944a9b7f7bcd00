"""A browser against a windlass server: uploads by pages of other origins, with signed links too, and media that wants to act."""

import hashlib
import http.client
import json
import os
import queue
import sys
import urllib.request

from chromium import Chromium, Failed
from faults import CUT, FaultProxy
from links import call, links
from pages import Site
from report import Report
from server import Server
from uppy import uppy

KIB, MIB = 1024, 1024 * 1024
HERE = os.path.dirname(os.path.abspath(__file__))
THINGS = "/shelf/v1/things"


def main(binary):
    report = Report()
    allowed, other, forbidden, beacon = sites = [Site() for _ in range(4)]
    shelf = ("--api", os.path.join(HERE, "shelf.toml"))
    settings = {"cors_origins": f"{allowed.url},{other.url}", "sessions_bind_origin": "true"}
    saving = Server(binary, *shelf, **settings)
    # Everything is shown, so that the sandbox has to hold alone.
    showing = Server(binary, *shelf, **settings, downloads_inline="*/*", downloads_resource_policy="cross-origin")
    chromium = Chromium()
    try:
        uploads(report, chromium, allowed, saving)
        origins(report, chromium, (allowed, other, forbidden), saving)
        links(report, chromium, (allowed, other, forbidden), binary, shelf)
        documents(report, chromium, beacon, allowed, saving, showing)
        apart(report, chromium, binary)
        embedded(report, chromium, beacon, allowed, saving, showing)
        uppy(report, chromium, allowed, forbidden, binary)
    finally:
        chromium.close()
        for server in saving, showing:
            server.remove()
        for site in sites:
            site.close()
    return report.end()


def check(server, made):
    """The server has the bytes that the page has sent."""
    with urllib.request.urlopen(f"{server.url}{THINGS}/{made['id']}?alt=media") as reply:
        assert hashlib.sha256(reply.read()).hexdigest() == made["sha256"], "other bytes"
    return made


def uploads(report, chromium, allowed, server):
    def run(function, *arguments, base=server.url):
        with chromium.tab() as tab:
            tab.open(allowed.url)
            return tab.run(call(function, base, *arguments))

    def resumed():
        # Chromium itself sends a request again whose kept connection was reset.
        with FaultProxy(server.port, CUT, times=2, skip=1) as proxy:
            made = check(server, run("resumable", 3 * MIB + 7, MIB, base=proxy.url))
            assert proxy.struck == 2 and made["resumed"] >= 1, (proxy.struck, made)
            asked = [request for request in proxy.seen if request.method == "OPTIONS"]
            assert asked, "no preflight"

    def x_goog_upload():
        made = check(server, run("xGoogUpload", MIB + 7, 256 * KIB))
        assert made["status"] == "final", made

    def downloaded():
        made = run("simple", 1000)
        part = run("download", made["id"], "bytes=10-19")
        assert (part["status"], part["length"], part["range"]) == (206, 10, "bytes 10-19/1000"), part
        assert part["etag"], part

    def error():
        assert run("error") == {"status": 404, "reason": "notFound"}

    report.case("simple", lambda: check(server, run("simple", 100 * KIB)))
    report.case("multipart, with Authorization", lambda: check(server, run("multipart", 100 * KIB)))
    report.case("resumable, in chunks", lambda: check(server, run("resumable", MIB + 7, 256 * KIB)))
    report.case("resumable, cut and resumed", resumed)
    report.case("X-Goog-Upload: start, upload, query, finalize", x_goog_upload)
    report.case("a range of media, with its Content-Range", downloaded)
    report.case("an error can be read", error)
    report.case("a session is cancelled", lambda: equal(run("cancel"), 499))


def equal(found, expected):
    assert found == expected, f"{found!r}, not {expected!r}"


def count(server):
    with urllib.request.urlopen(f"{server.url}{THINGS}?maxResults=1000") as reply:
        return len(json.load(reply).get("things", json.loads("[]")))


def origins(report, chromium, sites, server):
    allowed, other, forbidden = sites

    def refused():
        before = count(server)
        with chromium.tab() as tab:
            tab.open(forbidden.url)
            for function, *arguments in (("simple", 10), ("multipart", 10), ("resumable", 10, 256 * KIB),
                                         ("xGoogUpload", 512 * KIB, 256 * KIB), ("error",)):
                try:
                    said = tab.run(call(function, server.url, *arguments))
                except Failed as failed:
                    assert "Failed to fetch" in str(failed), failed
                else:
                    raise AssertionError(f"{function} was not refused: {said}")
        equal(count(server), before)

    def bound():
        with chromium.tab() as starter, chromium.tab() as stranger:
            starter.open(allowed.url)
            stranger.open(other.url)
            uri = starter.run(call("start", server.url, 10))
            equal(stranger.run(call("query", uri))["status"], 403)
            equal(starter.run(call("query", uri))["status"], 308)

    report.case("a page of a forbidden origin uploads and reads nothing", refused)
    report.case("a session belongs to the origin that started it", bound)


def store(server, content_type, body):
    """Uploads media as any client may; its path."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", f"/upload{THINGS}?uploadType=media", body, {"Content-Type": content_type})
    made = json.load(connection.getresponse())
    connection.close()
    return f"{server.url}{THINGS}/{made['id']}?alt=media"


def acting(beacon):
    """Documents that show that they act: name, type, bytes."""
    act = "document.title='acted'; new Image().src='%s/%s'; alert('acted')"
    html = (f"<!doctype html><title>quiet</title><img src={beacon.url}/html-image>"
            f"<iframe src={beacon.url}/html-frame></iframe><script>{act % (beacon.url, 'html')}</script>"
            f"<form action={beacon.url}/html-form></form><script>document.forms[0].submit()</script>")
    svg = ('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><title>quiet</title>'
           f"<image href='{beacon.url}/svg-image' width='9' height='9'/><script>{act % (beacon.url, 'svg')}</script></svg>")
    return [
        ("HTML", "text/html", html.encode()),
        ("SVG", "image/svg+xml", svg.encode()),
        ("XHTML", "application/xhtml+xml", html_as_xml(beacon).encode()),
        ("PDF", "application/pdf", pdf(f"app.alert('acted'); this.submitForm('{beacon.url}/pdf');")),
        # Of no type and of a wrong one: a browser must not guess.
        ("HTML without a type", "application/octet-stream", html.encode()),
        ("HTML as a picture", "image/png", html.encode()),
        ("HTML as text", "text/plain", html.encode()),
        ("a polyglot of GIF and HTML", "image/gif", b"GIF89a" + html.encode()),
    ]


def html_as_xml(beacon):
    return ('<html xmlns="http://www.w3.org/1999/xhtml"><head><title>quiet</title></head>'
            f"<body><script>document.title='acted'; new Image().src='{beacon.url}/xhtml'</script></body></html>")


def pdf(script):
    """A page whose script runs when it is opened."""
    objects = [
        "<</Type/Catalog/Pages 2 0 R/OpenAction 4 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>",
        f"<</Type/Action/S/JavaScript/JS({script.replace('(', chr(92) + '(').replace(')', chr(92) + ')')})>>",
    ]
    text, places = "%PDF-1.7\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(text))
        text += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    return f"{text}{table}trailer\n<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{len(text)}\n%%EOF\n".encode()


def watch(chromium, beacon, bystander, url):
    """Opens a document: whether it was shown, and what it did."""
    beacon.asked.clear()
    with chromium.tab() as tab:
        shown, dialogs = tab.open(url)
        dialogs += settle(tab, beacon, bystander)
        return shown, {*beacon.asked} - {"/barrier"} | {f"dialog: {text}" for text in dialogs} | (
            {"title"} if tab.title() == "acted" else set())


def settle(tab, beacon, bystander, patience=1):
    """Waits: what the document has asked for is on its way before another page is answered. Returns dialogs."""
    dialogs = []
    try:
        while True:
            event = tab.event(patience)
            if event["method"] == "Page.javascriptDialogOpening":
                dialogs.append(event["params"]["message"])
                tab.call("Page.handleJavaScriptDialog", accept=True)
    except queue.Empty:
        pass
    with tab.chromium.tab() as other:
        other.open(bystander.url)
        other.run(f"fetch('{beacon.url}/barrier').then(() => 0)")
    return dialogs


def documents(report, chromium, beacon, site, saving, showing):
    documents = acting(beacon)

    def control(name, content_type, body):
        """The same document does act where it is not held."""
        url = site.add(f"/control-{content_type.replace('/', '-')}", content_type, body)
        _, done = watch(chromium, beacon, site, url)
        assert done, f"{name} does nothing anywhere"

    def saved(content_type, body):
        shown, done = watch(chromium, beacon, site, store(saving, content_type, body))
        equal(done, set())
        assert content_type in ("image/png", "image/gif", "text/plain") or not shown, "it was shown"

    def held(content_type, body):
        shown, done = watch(chromium, beacon, site, store(showing, content_type, body))
        # The sandbox does not reach into the viewer of PDF: the script runs there, and asks no server for anything.
        equal(done - {"dialog: acted"} if content_type == "application/pdf" else done, set())
        assert shown or content_type == "application/octet-stream", "it was not shown"

    for name, content_type, body in documents[:4]:
        report.case(f"{name} from another server acts, as the suite can see", lambda: control(name, content_type, body))
    for name, content_type, body in documents:
        report.case(f"{name} that was uploaded does nothing: by default", lambda: saved(content_type, body))
        report.case(f"{name} that was uploaded does nothing: where everything is shown", lambda: held(content_type, body))


def apart(report, chromium, binary):
    """Media on a host of its own: both names lead to this machine."""
    server = Server(binary, "--api", os.path.join(HERE, "shelf.toml"), downloads_host="localhost", downloads_inline="*/*")

    def opened():
        url = store(server, "text/html", b"<!doctype html><title>quiet</title>")
        with chromium.tab() as tab:
            shown, _ = tab.open(url)
            info = chromium.call("Target.getTargetInfo", targetId=tab.target)["targetInfo"]
            assert shown and info["url"] == url.replace("127.0.0.1", "localhost"), info

    try:
        report.case("a document is opened on the host of downloads", opened)
    finally:
        server.remove()


def embedded(report, chromium, beacon, site, saving, showing):
    polyglot = f"GIF89a/*\0\0*/=1;window.acted=1;new Image().src='{beacon.url}/polyglot';".encode()
    gif = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c000000000100010000020144003b")

    def script(url):
        beacon.asked.clear()
        with chromium.tab() as tab:
            tab.open(site.url)
            said = tab.run(call("embed", "script", url))
            settle(tab, beacon, site)
            return said, tab.run("window.acted === 1") or "/polyglot" in beacon.asked

    def image(url, **attributes):
        with chromium.tab() as tab:
            tab.open(site.url)
            return tab.run(call("embed", "img", url, attributes))

    def control():
        equal(script(site.add("/polyglot.js", "text/javascript", polyglot)), ("loaded", True))

    def policies():
        here, there = store(saving, "image/gif", gif), store(showing, "image/gif", gif)
        equal(image(here), "refused")
        equal(image(there), "loaded")
        equal(image(here, crossOrigin="anonymous"), "loaded")

    report.case("a polyglot of GIF and script from another server runs as a script", control)
    for content_type in "image/gif", "application/octet-stream", "text/javascript":
        url = store(saving, content_type, polyglot)
        report.case(f"a polyglot that was uploaded as {content_type} is no script of another page", lambda: equal(script(url), ("refused", False)))
    url = store(showing, "image/gif", polyglot)
    report.case("a polyglot that was uploaded as a picture is no script where all may embed it", lambda: equal(script(url), ("refused", False)))
    report.case("a picture is embedded as resource_policy says, or by CORS", policies)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
