"""Requests that the library does not send: over the limit, of a wrong type."""

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
