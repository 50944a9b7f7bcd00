"""Mails that are odd and valid, and mails that are odd and broken."""

import base64
import dataclasses
import os

MIXED = b"Content-Type: multipart/mixed; boundary=X\r\n\r\n"
HEAD = (
    b"From: a@example.com\r\nTo: b@example.com\r\nSubject: f\r\n"
    b"Date: Mon, 10 Jan 2022 10:00:00 +0000\r\nMIME-Version: 1.0\r\n"
)
TEXT = b"--X\r\nContent-Type: text/plain\r\n\r\na\r\n"


@dataclasses.dataclass
class Mail:
    """A mail, and what is shown of it.

    `tree` has its media types, `parts` the file name and the bytes of some of its parts, by their
    indexes from the top, and `headers` a text that a header has to contain.
    """

    name: str
    data: bytes
    tree: object = None
    parts: tuple = ()
    headers: tuple = ()
    may_be_refused: bool = False


def nested(depth):
    data, tree = b"Content-Type: text/plain\r\n\r\ndeep\r\n", "text/plain"
    for level in range(depth):
        head = b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (level, level)
        data, tree = head + data + b"\r\n--b%d--\r\n" % level, ("multipart/mixed", [tree])
    return Mail(f"{depth} levels", HEAD + data, tree)


ODD_BOUNDARY = b"gc0p4Jq0M:2Yt08j34c0p ='()+_,-./?"
BOUNDARIES = (
    nested(20),
    Mail(
        "a boundary that begins another one",
        HEAD + MIXED + b"--X\r\nContent-Type: multipart/alternative; boundary=X1\r\n\r\n"
        b"--X1\r\nContent-Type: text/plain\r\n\r\na\r\n"
        b"--X1\r\nContent-Type: text/html\r\n\r\nb\r\n--X1--\r\n"
        b"--X\r\nContent-Type: image/gif\r\n\r\nc\r\n--X--\r\n",
        ("multipart/mixed", [("multipart/alternative", ["text/plain", "text/html"]), "image/gif"]),
    ),
    Mail(
        "blanks behind a quoted boundary",
        HEAD + b'Content-Type: multipart/mixed;\r\n boundary="%s"\r\n\r\n--%s  \t\r\n'
        b"Content-Type: text/plain\r\n\r\na\r\n--%s-- \r\n" % ((ODD_BOUNDARY,) * 3),
        ("multipart/mixed", ["text/plain"]),
    ),
    Mail(
        "no last boundary",
        HEAD + MIXED + TEXT + b"--X\r\nContent-Type: image/png\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\nAAEC\r\n",
        ("multipart/mixed", ["text/plain", "image/png"]),
    ),
    Mail(
        "lines that end with LF alone",
        (HEAD + MIXED + TEXT + b"--X--\r\n").replace(b"\r\n", b"\n"),
        ("multipart/mixed", ["text/plain"]),
    ),
    Mail("multipart without a boundary", HEAD + b"Content-Type: multipart/mixed\r\n\r\nx\r\n"),
    Mail("multipart without parts", HEAD + MIXED + b"nothing\r\n"),
)

BLOB = os.urandom(1 << 20).rstrip(b"\r\n")
ENCODINGS = (
    Mail(
        "quoted-printable with soft breaks, blanks and small letters",
        HEAD + b"Content-Type: text/plain; charset=utf-8\r\n"
        b"Content-Transfer-Encoding: Quoted-Printable\r\n\r\n"
        b"gr=c3=bc=C3=9Fe=20=\r\n and more=\r\n\r\nend =3D=\r\n",
        "text/plain",
        (((), ("", "gr\u00fc\u00dfe  and more\r\nend =".encode())),),
    ),
    Mail(
        "a megabyte of base64 in one line",
        HEAD + b"Content-Type: application/octet-stream; name=big.bin\r\n"
        b"Content-Transfer-Encoding: base64\r\nContent-Disposition: attachment\r\n\r\n"
        + base64.b64encode(BLOB) + b"\r\n",
        "application/octet-stream",
        (((), ("big.bin", BLOB)),),
    ),
    Mail(
        "base64 with blanks and without padding",
        HEAD + b"Content-Type: application/octet-stream\r\n"
        b"Content-Transfer-Encoding: BASE64 \r\n\r\n"
        b" AAEC \r\n\t/w\r\n",
        parts=(((), ("", b"\0\1\2\xff")),),
    ),
    Mail(
        "8 bit in headers and in the body",
        b"From: =?iso-8859-1?q?J=F6rg?= <a@example.com>\r\n"
        b"Subject: caf\xc3\xa9 \xe2\x82\xac\r\nX-L1: caf\xe9\r\n"
        b"Content-Type: text/plain; charset=utf-8\r\n\r\n\xe2\x9c\x93 caf\xc3\xa9\r\n",
        "text/plain",
        (((), ("", "\u2713 caf\u00e9".encode())),),
        (("Subject", "caf\u00e9 \u20ac"),),
    ),
    Mail("a NUL", HEAD + b"Content-Type: text/plain\r\n\r\na\0b\r\n", "text/plain"),
)

SIGNATURE = b"application/pkcs7-signature"
KINDS = (
    Mail(
        "delivery status",
        HEAD + b"Content-Type: multipart/report; report-type=delivery-status; boundary=X\r\n\r\n"
        b"--X\r\n\r\nfailed\r\n"
        b"--X\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; x\r\n\r\n"
        b"Final-Recipient: rfc822; a@b\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n--X\r\n"
        b"Content-Type: text/rfc822-headers\r\n\r\nSubject: s\r\n--X--\r\n",
    ),
    Mail(
        "S/MIME",
        HEAD + b'Content-Type: multipart/signed; protocol="%s"; ' % SIGNATURE
        + b"micalg=sha-256; boundary=X\r\n\r\n"
        + TEXT + b"--X\r\nContent-Type: %s; name=smime.p7s\r\n" % SIGNATURE
        + b"Content-Transfer-Encoding: base64\r\n\r\nMIIB\r\n--X--\r\n",
        ("multipart/signed", ["text/plain", SIGNATURE.decode()]),
    ),
    Mail(
        "invitation",
        HEAD + b"Content-Type: multipart/alternative; boundary=X\r\n\r\n" + TEXT + b"--X\r\n"
        b"Content-Type: text/calendar; charset=UTF-8; method=REQUEST\r\n\r\n"
        b"BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n--X--\r\n",
        ("multipart/alternative", ["text/plain", "text/calendar"]),
    ),
    Mail(
        "winmail.dat",
        HEAD + b'Content-Type: application/ms-tnef; name="winmail.dat"\r\n'
        b"Content-Transfer-Encoding: base64\r\n\r\neJ8+Ig==\r\n",
        "application/ms-tnef",
        (((), ("winmail.dat", bytes.fromhex("789f3e22"))),),
    ),
    Mail(
        "types that are none",
        HEAD + MIXED + b"--X\r\nContent-Type: text\r\n\r\na\r\n"
        b"--X\r\nContent-Type:\r\n\r\nb\r\n"
        b"--X\r\nContent-Type: ; charset=x\r\n\r\nc\r\n--X\r\n\r\n--X--\r\n",
    ),
    Mail(
        "an attachment without bytes, and another one of its name",
        HEAD + MIXED + TEXT + b"--X\r\nContent-Type: application/pdf\r\n"
        b"Content-Disposition: attachment; filename=e.pdf\r\n\r\n\r\n"
        b"--X\r\nContent-Type: application/pdf\r\n"
        b"Content-Disposition: attachment; filename=e.pdf\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\nAQ==\r\n--X--\r\n",
        ("multipart/mixed", ["text/plain", "application/pdf", "application/pdf"]),
        (((0,), ("", b"a")), ((1,), ("e.pdf", b"")), ((2,), ("e.pdf", b"\1"))),
    ),
)

RECIPIENTS = b",\r\n ".join(b'"N, %d" <n%d@example.com>' % (n, n) for n in range(450))
HEADS = (
    Mail(
        "450 recipients, a group and comments",
        b"From: a@example.com\r\nTo: " + RECIPIENTS + b"\r\nSubject: s\r\n"
        b"Cc: undisclosed-recipients:;, Team: x@example.com (the (nested) one), y@example.com;\r\n"
        b"\r\nx\r\n",
        "text/plain",
        headers=(("To", "n449@example.com"),),
    ),
    Mail("headers alone", b"From: a@example.com\r\nSubject: alone\r\n"),
    Mail("headers and a blank line", b"From: a@example.com\r\n\r\n", "text/plain"),
    Mail("nothing", b"", may_be_refused=True),
    Mail("a blank line", b"\r\n", may_be_refused=True),
    Mail("a body alone", b"\r\nonly a body\r\n", may_be_refused=True),
    Mail(
        "a first line of mbox",
        b"From a@example.com Mon Jan 10 10:00:00 2022\r\n" + HEAD + b"\r\nx\r\n",
        may_be_refused=True,
    ),
)

CASES = (*BOUNDARIES, *ENCODINGS, *KINDS, *HEADS)
