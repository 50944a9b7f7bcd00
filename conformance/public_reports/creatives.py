"""Campaign Manager 360: HTML creatives in ZIP archives as tools write them."""

import io
import zipfile

from rules import reported
from samples import PNG, multipart

PAGE = (
    b"<!DOCTYPE html><html><head><meta name='ad.size' content='width=300,height=250'>"
    b"<script>var clickTag = 'https://example.com/';</script></head><body>"
    b"<a href='javascript:window.open(window.clickTag)'><img src='img/a.png'></a></body></html>"
)
FILES = (("index.html", PAGE), ("img/a.png", PNG))
WARNINGS = {
    "PRIMARY_HTML_MISSING", "LINKED_FILE_NOT_FOUND", "ORPHANED_ASSET", "ASSET_INVALID",
    "CLICK_TAG_MISSING", "FILE_TYPE_INVALID",
}
UPLOAD = (
    "/upload/dfareporting/v5/userprofiles/1/creativeAssets/2/creativeAssets?uploadType=multipart"
)


class Pipe(io.RawIOBase):
    """A stream that cannot seek: `zipfile` then writes the sizes behind the data."""

    def __init__(self):
        super().__init__()
        self.bytes = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.bytes += data
        return len(data)


def archive(entries, method=zipfile.ZIP_DEFLATED, stream=False, comment=b""):
    out = Pipe() if stream else io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        for name, data in entries:
            made.writestr(name, data)
        made.comment = comment
    return bytes(out.bytes) if stream else out.getvalue()


def entry(name, mode, system=None):
    """An entry with a mode of Unix: a folder or a link."""
    made = zipfile.ZipInfo(name)
    made.external_attr = mode << 16
    made.create_system = made.create_system if system is None else system
    return made


def uploaded(server, data):
    metadata = {"assetIdentifier": {"name": "z.zip", "type": "HTML"}}
    return multipart(server, UPLOAD, metadata, "application/zip", data)


def good_archives():
    """Archives, and whether nothing in them is worth a warning."""
    stored, utf8 = zipfile.ZIP_STORED, "b\u00e4r \u2713.png"
    yield "deflated", archive(FILES), True
    yield "stored", archive(FILES, stored), True
    yield "sizes behind the data", archive(FILES, stream=True), True
    yield "stored, sizes behind the data", archive(FILES, stored, stream=True), True
    yield "a comment", archive(FILES, comment=b"made by a tool" * 100), True
    yield "an entry for the folder", archive([(entry("img/", 0o40755), b""), *FILES]), True
    yield "all in a folder", archive([(f"banner/{name}", data) for name, data in FILES]), True
    yield "another order", archive(reversed(FILES)), True
    yield "a byte order mark", archive([("index.html", b"\xef\xbb\xbf" + PAGE), FILES[1]]), True
    page = PAGE.replace(b"a.png", utf8.encode())
    yield "names in UTF-8", archive([("index.html", page), (f"img/{utf8}", PNG)]), False
    other = archive([*FILES, ("img/bAr.txt", b"x")])
    yield "names in code page 437", other.replace(b"img/bAr.txt", b"img/b\x84r.txt"), False
    of_macs = [("__MACOSX/._index.html", b"\0\5\26\7" + b"x" * 80), (".DS_Store", b"\0\0\0\1Bud1")]
    yield "files of macOS", archive([*FILES, *of_macs]), False


def bad_archives():
    encrypted = bytearray(archive(FILES))
    encrypted[6] |= 1
    encrypted[encrypted.index(b"PK\1\2") + 8] |= 1
    yield "encrypted", bytes(encrypted)
    yield "truncated", archive(FILES)[:-30]
    yield "leaves the archive", archive([*FILES, ("../../etc/x", b"x")])
    yield "absolute", archive([*FILES, ("/etc/x", b"x")])
    yield "a link", archive([*FILES, (entry("img/l", 0o120777, system=3), b"/etc/passwd")])
    yield "an archive within", archive([*FILES, ("in.zip", archive(FILES))])
    damaged = bytearray(archive(FILES, zipfile.ZIP_STORED))
    damaged[damaged.index(b"clickTag = ")] ^= 1
    yield "a wrong checksum", bytes(damaged)
    yield "no ZIP", b"PK\3\4 but no more"


@reported("APPNOTE 4.3.9, 4.4.4 and Appendix D of ZIP")
def archives_are_read_as_tools_write_them(server, expect):
    """ZIP creatives are read however tools write them, and refused where they are no archive."""
    for what, data, clean in good_archives():
        reply = uploaded(server, data)
        expect.same(reply.status, 200, what, reply)
        tags = [it.get("name") for it in reply.json.get("clickTags", [])]
        expect.same(tags, ["clickTag"], what, "click tags")
        warned = WARNINGS & set(reply.json.get("warnedValidationRules", []))
        expect.true(not (clean and warned), what, warned)
    for what, data in bad_archives():
        expect.same(uploaded(server, data).status, 400, what)
    reply = uploaded(server, archive([]))
    missing = "PRIMARY_HTML_MISSING" in reply.json.get("warnedValidationRules", [])
    expect.true(reply.status == 400 or missing, "nothing in it", reply)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made, made.open("index.html", "w", force_zip64=True) as page:
        page.write(PAGE)
    reply = uploaded(server, out.getvalue())
    expect.true(reply.status in (200, 400), "zip64", reply)
