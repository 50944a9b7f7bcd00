"""Mail in the shapes that it comes in, and what Python's email package makes of each.

`messages()` gives the corpus by name: built with the email package as a mail client builds mail, or written out as bytes where
no builder would write such a thing. `expected_tree(raw)` is a second opinion on any message: Python's parse of it as the tree
that the Gmail API shows, with the SHA-256 of each body in place of the body. Nothing here talks to a server.

    python corpus.py            lists the corpus
    python corpus.py NAME       writes one message to stdout

Windlass and Python differ on purpose in these, which the corpus therefore does without:

- A boundary that is used by a multipart and again by one within it. Python looks for the outer delimiters first and loses what
  follows the inner end; Windlass looks for the inner ones first.
- A delimiter right after a delimiter. Python takes them for one, Windlass for a part without anything between them.
- A blank before the colon of a header field. For Python the body begins there; Windlass lets it pass (RFC 5322, 4.5).
- An attached message under a transfer encoding. Python parses the encoded text; Windlass shows a file.
- Base64 with one character too many. Python gives the text back as it is; Windlass decodes what there is.
- A bare CR. For Python it ends a line.

Python takes `message/*` of every kind to pieces. Windlass does so with attached messages only and sees text in the others, such
as delivery reports; `expected_tree` follows Windlass here. Python converts no text; Windlass gives inline text in UTF-8, as
Gmail does, and so does `expected_tree`.
"""

import base64
import hashlib
import quopri
import sys
from email import message_from_bytes, policy
from email.header import Header, decode_header, make_header
from email.message import EmailMessage
from email.mime.application import MIMEApplication
from email.mime.audio import MIMEAudio
from email.mime.base import MIMEBase
from email.mime.image import MIMEImage
from email.mime.message import MIMEMessage
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from email.mime.text import MIMEText

SHAPES = {}
SHOWN_HEADERS = ("Subject", "From", "To")
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452") + bytes(range(256)) * 3
PDF = b"%PDF-1.7\n" + bytes(range(255, -1, -1)) * 40 + b"\n%%EOF\n"
RUSSIAN, JAPANESE, CHINESE = "Привет, как дела?\n", "こんにちは、元気ですか。\n", "你好，最近怎么样？\n"
ENVELOPE = (
    b"From: Ann <ann@example.com>\r\nTo: bob@example.com\r\nSubject: By hand\r\n"
    b"Date: Tue, 14 Nov 2023 22:13:20 +0000\r\nMessage-ID: <by-hand@example.com>\r\nMIME-Version: 1.0\r\n"
)


def messages():
    """The corpus: bytes by name, the same bytes every time."""
    return {name: as_sent(build()) for name, build in SHAPES.items()}


def expected_tree(raw):
    """Python's parse of a message as the tree of a Gmail payload. Sizes and digests are those of what a client gets."""
    linesep = "\r\n" if b"\r\n" in raw else "\n"
    return node(message_from_bytes(raw, policy=policy.compat32.clone(linesep=linesep)), "")


def shape(build):
    SHAPES[build.__name__] = build
    return build


def as_sent(message):
    if isinstance(message, bytes):
        return message
    for number, part in enumerate(message.walk()):
        if part.get_content_maintype() == "multipart" and part.get_boundary() is None:
            part.set_boundary(f"===============corpus=={number}==")
    return message.as_bytes(policy=message.policy.clone(linesep="\r\n"))


def addressed(message, subject="Hello", sender="Ann <ann@example.com>", to="Bob <bob@example.com>"):
    message["From"], message["To"], message["Subject"] = sender, to, subject
    message["Date"] = "Tue, 14 Nov 2023 22:13:20 +0000"
    message["Message-ID"] = "<corpus@example.com>"
    return message


def new(text=None, **headers):
    message = addressed(EmailMessage(), **headers)
    if text is not None:
        message.set_content(text)
    return message


def by_hand(rest):
    return ENVELOPE + rest


def with_files(*files):
    message = new("See the files.\n")
    for data, (maintype, subtype), name in files:
        message.add_attachment(data, maintype=maintype, subtype=subtype, filename=name)
    return message


# What mail clients send


@shape
def plain_text():
    return new("Hello Bob,\n\nhow are you?\n\nAnn\n")


@shape
def empty_text():
    return new("")


@shape
def html_only():
    message = new()
    message.set_content("<html><body><p>Hello &amp; <b>welcome</b></p></body></html>\n", subtype="html")
    return message


@shape
def plain_and_html():
    message = new("Hello\n")
    message.add_alternative("<p>Hello</p>\n", subtype="html")
    return message


@shape
def html_with_inline_image():
    message = new("Look\n")
    message.add_alternative('<img src="cid:logo@example.com">\n', subtype="html")
    message.get_payload()[1].add_related(PNG, "image", "png", cid="<logo@example.com>", filename="logo.png")
    return message


@shape
def inline_image_without_a_name():
    message = new('<img src="cid:x@example.com">\n')
    message.add_related(PNG, "image", "png", cid="<x@example.com>")
    return message


@shape
def everything_at_once():
    message = html_with_inline_image()
    message.add_attachment(PDF, maintype="application", subtype="pdf", filename="offer.pdf")
    message.add_attachment("a,b\n1,2\n", subtype="csv", filename="table.csv")
    return message


@shape
def one_file():
    return with_files((PDF, ("application", "pdf"), "report.pdf"))


@shape
def many_files():
    return with_files(*((PNG * n, ("image", "png"), f"picture {n}.png") for n in range(1, 40)))


@shape
def empty_file():
    return with_files((b"", ("application", "octet-stream"), "empty.bin"))


@shape
def file_without_a_name():
    message = with_files((PDF, ("application", "pdf"), None))
    return message


@shape
def only_a_file():
    message = new()
    message.set_content(PDF, maintype="application", subtype="pdf", disposition="attachment", filename="only.pdf")
    return message


@shape
def audio_and_video():
    message = addressed(MIMEMultipart())
    message.attach(MIMEAudio(b"\xff\xfb" * 500, "mpeg", name="voice.mp3"))
    video = MIMEBase("video", "mp4")
    video.set_payload(base64.encodebytes(b"ftyp" * 300))
    video.add_header("Content-Transfer-Encoding", "base64")
    video.add_header("Content-Disposition", "attachment", filename="clip.mp4")
    message.attach(video)
    return message


@shape
def text_file_attached():
    message = new("The log is attached.\n")
    message.add_attachment("línea 1\nlínea 2\n", filename="log.txt", charset="iso-8859-1")
    return message


@shape
def long_lines():
    return new("x" * 5000 + "\n" + "é" * 5000 + "\n")


@shape
def many_addresses():
    to = ", ".join(f"Person {n} <person{n}@example.com>" for n in range(200))
    return new("Hi all\n", to=to)


# Languages and charsets


def in_charset(text, charset, subject):
    message = addressed(MIMEText(text, "plain", charset), Header(subject, charset))
    return message


@shape
def utf_8():
    return new("naïve café — 你好 👋🏽\n", subject="Café 👋🏽", sender='"Zoë, Ünal" <zoe@example.com>')


@shape
def latin_1():
    return in_charset("Ça va très bien\n", "iso-8859-1", "Très bien")


@shape
def windows_1251():
    return in_charset(RUSSIAN, "windows-1251", "Привет")


@shape
def koi8_r():
    return in_charset(RUSSIAN, "koi8-r", "Привет")


@shape
def iso_2022_jp():
    return in_charset(JAPANESE, "iso-2022-jp", "こんにちは")


@shape
def shift_jis_8bit():
    head = b"Content-Type: text/plain; charset=Shift_JIS\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
    return by_hand(head + JAPANESE.encode("shift_jis"))


@shape
def gb18030_quoted_printable():
    body = quopri.encodestring(CHINESE.encode("gb18030"))
    return by_hand(b"Content-Type: text/html; charset=gb18030\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" + body)


@shape
def big5_and_euc_kr():
    message = addressed(MIMEMultipart("alternative"))
    message.attach(MIMEText("你好\n", "plain", "big5"))
    message.attach(MIMEText("안녕하세요\n", "html", "euc-kr"))
    return message


@shape
def eight_bits_without_a_charset():
    return by_hand(b"Content-Type: text/plain\r\nContent-Transfer-Encoding: 8bit\r\n\r\nna\xefve\r\n")


@shape
def unknown_charset():
    return by_hand(b"Content-Type: text/plain; charset=x-klingon\r\n\r\nnuqneH\r\n")


@shape
def right_to_left():
    return new("שלום עולם\n", subject="שלום", sender="דוד <david@example.com>")


@shape
def subject_over_many_lines():
    return new("x\n", subject="Ein sehr langer Betreff mit Umlauten äöü " * 8)


# Names of files


@shape
def name_in_rfc_2231():
    return with_files((PDF, ("application", "pdf"), "résumé – été.pdf"))


@shape
def name_in_many_pieces():
    return with_files((PDF, ("application", "pdf"), "ein sehr langer Name mit Ümläuten und mehr " * 6 + ".pdf"))


@shape
def name_in_koi8_r_and_pieces():
    return by_hand(
        b"Content-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment;\r\n"
        b" filename*0*=koi8-r'ru'%F0%D2%C9;\r\n filename*1*=%D7%C5%D4;\r\n filename*2=.pdf\r\n\r\n" + base64.encodebytes(PDF)
    )


@shape
def name_in_encoded_words():
    return by_hand(
        b'Content-Type: application/pdf;\r\n name="=?UTF-8?B?cmFwcG9ydCDDqXTDqS5wZGY=?="\r\nContent-Transfer-Encoding: base64\r\n'
        b'Content-Disposition: attachment;\r\n filename="=?UTF-8?B?cmFwcG9ydCDDqXTDqS5wZGY=?="\r\n\r\n' + base64.encodebytes(PDF)
    )


@shape
def name_only_in_the_type():
    message = addressed(MIMEMultipart())
    message.attach(MIMEImage(PNG, "png", name="scan 1.png"))
    return message


@shape
def name_with_quotes_and_semicolons():
    return with_files((PDF, ("application", "pdf"), 'a "quoted"; name.pdf'))


# Messages within messages, reports, signatures, invitations


@shape
def forwarded_message():
    message = new("See below.\n", subject="Fwd: Hello")
    message.add_attachment(plain_and_html())
    return message


@shape
def forwarded_twice():
    message = new("Again.\n", subject="Fwd: Fwd: Hello")
    message.add_attachment(forwarded_message())
    message.add_attachment(one_file())
    return message


@shape
def digest():
    message = addressed(MIMEMultipart("digest"))
    for number in range(3):
        message.attach(MIMEMessage(new(f"Number {number}\n", subject=f"Topic {number}")))
    return message


@shape
def delivery_report():
    status = (
        b"Reporting-MTA: dns; example.com\r\n\r\n"
        b"Final-Recipient: rfc822; bob@example.com\r\nAction: failed\r\nStatus: 5.1.1\r\n"
    )
    return by_hand(
        b'Content-Type: multipart/report; report-type=delivery-status; boundary="r"\r\n\r\n--r\r\n\r\nNo such user.\r\n'
        b"--r\r\nContent-Type: message/delivery-status\r\n\r\n" + status + b"\r\n--r\r\nContent-Type: message/rfc822\r\n\r\n"
        b"From: ann@example.com\r\nSubject: Lost\r\n\r\nHello\r\n\r\n--r--\r\n"
    )


@shape
def returned_headers():
    return by_hand(
        b"Content-Type: multipart/report; boundary=r\r\n\r\n--r\r\n\r\nFailed.\r\n"
        b"--r\r\nContent-Type: text/rfc822-headers\r\n\r\nFrom: ann@example.com\r\nSubject: Lost\r\n\r\n--r--\r\n"
    )


@shape
def signed_with_smime():
    message = addressed(MIMEMultipart("signed", protocol="application/pkcs7-signature", micalg="sha-256"))
    message.attach(MIMEText("Signed.\n"))
    signature = MIMEApplication(bytes(range(200)), "pkcs7-signature", name="smime.p7s")
    signature.add_header("Content-Disposition", "attachment", filename="smime.p7s")
    message.attach(signature)
    return message


@shape
def enveloped_with_smime():
    message = MIMEApplication(bytes(range(250)) * 4, "pkcs7-mime", name="smime.p7m")
    message.set_param("smime-type", "enveloped-data")
    return addressed(message)


@shape
def signed_with_pgp():
    message = addressed(MIMEMultipart("signed", protocol="application/pgp-signature", micalg="pgp-sha512"))
    message.attach(MIMEText("Signed.\n"))
    signature = MIMENonMultipart("application", "pgp-signature", name="signature.asc")
    signature.set_payload("-----BEGIN PGP SIGNATURE-----\n\nabc=\n-----END PGP SIGNATURE-----\n")
    message.attach(signature)
    return message


@shape
def invitation():
    event = "BEGIN:VCALENDAR\nMETHOD:REQUEST\nBEGIN:VEVENT\nSUMMARY:Café\nEND:VEVENT\nEND:VCALENDAR\n"
    message = new("You are invited.\n")
    message.add_alternative("<p>You are invited.</p>\n", subtype="html")
    message.add_alternative(event, subtype="calendar", params={"method": "REQUEST"})
    message.add_attachment(event.encode(), maintype="application", subtype="ics", filename="invite.ics")
    return message


@shape
def mailing_list():
    message = new("To the list.\n", subject="[cafes] Hello")
    message["List-Id"], message["List-Post"] = "Cafes <cafes.example.com>", "<mailto:cafes@example.com>"
    message.make_mixed()
    message.attach(MIMEText("-- \ncafes mailing list\n"))
    return message


# What no mail client should send


@shape
def bare_line_feeds():
    return as_sent(plain_and_html()).replace(b"\r\n", b"\n")


@shape
def mixed_line_ends():
    return by_hand(b"Content-Type: multipart/mixed; boundary=b\n\r\n--b\r\n\nline 1\r\nline 2\n\r\n--b\n\r\nline 3\n--b--\n")


@shape
def no_final_boundary():
    return by_hand(b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nfirst\r\n--b\r\n\r\nsecond\r\n")


@shape
def inner_boundary_never_ends():
    return by_hand(
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: multipart/alternative; boundary=c\r\n\r\n"
        b"--c\r\n\r\ninner\r\n--b\r\n\r\nouter\r\n--b--\r\n"
    )


@shape
def boundary_never_comes():
    return by_hand(b"Content-Type: multipart/mixed; boundary=b\r\n\r\nonly text\r\n--c\r\n")


@shape
def no_boundary_named():
    return by_hand(b"Content-Type: multipart/mixed\r\n\r\nonly text\r\n")


@shape
def boundaries_that_begin_alike():
    return by_hand(
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: multipart/alternative; boundary=b1\r\n\r\n"
        b"--b1\r\n\r\ninner\r\n--b1--\r\n--b\r\n\r\nouter --b\r\n--b--\r\nepilogue\r\n"
    )


@shape
def parts_without_anything():
    return by_hand(
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n--b\r\n\r\n\r\n"
        b"--b\r\nContent-Type: text/html\r\n\r\n--b--\r\n"
    )


@shape
def no_body_at_all():
    return ENVELOPE


@shape
def no_mime_version():
    return b"From: ann@example.com\r\nTo: bob@example.com\r\nContent-Type: text/html\r\n\r\n<p>old</p>\r\n"


@shape
def base64_with_junk():
    text = base64.encodebytes(b"hello world, this is decoded\n").replace(b"\n", b"*!\r\n")
    return by_hand(b"Content-Transfer-Encoding: base64\r\n\r\n" + text + b"\r\n-- \r\nfooter of a list\r\n")


@shape
def bad_quoted_printable():
    return by_hand(b"Content-Transfer-Encoding: quoted-printable\r\n\r\n1=1 =ZZ caf=C3=A9 soft=\r\nbreak =\r\n")


@shape
def type_that_is_none():
    return by_hand(b"Content-Type: nonsense\r\n\r\ntext\r\n")


@shape
def header_that_stops_early():
    return by_hand(b"X-Last: 1\r\nthis line has no name\r\nSubject: not this one\r\n\r\nbody\r\n")


@shape
def nuls_in_the_body():
    return by_hand(b"Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: binary\r\n\r\n\0\1\2\xff\r\n\0")


@shape
def line_of_a_mailbox_file():
    return b"From ann@example.com Tue Nov 14 22:13:20 2023\r\n" + by_hand(b"\r\nHello\r\n")


@shape
def deep_nesting():
    inner = MIMEText("the innermost\n")
    for level in range(15):
        outer = MIMEMultipart("mixed" if level % 2 else "alternative")
        outer.attach(inner)
        inner = outer
    return addressed(inner)


# Python's reading


def node(part, part_id):
    name, data = file_name(part), data_of(part)
    tree = {
        "partId": part_id,
        "mimeType": part.get_content_type(),
        "filename": name,
        "isAttachment": is_attachment(part),
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "headers": {name: header(part[name]).strip() for name in SHOWN_HEADERS if part[name] is not None},
    }
    children = children_of(part)
    if children:
        prefix = f"{part_id}." if part_id else ""
        tree["parts"] = [node(child, f"{prefix}{number}") for number, child in enumerate(children)]
    return tree


def children_of(part):
    is_tree = part.get_content_maintype() == "multipart" or is_message(part)
    return part.get_payload() if is_tree and part.is_multipart() else []


def data_of(part):
    if part.get_content_maintype() == "multipart" and part.is_multipart():
        return b""
    if part.get_content_maintype() == "message":
        return flattened(part)
    data = part.get_payload(decode=True)
    charset = part.get_content_charset() if part.get_content_maintype() == "text" else None
    return data if charset is None or is_attachment(part) else in_utf_8(data, charset)


def in_utf_8(data, charset):
    """Text in UTF-8, or as it is: what claims to be UTF-8 and what is in no charset that there is."""
    if charset in ("utf-8", "us-ascii"):
        return data
    try:
        return data.decode(charset, "replace").encode()
    except LookupError:
        return data


def flattened(part):
    """The body of a part that Python has taken to pieces, put together again."""
    separator = part.policy.linesep.encode() * 2
    return part.as_bytes(policy=part.policy.clone(max_line_length=0, mangle_from_=False)).split(separator, 1)[1]


def is_message(part):
    return part.get_content_type() in ("message/rfc822", "message/global")


def is_attachment(part):
    return bool(file_name(part)) or part.get_content_disposition() == "attachment" or is_message(part)


def file_name(part):
    return header(part.get_filename() or "")


def header(value):
    """The text of a header or of a file's name, of which Python leaves encoded words alone."""
    unfolded = str(value).replace("\r", "").replace("\n", "")
    return str(make_header(decode_header(unfolded)))


if __name__ == "__main__":
    corpus = messages()
    if len(sys.argv) > 1:
        sys.stdout.buffer.write(corpus[sys.argv[1]])
    else:
        for name, raw in corpus.items():
            print(f"{len(raw):7} {name}")
