"""Gmail: what becomes of a mail's bytes, parts, names of files and sizes."""

import base64
import os

import odd_mails
from rules import reported
from samples import decoded, mail, start, user

HEAD = b"From: a@example.com\r\nTo: b@example.com\r\nSubject: s\r\nMIME-Version: 1.0\r\n"


def payload(server, owner, message_id):
    return server.get(f"/gmail/v1/users/{owner}/messages/{message_id}").json["payload"]


def media_of(server, owner, message_id, part):
    """The bytes of a part, which is small or an attachment."""
    body = part["body"]
    if "attachmentId" in body:
        base = f"/gmail/v1/users/{owner}/messages/{message_id}"
        body = server.get(f"{base}/attachments/{body['attachmentId']}").json
    return decoded(body["data"])


def types(part):
    """The tree of media types: a text for a leaf, a pair for a container with parts."""
    if part.get("parts"):
        return part["mimeType"], [types(it) for it in part["parts"]]
    return part["mimeType"]


@reported("RFC 2045 and RFC 2046", "Python's email package, where it reads as they say")
def odd_mails_are_read_and_kept(server, expect):
    """Odd mails are taken, come back byte by byte, and have the parts that RFC 2046 gives them."""
    owner = user()
    for case in odd_mails.CASES:
        path = f"/upload/gmail/v1/users/{owner}/messages?uploadType=media"
        reply = server.call("POST", path, case.data, Content_Type="message/rfc822")
        if case.may_be_refused and reply.status == 400:
            continue
        expect.same(reply.status, 200, case.name, reply)
        if reply.status != 200:
            continue
        message_id = reply.json["id"]
        raw = server.get(f"/gmail/v1/users/{owner}/messages/{message_id}?format=raw").json["raw"]
        expect.true(decoded(raw) == case.data, case.name, "other bytes")
        top = payload(server, owner, message_id)
        if case.tree is not None:
            expect.same(types(top), case.tree, case.name, "tree")
        for path, right in case.parts:
            part = top
            for index in path:
                part = part["parts"][index]
            media = media_of(server, owner, message_id, part).rstrip(b"\r\n")
            expect.true((part.get("filename", ""), media) == right, case.name, path, part)
        for name, right in case.headers:
            values = [it["value"] for it in top["headers"] if it["name"] == name]
            expect.true(len(values) == 1 and right in values[0], case.name, name, values)


NAMES_OF_FILES = (
    (b"filename*=utf-8''Pr%C3%BCfbericht%20Q1.pdf", "Pr\u00fcfbericht Q1.pdf"),
    (
        b"filename*=ISO-8859-1''Eelanal%FC%FCsi%20p%E4ring.jpg",
        "Eelanal\u00fc\u00fcsi p\u00e4ring.jpg",
    ),
    (
        b"filename*0*=utf-8''%D0%9F%D0%B5%D1%80%D0%B5;\r\n"
        b" filename*1*=%D1%87%D0%B5%D0%BD%D1%8C;\r\n"
        b' filename*2=".xlsx"',
        "\u041f\u0435\u0440\u0435\u0447\u0435\u043d\u044c.xlsx",
    ),
    (
        b'filename*0="a very long name that was ";\r\n filename*1="folded.txt"',
        "a very long name that was folded.txt",
    ),
    (b'filename="=?UTF-8?B?w75qw7NuaW5uLmpzeA==?="', "\u00fej\u00f3ninn.jsx"),
    (
        b'filename="=?UTF-8?Q?=C3=9Cbersicht_J=C3=A4n?=\r\n =?UTF-8?Q?ner.pdf?="',
        "\u00dcbersicht J\u00e4nner.pdf",
    ),
    ('filename="\u30c6\u30b9\u30c8.txt"'.encode(), "\u30c6\u30b9\u30c8.txt"),
    (b'filename="semi;colon \\"quoted\\".txt"', 'semi;colon "quoted".txt'),
    (b"filename=plain.txt; filename*=utf-8''b%C3%A9tter.txt", "b\u00e9tter.txt"),
    # Unquoted blanks are no name: how much of it is one, no document says.
    (b"filename=no quotes here.txt", None),
)


@reported(
    "taylorwilsdon/google_workspace_mcp#502", "taylorwilsdon/google_workspace_mcp#500",
    "mailpile/Mailpile#595", "mikel/mail#467", "go-mail/mail#11", "wneessen/go-mail#605",
    "apache/airflow#66577", "RFC 2231, RFC 2047 and RFC 6532",
)
def names_of_attachments_are_decoded(server, expect):
    """Names of attachments are decoded, in each way in which mailers write them."""
    owner = user()
    for parameters, right in NAMES_OF_FILES:
        text = (
            HEAD + b"Content-Type: multipart/mixed; boundary=X\r\n\r\n"
            b"--X\r\nContent-Type: text/plain\r\n\r\nbody\r\n"
            b"--X\r\nContent-Type: application/octet-stream\r\n"
            b"Content-Disposition: attachment;\r\n " + parameters + b"\r\n"
            b"Content-Transfer-Encoding: base64\r\n\r\nAAEC/w==\r\n--X--\r\n"
        )
        message_id = mail(server, owner, text)["id"]
        part = payload(server, owner, message_id)["parts"][1]
        name = part.get("filename", "")
        expect.true(name == right or right is None and name.startswith("no"), parameters, name)
        expect.same(media_of(server, owner, message_id, part), b"\0\1\2\xff", parameters)
    found = server.get(f"/gmail/v1/users/{owner}/messages?q=filename%3Ajsx").json
    expect.same(len(found.get("messages", [])), 1, "filename:jsx")


@reported(
    "r-lib/gmailr#28", "dacastro4/laravel-gmail#75", "Webklex/php-imap#614",
    "EmilTholin/gmail-api-parse-message#11", "levz0r/gmail-tester#24", "levz0r/gmail-tester#110",
    "dacastro4/laravel-gmail#82", "NousResearch/hermes-agent#91903",
)
def bodies_have_the_shape_of_their_parts(server, expect):
    """A mail of one part has a body and no parts, and a container has its parts and no bytes."""
    owner = user()

    def shown(text):
        return payload(server, owner, mail(server, owner, text)["id"])

    top = shown(HEAD + b"Content-Type: text/html; charset=utf-8\r\n\r\n<p>only</p>\r\n")
    got = (types(top), decoded(top["body"]["data"]).strip())
    expect.same(got, ("text/html", b"<p>only</p>"), "one part")
    top = shown(b"From: a@example.com\r\nSubject: no mime\r\n\r\nplain\r\n")
    got = (types(top), decoded(top["body"]["data"]).strip())
    expect.same(got, ("text/plain", b"plain"), "no MIME headers")
    alternative = b"Content-Type: multipart/alternative; boundary=A\r\n\r\n"
    top = shown(HEAD + alternative + b"--A\r\nContent-Type: text/html\r\n\r\n<b>x</b>\r\n--A--\r\n")
    expect.same(types(top), ("multipart/alternative", ["text/html"]), "container of one")
    expect.same(top["body"].get("size"), 0, "container of one")
    top = shown(
        HEAD + b"Content-Type: multipart/mixed; boundary=M\r\n\r\npreamble\r\n--M\r\n"
        b"Content-Type: multipart/related; boundary=R\r\n\r\n--R\r\n" + alternative
        + b"--A\r\nContent-Type: text/plain\r\n\r\nt\r\n--A\r\nContent-Type: text/html\r\n\r\n"
        b"<img src=cid:1>\r\n--A--\r\n--R\r\nContent-Type: image/png\r\nContent-ID: <1>\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\nAAAA\r\n--R--\r\n--M\r\n"
        b"Content-Type: text/plain; name=notes.txt\r\n"
        b"Content-Disposition: attachment; filename=notes.txt\r\n\r\nnote\r\n--M--\r\nepilogue\r\n"
    )
    texts = ("multipart/alternative", ["text/plain", "text/html"])
    inner = ("multipart/related", [texts, "image/png"])
    expect.same(types(top), ("multipart/mixed", [inner, "text/plain"]), "nested")
    ids = [it["partId"] for it in top["parts"][0]["parts"][0]["parts"]]
    expect.same(ids, ["0.0.0", "0.0.1"], "ids of parts")
    note = top["parts"][1]
    expect.same(note.get("filename"), "notes.txt", "a text file")
    small = decoded(note["body"].get("data", "")).strip() == b"note"
    expect.true("attachmentId" in note["body"] or small, "a text file", note["body"])


@reported("NousResearch/hermes-agent#91903", "Webklex/php-imap#614")
def attached_message_is_read_whole(server, expect):
    """A message in a message is a part that can be read whole."""
    owner = user()
    inner = b"From: c@example.com\r\nSubject: inner\r\n\r\ninner text\r\n"
    made = mail(
        server, owner, HEAD + b"Content-Type: multipart/mixed; boundary=M\r\n\r\n--M\r\n"
        b"Content-Type: text/plain\r\n\r\nouter text\r\n--M\r\n"
        b"Content-Type: message/rfc822; name=fwd.eml\r\n"
        b"Content-Disposition: attachment; filename=fwd.eml\r\n\r\n" + inner + b"\r\n--M--\r\n",
    )
    top = payload(server, owner, made["id"])
    text, attached = top["parts"]
    expect.same(decoded(text["body"]["data"]).strip(), b"outer text", "outer text")
    got = (attached["mimeType"], attached["filename"])
    expect.same(got, ("message/rfc822", "fwd.eml"), "attached message")
    if "attachmentId" in attached["body"]:
        media = media_of(server, owner, made["id"], attached)
        expect.same(media.strip(), inner.strip(), "its bytes")
    else:
        expect.true(attached.get("parts"), "neither an attachment nor parts", attached)
    subjects = [it["value"] for it in top["headers"] if it["name"] == "Subject"]
    expect.same(subjects, ["s"], "subject of the outer message")


# What Gmail takes in one mail, by its discovery document.
MAX_MAIL = 36_700_160


@reported(
    "googleapis/google-api-dotnet-client#1357", "googleapis/google-api-go-client#374",
    "googleapis/google-api-nodejs-client#1491", "googleapis/google-api-php-client#814",
    "dacastro4/laravel-gmail#77",
)
def large_mails_arrive_whole(server, expect):
    """Mails above 5 MB arrive whole by each way, and one above 35 MB is 413 before its body."""
    sender = user()
    blob = os.urandom(2 << 20)
    text = large_mail(blob)
    base = f"/gmail/v1/users/{sender}/messages"
    for way, reply in sent_every_way(server, f"/upload{base}/send", text):
        expect.true(reply.status in (200, 201), way, reply)
        parts = payload(server, sender, reply.json["id"])["parts"]
        expect.same([it.get("filename") for it in parts], ["", "f0.bin", "f1.bin"], way)
        for part in parts[1:]:
            media = media_of(server, sender, reply.json["id"], part)
            expect.true(media == blob, way, part["filename"], "other bytes")
    raw = {"raw": base64.urlsafe_b64encode(text).decode()}
    reply = server.call("POST", f"{base}/send", raw)
    expect.true(reply.status in (200, 400, 413), "5 MB as JSON", reply)
    said = server.head_of(
        f"POST /upload{base}/send?uploadType=media HTTP/1.1\r\nHost: {server.host}\r\n"
        f"Content-Type: message/rfc822\r\nContent-Length: {MAX_MAIL + 1}\r\n"
        "Expect: 100-continue\r\n\r\n".encode()
    )
    expect.true(said.startswith(b"HTTP/1.1 413"), "above 35 MB", said[:100])


def large_mail(blob):
    """A mail with these bytes attached twice."""
    encoded = base64.encodebytes(blob).replace(b"\n", b"\r\n")
    files = (
        b"--X\r\nContent-Type: application/octet-stream\r\n"
        b"Content-Disposition: attachment; filename=f%d.bin\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\n%s\r\n" % (number, encoded)
        for number in range(2)
    )
    return (
        b"From: a@example.com\r\nTo: bob@windlass.localhost\r\nSubject: big\r\n"
        b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=X\r\n\r\n"
        b"--X\r\nContent-Type: text/plain\r\n\r\nbody\r\n"
        + b"".join(files) + b"--X--\r\n"
    )


def sent_every_way(server, path, text):
    simple = {"Content_Type": "message/rfc822"}
    yield "media", server.call("POST", f"{path}?uploadType=media", text, **simple)
    body = (
        b"--b\r\nContent-Type: application/json\r\n\r\n{}\r\n"
        b"--b\r\nContent-Type: message/rfc822\r\n\r\n"
        + text + b"\r\n--b--"
    )
    headers = {"Content_Type": "multipart/related; boundary=b"}
    yield "multipart", server.call("POST", f"{path}?uploadType=multipart", body, **headers)
    uri = start(
        server, f"{path}?uploadType=resumable", {}, X_Upload_Content_Type="message/rfc822",
        X_Upload_Content_Length=str(len(text)),
    )
    for at in range(0, len(text), 1 << 20):
        chunk = text[at : at + (1 << 20)]
        content_range = f"bytes {at}-{at + len(chunk) - 1}/{len(text)}"
        reply = server.call("PUT", uri, chunk, Content_Range=content_range)
    yield "resumable", reply
