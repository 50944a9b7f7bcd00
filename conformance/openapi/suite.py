"""The server's OpenAPI documents, unmodified tools that read them, and the clients that these make, against the server.

    suite.py BINARY
"""

import base64
import importlib
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request

from openapi_spec_validator import OpenAPIV31SpecValidator

from report import Report, media, write
from server import Server

HERE = os.path.dirname(os.path.abspath(__file__))
ALBUM = os.path.join(HERE, "..", "..", "examples", "album", "album.toml")
KIB = 1024


class Quiet(Server):
    """A server whose log says nothing here: its events find no service."""

    log = subprocess.DEVNULL


def description(folder):
    """The example, whose service has a port where nothing listens: no case needs it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with open(ALBUM, encoding="utf-8") as file:
        text = file.read()
    path = os.path.join(folder, "album.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(":9000/", f":{port}/"))
    return path


def key(folder):
    path = os.path.join(folder, "backends.key")
    with open(path, "w", encoding="ascii") as file:
        file.write(base64.b64encode(secrets.token_bytes(32)).decode())
    return path


def built_in(binary):
    """The names of all built-in APIs, as the command says them of one that is not there."""
    said = subprocess.run([binary, "api", "show", "none"], capture_output=True, text=True, check=False).stderr
    return re.search(r"\(there is ([^)]*)\)", said)[1].split(", ")


def fetch(url):
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


def run(*command, **options):
    """Runs a command; what it says is the reason why it failed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}"
    return done.stdout


def documents(report, server):
    """Every document that the page at `/` links."""
    apis = fetch(server.url)["apis"]
    for api in apis:
        def valid(url=api["openapiUrl"]):
            document = fetch(url)
            OpenAPIV31SpecValidator(document).validate()
            assert document["servers"] == [{"url": server.url}], document["servers"]

        report.case(f"the document of {api['name']} {api['version']} is valid", valid)
    return next(api["openapiUrl"] for api in apis if api["name"] == "album")


def typescript(report, server, url, folder, data):
    """openapi-typescript and openapi-fetch, in the strict mode of the compiler."""
    packages = os.environ["NODE_PACKAGES"]
    # Where the packages are found from.
    os.symlink(packages, os.path.join(folder, "node_modules"))
    for name in ("generate.mjs", "photos.ts"):
        shutil.copy(os.path.join(HERE, name), folder)
    with open(os.path.join(folder, "package.json"), "w", encoding="utf-8") as file:
        file.write('{"type": "module"}')

    def compiled():
        run("node", "generate.mjs", url, "album.d.ts", cwd=folder)
        strict = ["--strict", "--noUncheckedIndexedAccess", "--module", "nodenext", "--target", "es2022"]
        run("node", os.path.join(packages, "typescript", "bin", "tsc"), *strict, "--types", "node", "photos.ts", cwd=folder)

    photo = write(folder, data)
    node = os.environ["NODE"]
    version = run(node, "--version").strip()
    report.case("openapi-typescript: the types are generated, and allow and refuse what they should", compiled)
    for flow, name in [
        ("multipart", "metadata and media in one request, and the media back"),
        ("simple", "media alone"),
        ("resumable", "a session in chunks, asked after each"),
        ("list", "a filtered list in an order, page by page"),
        ("changes", "a patch, comments, a deletion, and an error"),
    ]:
        report.case(f"openapi-fetch, Node {version}: {name}", lambda flow=flow: run(node, "photos.js", server.url, flow, photo, cwd=folder))


def python(report, server, url, folder, data):
    """openapi-python-client."""
    made = {}

    def generated():
        program = os.path.join(os.path.dirname(sys.executable), "openapi-python-client")
        package = os.path.join(folder, "album")
        said = run(program, "generate", "--url", url, "--meta", "none", "--output-path", package, "--config", os.path.join(HERE, "generator.yml"))
        # Of bodies that are written by hand it says that it does not make them, and of 499 that Python does not know it.
        warnings = re.findall(r"(?m)^Unsupported.*|^Invalid.*|^Cannot.*|^ERROR.*", said)
        unexpected = [it for it in warnings if "multipart/related" not in it and "499" not in it]
        assert not unexpected, unexpected
        sys.path[:0] = [folder, HERE]
        made["photos"] = importlib.import_module("photos").Photos(server.url)

    def uploads(how):
        photos = made["photos"]
        photo = getattr(photos, how)(data, album=photos.album(), title="A cow")
        assert (photo.title, int(photo.size)) == ("A cow", len(data)), photo
        assert photos.read(photo.id) == data

    def lists():
        photos = made["photos"]
        album = photos.album()
        for rating in (2, 5, 1, 3):
            photos.multipart(data, album=album, rating=rating)
        assert photos.ratings(album, 2) == [5, 3, 2]

    def changes():
        photos = made["photos"]
        photo = photos.multipart(data, album=photos.album())
        assert photos.rate(photo.id, 3).rating == 3
        assert not photos.rate(photo.id, None).rating
        assert photos.reason("none") == "notFound"

    report.case("openapi-python-client: the client is generated", generated)
    report.case("openapi-python-client: metadata and media in one request, and the media back", lambda: uploads("multipart"))
    report.case("openapi-python-client: a session in chunks, asked after each", lambda: uploads("resumable"))
    report.case("openapi-python-client: a filtered list in an order, page by page", lists)
    report.case("openapi-python-client: a patch, and an error", changes)


def main():
    report = Report()
    binary = os.path.abspath(sys.argv[1])
    data = media(600 * KIB)
    with tempfile.TemporaryDirectory(prefix="conformance-openapi-", dir=os.path.dirname(binary)) as folder:
        apis = [word for name in built_in(binary) for word in ("--api", name)]
        with Quiet(binary, *apis, "--api", description(folder), backends_secret_file=key(folder)) as server:
            url = documents(report, server)
            typescript(report, server, url, folder, data)
            python(report, server, url, folder, data)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
