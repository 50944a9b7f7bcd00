"""Requests as clients write them, without any library of Google's."""

import http.client
import json
import socket
import urllib.parse

PATIENCE = 60


class Reply:
    """A reply that was read to its end. `reply[NAME]` is a header, or `None`."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __getitem__(self, name):
        return self.headers.get(name.lower())

    @property
    def json(self):
        """An empty object if the body is no JSON: what is missing in it then fails the case."""
        try:
            return json.loads(self.body)
        except ValueError:
            return {}

    @property
    def refusal(self):
        """The reason and the location of the first error."""
        first = self.json.get("error", {}).get("errors", [{}])[0]
        return first.get("reason"), first.get("location")

    @property
    def message(self):
        return self.json.get("error", {}).get("message", "")

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class Client:
    """Sends requests to a server, each on a connection of its own."""

    def __init__(self, url):
        self.url = url.rstrip("/")
        self.host = urllib.parse.urlsplit(url).netloc

    def call(self, method, path, body=None, **headers):
        """A path may be a link of a reply, `Content_Type=` is a header, a dict becomes JSON."""
        path = path.removeprefix(self.url)
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, dict):
            body = json.dumps(body)
            fields.setdefault("Content-Type", "application/json")
        if isinstance(body, str):
            body = body.encode()
        if body is not None:
            fields.setdefault("Content-Length", str(len(body)))
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in fields.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            reply = connection.getresponse()
            return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.call("GET", path, **headers)

    def head_of(self, request):
        """The first head that answers these bytes, which may be a `100 Continue`."""
        return self._read(request, lambda said: b"\r\n\r\n" in said)

    def whole(self, request):
        """All that answers these bytes, which ask for the connection to be closed."""
        return self._read(request, lambda said: False)

    def _read(self, request, enough):
        host, port = self.host.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as line:
            line.sendall(request)
            said = b""
            while not enough(said) and (part := line.recv(65536)):
                said += part
            return said


def escaped(text):
    """For one segment of a path, or for the value of a parameter."""
    return urllib.parse.quote(text, safe="")
