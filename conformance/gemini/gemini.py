"""Gemini's libraries, as far as files go, against a windlass server: google-genai and @google/genai."""

import base64
import hashlib
import http.client
import http.server
import os
import sys
import tempfile
import threading
import urllib.request

from google import genai
from google.genai import errors

from node import Node, Refused
from report import Report, media, write
from server import Server

KIB, MIB = 1024, 1024 * 1024
# The libraries send chunks of 8 MiB.
SIZES = {"empty": 0, "small": 1000, "one chunk": 8 * MIB, "several chunks": 20 * MIB + 7}


def main(binary, packages):
    report = Report()
    server = Server(binary, "--api", "generativelanguage")
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for library in Python(server.url), JavaScript(packages, server.url):
                flows(report, library, server, scratch)
                library.close()
            for fault in UNAVAILABLE, LOST:
                faults(report, server, scratch, fault)
            crash(report, server, scratch)
    finally:
        server.remove()
    return report.end()


class Python:
    name = "python"

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

    def close(self):
        pass


class JavaScript(Node):
    name = "javascript"

    def __init__(self, packages, url):
        super().__init__(os.path.join(os.path.dirname(os.path.abspath(__file__)), "files.mjs"), packages, url)

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
        if size == 0 and library.name == "javascript":
            report.left_out(f"{library.name}: upload, {name}", "the library sends no request for a file without bytes")
            continue
        report.case(f"{library.name}: upload, {name}", lambda size=size: upload(size))
    report.case(f"{library.name}: names, a list in pages, deletes", life)
    report.case(f"{library.name}: a name that is taken, and one that is none", refusals)


def faults(report, server, scratch, fault):
    """The library for Python repeats a chunk whose reply does not say how the upload goes on."""
    def upload(command):
        data = media(20 * MIB + 7, seed=9)
        with Line(server, command, fault) as line:
            library = Python(line.url)
            file = library.upload(write(scratch, data))
            assert line.struck, "there was no fault"
            check(server, file, data)
            library.delete(file["name"])

    for command in "upload", "upload, finalize":
        report.case(f"python: {fault} for '{command}'", lambda command=command: upload(command))


def crash(report, server, scratch):
    def stays():
        data = media(MIB)
        file = Python(server.url).upload(write(scratch, data))
        server.kill()
        server.start()
        check(server, Python(server.url).get(file["name"]), data)

    report.case("python: a file that was uploaded survives kill -9", stays)


UNAVAILABLE, LOST = "503 before the server", "503 after the server has answered"


class Line(http.server.ThreadingHTTPServer):
    """Passes requests on, and answers the first one with a command by 503, before or after the server has had it."""

    def __init__(self, server, command, fault):
        super().__init__(("127.0.0.1", 0), Passing)
        self.server, self.command, self.fault, self.struck = server, command, fault, False
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *args):
        self.shutdown()
        super().__exit__(*args)

    def strikes(self, headers):
        if self.struck or headers.get("x-goog-upload-command") != self.command:
            return False
        self.struck = True
        return True


class Passing(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        strikes = self.server.strikes(self.headers)
        if not strikes or self.server.fault == LOST:
            upstream = http.client.HTTPConnection("127.0.0.1", self.server.server.port)
            upstream.request(self.command, self.path, body, dict(self.headers))
            reply = upstream.getresponse()
            status, fields, content = reply.status, reply.getheaders(), reply.read()
            upstream.close()
        if strikes:
            status, fields, content = 503, [("Content-Type", "text/plain")], b"not now"
        self.send_response(status)
        for name, value in fields:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], os.environ["NODE_PACKAGES"]))
