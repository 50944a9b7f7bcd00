"""Files for creative assets and icons, good ones and bad ones, made on the spot."""

import io
import struct
import zipfile
import zlib

PAGE = b"""<!DOCTYPE html><html><head><meta name="ad.size" content="width=300,height=250">
<style>div { border-radius: 4px }</style><script>var clickTag = "https://shop.example/sale";</script></head>
<body><div><canvas></canvas><img src="img/logo.png"></div></body></html>"""


def png(width=4, height=4, real=True):
    """An image that can be decoded; with `real` unset, only a header that promises this size."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    lines = (b"\0" + b"\x40\x80\xc0" * width) * height if real else b""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def jpeg():
    """A header with metadata before it; nobody decodes it here."""
    def segment(marker, data):
        return b"\xff" + bytes([marker]) + struct.pack(">H", len(data) + 2) + data

    frame = struct.pack(">BHHB", 8, 250, 300, 1) + b"\1\x11\0"
    return b"\xff\xd8" + segment(0xE1, b"Exif\0\0" + bytes(60_000)) + segment(0xC2, frame) + segment(0xDA, b"\1\1\0\0\x3f\0") + b"\xff\xd9"


def gif():
    return b"GIF89a" + struct.pack("<HH", 3, 3) + b"\0\0\0;"


def video(length):
    return b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + bytes(range(256)) * (length // 256)


def archive(files):
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return into.getvalue()


def bundle():
    return archive({"index.html": PAGE, "img/logo.png": png()})


def bomb():
    """100 MB of zeros in 100 KB."""
    return archive({"index.html": PAGE, "zeros.png": bytes(100_000_000)})


def many():
    return archive({f"{number}.js": b"" for number in range(5000)})


def claims_many_entries():
    """An end record that promises 65,534 entries, and none of them."""
    return b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 65_534, 65_534, 0, 0, 0)


def nested():
    return archive({"index.html": PAGE, "inner.png": bundle()})


def leads_away():
    return archive({"index.html": PAGE, "../../etc/cron.d/job": b"x"})
