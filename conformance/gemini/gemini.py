"""Gemini's libraries, as far as files go, against a windlass server: google-genai and @google/genai."""

import base64
import hashlib
import os
import sys
import tempfile
import urllib.request

from google import genai
from google.genai import errors

from faults import CUT, EXPIRED, LOST_FINAL_REPLY, LOST_REPLY, LOST_TO_503, UNAVAILABLE, FaultProxy
from node import Node, Refused, words_of
from report import Gone, Report, media, write
from server import Server

KIB, MIB = 1024, 1024 * 1024
# The libraries send chunks of 8 MiB.
SIZES = {"empty": 0, "small": 1000, "one chunk": 8 * MIB, "several chunks": 20 * MIB + 7}
FLOWS = {"empty": "empty", "several chunks": "chunks"}


def main(binary):
    report = Report()
    server = Server(binary, "--api", "generativelanguage")
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for library in Python, JavaScript:
                flows(report, library(server.url), server, scratch)
                faults(report, library, server, scratch)
                limits(report, binary, library, server, scratch)
            crash(report, server, scratch)
    finally:
        server.remove()
    return report.end()


class Python:
    name, package = "python", "google-genai"

    def __init__(self, url):
        # The files alone would not keep their client from being closed.
        self.client = genai.Client(api_key="any", http_options={"base_url": url})
        self.files = self.client.files

    def upload(self, path, name=None):
        return self.files.upload(file=path, config={"mime_type": "text/plain", "name": name}).model_dump(mode="json")

    def get(self, name):
        return self.files.get(name=name).model_dump(mode="json")

    def list(self):
        return [file.model_dump(mode="json") for file in self.files.list(config={"page_size": 2})]

    def delete(self, name):
        self.files.delete(name=name)

    def status_of(self, call):
        try:
            call()
        except errors.APIError as error:
            return error.code
        return None

    def thrown(self, call):
        try:
            call()
        except Exception as error:  # pylint: disable=broad-except
            code = getattr(error, "code", "")
            return f"`{type(error).__name__}` {code}".strip()
        return ""

    def close(self):
        pass


class JavaScript(Node):
    name, package = "javascript", "@google/genai"

    def __init__(self, url):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "files.mjs")
        super().__init__(script, os.environ["NODE_PACKAGES"], url)

    def upload(self, path, name=None):
        return in_snake_case(self.ask(upload=path, mimeType="text/plain", name=name))

    def get(self, name):
        return in_snake_case(self.ask(get=name))

    def list(self):
        return [in_snake_case(file) for file in self.ask(list=True)]

    def delete(self, name):
        self.ask(delete=name)

    def status_of(self, call):
        try:
            call()
        except Refused as error:
            # The library throws an error without a status when a start or a chunk is refused.
            found = [word for word in str(error).replace(",", " ").split() if word.isdigit()]
            return error.status or int(found[0] if found else 0)
        return None

    def thrown(self, call):
        try:
            call()
        except Refused as error:
            return words_of(error)
        return ""


def in_snake_case(file):
    return {"".join("_" + c.lower() if c.isupper() else c for c in key): value for key, value in file.items()}


def check(server, file, data):
    """The file must be what was uploaded, as its fields say it and byte for byte."""
    assert int(file["size_bytes"] or 0) == len(data), file
    assert file["mime_type"] == "text/plain" and file["state"] == "ACTIVE", file
    sha256 = base64.b64encode(hashlib.sha256(data).digest()).decode()
    assert file["sha256_hash"].rstrip("=").replace("-", "+").replace("_", "/") == sha256.rstrip("="), file
    with urllib.request.urlopen(f"{server.url}/v1beta/{file['name']}:download?alt=media") as reply:
        assert reply.read() == data, "other bytes"


def flows(report, library, server, scratch):
    def upload(size):
        data = media(size, seed=size + 1)
        file = library.upload(write(scratch, data))
        check(server, file, data)
        assert library.get(file["name"])["name"] == file["name"]
        library.delete(file["name"])

    def life():
        path = write(scratch, media(10))
        names = [library.upload(path, f"cow-{number}")["name"] for number in range(3)]
        listed = [file["name"] for file in library.list()]
        assert [name for name in listed if name in names] == names, listed
        for name in names:
            library.delete(name)
        assert library.status_of(lambda: library.get(names[0])) == 404

    def refusals():
        path = write(scratch, media(10))
        library.upload(path, "taken")
        assert library.status_of(lambda: library.upload(path, "taken")) == 409
        assert library.status_of(lambda: library.upload(path, "Not-A-Name")) == 400
        library.delete("files/taken")

    for name, size in SIZES.items():
        of = library.package, FLOWS.get(name, "resumable")
        if size == 0 and library.name == "javascript":
            report.left_out(f"{library.name}: upload, {name}", "the library sends no request for a file without bytes", *of)
            continue
        report.case(f"{library.name}: upload, {name}", lambda size=size: upload(size), *of)
    report.case(f"{library.name}: names, a list in pages, deletes", life)
    report.case(f"{library.name}: a name that is taken, and one that is none", refusals)
    library.close()


def faults(report, kind, server, scratch):
    """The libraries repeat a chunk whose reply does not say how the upload goes on, and not one without a reply."""
    def upload(fault, **how):
        def case():
            data = media(20 * MIB + 7, seed=9)
            with FaultProxy(server.port, fault, **how) as line:
                library = kind(line.url)
                file = library.upload(write(scratch, data))
                assert line.struck, "there was no fault"
                check(server, file, data)
                library.delete(file["name"])
                library.close()
        return case

    def again(fault, **how):
        def case():
            data = media(20 * MIB + 7, seed=9)
            with FaultProxy(server.port, fault, **how) as line:
                library = kind(line.url)
                if not library.thrown(lambda: library.upload(write(scratch, data))):
                    raise Gone("the library has tried again")
                assert line.struck, "there was no fault"
                file = library.upload(write(scratch, data))
                check(server, file, data)
                library.delete(file["name"])
                library.close()
        return case

    # Of three chunks the last one ends the upload.
    name, package = kind.name, kind.package
    report.case(f"{name}: 503 to a chunk", upload(UNAVAILABLE), package, "503 in the middle")
    report.case(f"{name}: 503 to the last chunk", upload(UNAVAILABLE, skip=2), package, "503 in the middle")
    report.case(f"{name}: 503 for the reply to a chunk", upload(LOST_TO_503))
    report.case(f"{name}: 503 for the final reply", upload(LOST_TO_503, skip=2))
    for fault, skip in {CUT: 1, LOST_REPLY: 1, LOST_FINAL_REPLY: 0}.items():
        report.case(f"{name}: {fault}, and once more", again(fault, skip=skip), package, fault, throws=True)


def limits(report, binary, kind, server, scratch):
    """What the libraries throw, of servers with lower limits."""
    def refused(url):
        library = kind(url)
        try:
            return library.thrown(lambda: library.upload(write(scratch, media(9 * MIB))))
        finally:
            library.close()

    def expired():
        with Server(binary, "--api", "generativelanguage", sessions_lifetime="1s") as short:
            with FaultProxy(short.port, EXPIRED, skip=1) as line:
                return refused(line.url)

    def limited(accept, max_size):
        # Which of both a library calls changes with its versions.
        described = [server.limited("generativelanguage", version, scratch, accept, max_size) for version in ("v1", "v1beta")]
        with Server(binary, *(option for path in described for option in ("--api", path))) as low:
            return refused(low.url)

    name, package = kind.name, kind.package
    report.case(f"{name}: an expired session", expired, package, "expired")
    report.case(f"{name}: a type that is not accepted", lambda: limited("video/*", 10 * MIB), package, "wrong type")
    report.case(f"{name}: too large", lambda: limited("text/*", MIB), package, "too large")


def crash(report, server, scratch):
    def stays():
        data = media(MIB)
        file = Python(server.url).upload(write(scratch, data))
        server.kill()
        server.start()
        check(server, Python(server.url).get(file["name"]), data)

    report.case("python: a file that was uploaded survives kill -9", stays)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
