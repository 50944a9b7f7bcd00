"""Bodies that nobody wants: of requests that need none, of those that are refused, and of those that wait for 100 Continue."""

import threading
import time

from cases import CHUNKED, END, UPLOAD, Case, chunk, in_chunks, length, with_length

IMAGE = b"Content-Type: image/png\r\n"
FONT = b"Content-Type: font/ttf\r\n"
JSON = b"Content-Type: application/json\r\n"
LARGE = 3 * 1024 * 1024
TUS = b"Tus-Resumable: 1.0.0\r\n"
TUS_PART = TUS + b"Content-Type: application/offset+octet-stream\r\nUpload-Offset: 0\r\n"
DRAFT_PART = b"Content-Type: application/partial-upload\r\nUpload-Offset: 0\r\nUpload-Complete: ?1\r\n"


def request(line, fields=b""):
    return line + b" HTTP/1.1\r\nHost: localhost\r\n" + fields


# Requests, the status of the reply where every server gives it, and whether they are for the server that demands credentials.
# SESSION, DONE, GONE and ANIMAL stand for URIs of a session, of one that has finished, of one that was cancelled, and of an animal.
UNREAD = {
    "liveness": (request(b"GET /healthz"), 200),
    "liveness, HEAD": (request(b"HEAD /healthz"), 200),
    "readiness": (request(b"GET /readyz"), 200),
    "liveness, POST": (request(b"POST /healthz"), None),
    "index page": (request(b"GET /"), 200),
    "metrics": (request(b"GET /metrics"), None),
    "list of APIs": (request(b"GET /discovery/v1/apis"), 200),
    "description of an API": (request(b"GET /discovery/v1/apis/farm/v1/rest"), 200),
    "OpenAPI document": (request(b"GET /discovery/v1/apis/farm/v1/openapi.json"), 200),
    "no such path, GET": (request(b"GET /nowhere"), 404),
    "no such path, POST": (request(b"POST /nowhere"), 404),
    "no such upload": (request(b"POST /upload/farm/v1/cows?uploadType=media", IMAGE), 404),
    "no such method": (request(b"PATCH /farm/v1/animals"), None),
    "list": (request(b"GET /farm/v1/animals"), 200),
    "resource": (request(b"GET ANIMAL"), 200),
    "resource, HEAD": (request(b"HEAD ANIMAL"), 200),
    "resource, not modified": (request(b"GET ANIMAL", b"If-None-Match: *\r\n"), None),
    "resource, condition that fails": (request(b"PUT ANIMAL", JSON + b'If-Match: "other"\r\n'), None),
    "resource that is not there": (request(b"GET /farm/v1/animals/nobody"), 404),
    "deletion": (request(b"DELETE ANIMAL"), None),
    "deletion of nothing": (request(b"DELETE /farm/v1/animals/nobody"), 404),
    "preflight": (request(b"OPTIONS /farm/v1/animals", b"Origin: https://evil.example\r\nAccess-Control-Request-Method: DELETE\r\n"), None),
    "OPTIONS": (request(b"OPTIONS *"), None),
    "TRACE": (request(b"TRACE /farm/v1/animals"), None),
    "batch": (request(b"POST /batch", b"Content-Type: multipart/mixed; boundary=b\r\n"), None),
    "token": (request(b"POST /token"), 404),
    "metadata that is none": (request(b"POST /farm/v1/animals", JSON), 400),
    "start with metadata that is none": (request(b"POST /upload/farm/v1/animals?uploadType=resumable", JSON), 400),
    "upload of a type that is not taken": (request(b"POST /upload/farm/v1/animals?uploadType=media", FONT), 400),
    "upload of an unknown kind": (request(b"POST /upload/farm/v1/animals?uploadType=cow", IMAGE), 400),
    "upload in parts that are none": (request(b"POST /upload/farm/v1/animals?uploadType=multipart", b"Content-Type: multipart/related; boundary=b\r\n"), 400),
    "upload in an unknown coding": (request(b"POST /upload/farm/v1/animals?uploadType=media", IMAGE + b"Content-Encoding: cow\r\n"), None),
    "session, query with data": (request(b"PUT SESSION", b"Content-Range: bytes */*\r\n"), 400),
    "session, a gap": (request(b"PUT SESSION", b"Content-Range: bytes 262144-%d/*\r\n"), 503),
    "session, malformed range": (request(b"PUT SESSION", b"Content-Range: bytes cow\r\n"), 400),
    "session, cancelled": (request(b"DELETE SESSION"), 499),
    "session, GET": (request(b"GET SESSION"), None),
    "session that was cancelled": (request(b"PUT GONE", b"Content-Range: bytes 0-%d/*\r\n"), None),
    "session that has finished": (request(b"PUT DONE", b"Content-Range: bytes 0-%d/*\r\n"), None),
    "session that is not there": (request(b"PUT /upload/farm/v1/animals?uploadType=resumable&upload_id=" + b"A" * 40), 404),
    "tus, body of a creation that is no data": (request(b"POST /upload/farm/v1/animals", TUS + b"Upload-Length: 9\r\nContent-Type: text/plain\r\n"), 201),
    "tus, creation without a length": (request(b"POST /upload/farm/v1/animals", TUS), 400),
    "tus, another version": (request(b"POST /upload/farm/v1/animals", b"Tus-Resumable: 0.2.2\r\nUpload-Length: 9\r\n"), 412),
    "tus, part without a type": (request(b"PATCH SESSION", TUS + b"Upload-Offset: 0\r\n"), 415),
    "tus, part of another dialect's session": (request(b"PATCH SESSION", TUS_PART), 403),
    "tus, question with data": (request(b"HEAD SESSION", TUS), None),
    "tus, session that is not there": (request(b"PATCH /upload/farm/v1/animals?uploadType=tus&upload_id=" + b"A" * 40, TUS_PART), 404),
    "draft, creation of a type that is not taken": (request(b"POST /upload/farm/v1/animals", FONT + b"Upload-Complete: ?1\r\n"), 400),
    "draft, length that is another one": (request(b"POST /upload/farm/v1/animals", IMAGE + b"Upload-Complete: ?1\r\nUpload-Length: 9\r\n"), 400),
    "draft, part without a type": (request(b"PATCH /upload/farm/v1/animals?uploadType=ietf&upload_id=" + b"A" * 40, b"Upload-Offset: 0\r\n"), 415),
    "draft, session that is not there": (request(b"PATCH /upload/farm/v1/animals?uploadType=ietf&upload_id=" + b"A" * 40, DRAFT_PART), 404),
}
# At the server that demands credentials.
REFUSED = {
    "upload without credentials": (request(b"POST /upload/farm/v1/animals?uploadType=media", IMAGE), 401),
    "upload with a wrong token": (request(b"POST /upload/farm/v1/animals?uploadType=media", IMAGE + b"Authorization: Bearer wrong\r\n"), 401),
    "call without credentials": (request(b"GET /farm/v1/animals"), 401),
    "deletion without credentials": (request(b"DELETE /farm/v1/animals/nobody"), 401),
    "no such path, without credentials": (request(b"POST /nowhere"), 401),
}


def of_unread():
    for guarded, table in ((False, UNREAD), (True, REFUSED)):
        for name, (head, status) in table.items():
            of_head = head.startswith(b"HEAD")
            yield Case(f"body that is not wanted: {name}", sized(head, with_length), of_head=of_head, guarded=guarded, status=status)
            yield Case(f"body that is not wanted: {name}, in chunks", sized(head, in_chunks), of_head=of_head, guarded=guarded, status=status)
    yield Case("body that is not wanted: too many requests of one address", too_many, replies=TOO_MANY, guarded=True, alone=True, also=most_are_429)


def sized(head, framed):
    def bytes_of(hidden):
        here = hidden.at(head)
        return framed(here.replace(b"-%d/", b"-%d/" % (len(hidden.bytes) + (262143 if b"262144" in here else -1))), hidden.bytes)
    return bytes_of


# As many that the last one is refused.
TOO_MANY = 60
# The limit of the guarded server, and its burst of two seconds.
PER_SECOND = 10
BURST = 2 * PER_SECOND
# When the requests of a thread's front were made.
MADE = threading.local()


def too_many(hidden):
    MADE.at = time.monotonic()
    call = request(b"GET /farm/v1/animals", hidden.authorization)
    return (call + b"\r\n") * (TOO_MANY - 1) + with_length(call, hidden.bytes)


def most_are_429(replies):
    # The last one is refused, unless the front has paused before it for as long as the limit needs to admit one more.
    admitted = BURST + PER_SECOND * (time.monotonic() - MADE.at)
    passed = sum(reply.status != 429 for reply in replies)
    assert passed <= admitted + 1, f"{passed} of {len(replies)} were admitted, {replies[-1]}"


def of_early_refusals():
    """The reply comes before the body has. Whatever of it the server has not read yet is no request."""
    heads = {
        "of a type that is not taken": (request(b"POST /upload/farm/v1/animals?uploadType=media", FONT), False),
        "where none is": (request(b"POST /upload/farm/v1/cows?uploadType=media", IMAGE), False),
        "to a session that is not there": (request(b"PUT /upload/farm/v1/animals?uploadType=resumable&upload_id=" + b"A" * 40), False),
        "without credentials": (request(b"POST /upload/farm/v1/animals?uploadType=media", IMAGE), True),
        "by tus, to a session that is not there": (request(b"PATCH /upload/farm/v1/animals?uploadType=tus&upload_id=" + b"A" * 40, TUS_PART), False),
        "by the draft, to a session that is not there": (request(b"PATCH /upload/farm/v1/animals?uploadType=ietf&upload_id=" + b"A" * 40, DRAFT_PART), False),
        "by the draft, without credentials": (request(b"POST /upload/farm/v1/animals", IMAGE + b"Upload-Complete: ?1\r\n"), True),
    }
    for name, (head, guarded) in heads.items():
        for at in (0, 4096, 65536, 1024 * 1024):
            yield Case(f"refused early: upload {name}, {at} bytes before", long_body(head, at), guarded=guarded)
        yield Case(f"refused early: upload {name}, in chunks", in_long_chunks(head), guarded=guarded)
        yield Case(f"refused early: upload {name}, the body after the reply", later(head), guarded=guarded)
    large = request(b"POST /upload/farm/v1/animals?uploadType=media", IMAGE)
    yield Case("refused early: larger than what is taken", lambda hidden: large + length(6 << 30) + b"\r\n" + hidden.bytes)
    yield Case("refused early: larger than what is taken, the body after the reply", lambda hidden: [large + length(6 << 30) + b"\r\n", hidden.bytes])


def long_body(head, at):
    # Line ends everywhere, for who looks for the next request at one.
    return lambda hidden: with_length(head, (b"\r\n" * at)[:at] + hidden.bytes + b"\r\n" * (LARGE // 2))


def in_long_chunks(head):
    filling = chunk(b"\r\n" * 8192)
    return lambda hidden: head + CHUNKED + b"\r\n" + filling * 20 + chunk(hidden.bytes) + filling * 20 + END


def later(head):
    return lambda hidden: [with_length(head, hidden.bytes).removesuffix(hidden.bytes), hidden.bytes]


def of_expectations():
    expect = b"Expect: 100-continue\r\n"
    heads = {
        "taken": (UPLOAD, False),
        "refused": (request(b"POST /upload/farm/v1/animals?uploadType=media", FONT), False),
        "refused, no such path": (request(b"POST /nowhere"), False),
        "refused, no credentials": (request(b"POST /upload/farm/v1/animals?uploadType=media", IMAGE), True),
        "GET": (request(b"GET /farm/v1/animals"), False),
        "HEAD": (request(b"HEAD /healthz"), False),
        "DELETE": (request(b"DELETE /farm/v1/animals/nobody"), False),
    }
    for name, (head, guarded) in heads.items():
        of_head = head.startswith(b"HEAD")
        for how, framed in (("", with_length), (", in chunks", in_chunks)):
            yield Case(f"Expect, {name}{how}: the body is sent at once",
                       lambda hidden, head=head, framed=framed: framed(head + expect, hidden.bytes), of_head=of_head, guarded=guarded)
        yield Case(f"Expect, {name}: the body is sent after the reply", later(head + expect), of_head=of_head, guarded=guarded)
    words = {"unknown": b"Expect: cow\r\n", "twice": expect * 2, "in capitals": b"EXPECT: 100-CONTINUE\r\n", "in a list": b"Expect: cow, 100-continue\r\n",
             "behind a letter": b"Expect: y 100-continue\r\n", "empty": b"Expect: \r\n", "folded": b"Expect:\r\n 100-continue\r\n"}
    for name, line in words.items():
        yield Case(f"Expect, {name}: the body is sent at once", lambda hidden, line=line: with_length(UPLOAD + line, hidden.bytes))
        yield Case(f"Expect, {name}: the body is sent after the reply", later(UPLOAD + line))
    yield Case("Expect, HTTP/1.0: the body is sent at once", lambda hidden: with_length(UPLOAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Connection: keep-alive\r\n" + expect, hidden.bytes))
    yield Case("Expect, length and chunks", lambda hidden: UPLOAD + expect + length(len(END + hidden.bytes)) + CHUNKED + b"\r\n" + END + hidden.bytes)


def cases():
    yield from of_unread()
    yield from of_early_refusals()
    yield from of_expectations()
