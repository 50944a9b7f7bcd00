"""Requests that the library does not send: over the limit, of a wrong type, torn."""

import http.client
import json
import urllib.parse


def request(url, verb, headers, body=b""):
    """A request, whose Content-Length may be a lie; returns status, headers and JSON, if any."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    try:
        connection.putrequest(verb, parts.path + "?" + parts.query)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(body)
        reply = connection.getresponse()
        text = reply.read()
    finally:
        connection.close()
    return reply.status, reply.headers, json.loads(text) if text else None


def multipart(url, verb, content_type, data):
    """A multipart upload without any metadata."""
    body = b"--cow\r\nContent-Type: application/json\r\n\r\n{}\r\n--cow\r\nContent-Type: " + content_type.encode()
    body += b"\r\n\r\n" + data + b"\r\n--cow--\r\n"
    return request(url, verb, {"Content-Type": "multipart/related; boundary=cow"}, body)


class TearingHttp:
    """A transport for the library whose connection breaks in the middle of the second chunk."""

    def __init__(self, http):
        self.http, self.chunks, self.torn = http, 0, False

    def request(self, uri, method="GET", body=None, headers=None, **rest):
        if headers and "Content-Range" in headers and body:
            self.chunks += 1
            if self.chunks == 2:
                self._tear(uri, method, body if isinstance(body, bytes) else body.read(), headers)
        return self.http.request(uri, method=method, body=body, headers=headers, **rest)

    def _tear(self, uri, method, body, headers):
        self.torn = True
        parts = urllib.parse.urlsplit(uri)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
        connection.putrequest(method, parts.path + "?" + parts.query)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(body[:len(body) // 2])
        connection.close()
        raise ConnectionResetError("the connection breaks in the middle of a chunk")
