"""What is uploaded: media of many types, and parameters and metadata that make sense to the service.

Most methods take anything. Those of services whose rules a server may know get what the service would want.
"""

import itertools
import re
import struct
import zlib

from report import media

NUMBERS = itertools.count(1)

# Parameters by the name of the API; the first match counts, before what the description suggests.
PARAMETERS = {
    "analytics": {"customDataSourceId": "cows-cows-cows-cows-12"},
    "gmail": {"userId": "me"},
    "storage": {"bucket": "barn"},
    "dfareporting": {"profileId": "1", "advertiserId": "2"},
    "youtube": {"part": "id,snippet", "channelId": "UCbarn", "videoId": "none"},
}

# Metadata by the id of the method.
ASSET = {"assetIdentifier": {"name": "cow.png", "type": "IMAGE"}}
METADATA = {
    "dfareporting.creativeAssets.insert": ASSET,
    "dfareporting.media.upload": ASSET,
    "dfareporting.studioCreativeAssets.insert": {"studioAccountId": "1", "studioAdvertiserId": "2", "studioCreativeId": "3"},
    # Version 3 shows four fields unless it is asked for others.
    "drive.files.create": {"name": "cow"},
    "drive.files.update": {"description": "A cow."},
    "storage.objects.insert": {"contentLanguage": "en", "metadata": {"colour": "brown"}},
    "youtube.videos.insert": {"snippet": {"title": "Cows"}, "status": {"privacyStatus": "private"}},
    "youtube.captions.insert": {"snippet": {"videoId": "none", "language": "en", "name": "moo"}},
    "youtube.playlistImages.insert": {"snippet": {"playlistId": "PLbarn", "type": "hero"}},
    "youtube.watermarks.set": {"timing": {"type": "offsetFromStart", "offsetMs": "0"}, "targetChannelId": "UCbarn"},
}

# The type of the media, where the metadata says what it is.
MEDIA_TYPES = {"dfareporting": "image/png"}

# Methods that a service refuses without metadata: of a simple upload, that is an answer as well.
NEED_METADATA = {
    "dfareporting.creativeAssets.insert", "dfareporting.media.upload", "dfareporting.studioCreativeAssets.insert",
    "gmail.users.drafts.send", "youtube.captions.insert", "youtube.captions.update", "youtube.playlistImages.insert",
    "youtube.playlistImages.update", "youtube.videos.insert", "youtube.watermarks.set",
}

# Fields that a client would fill in, where the request schema has them.
TELLING = {"displayName": "Llama", "description": "A llama.", "title": "Llama", "filename": "llama.bin", "fileName": "llama.bin"}


def parameters(method):
    """Values for the required parameters, by name."""
    known = PARAMETERS.get(method.document["name"], {})
    values = {}
    for name, described in method.parameters.items():
        if described.get("required"):
            values[name] = known.get(name) or _value(described)
    if method.id == "storage.objects.insert":
        values["name"] = f"cow-{next(NUMBERS)}"
    return values


def _value(described):
    if described.get("enum"):
        value = described["enum"][-1]
    elif described.get("type") == "integer" or described.get("format") in ("int64", "uint64"):
        value = str(next(NUMBERS))
    elif "pattern" in described:
        number = next(NUMBERS)
        value = re.sub(r"\[\^/\]\+|\.\*", f"x{number}", described["pattern"].strip("^$")).replace(r"\d+", str(number))
    else:
        value = f"x{next(NUMBERS)}"
    return [value] if described.get("repeated") else value


def metadata(method):
    """Metadata, and the fields of it that the reply has to show again."""
    if method.id in METADATA:
        return METADATA[method.id], {}
    schema = method.document["schemas"][method.request]
    if method.id == "artifactregistry.projects.locations.repositories.files.upload":
        return {"fileId": f"cow-{next(NUMBERS)}"}, {}
    for name, field in schema.get("properties", {}).items():
        inner = method.document["schemas"].get(field.get("$ref"), {})
        if inner and method.request != method.response.get("$ref"):
            telling = _telling(inner)
            if telling:
                return {name: telling}, telling
    telling = _telling(schema)
    return telling, telling


def _telling(schema):
    properties = schema.get("properties", {})
    return {
        name: value for name, value in TELLING.items()
        if properties.get(name, {}).get("type") == "string" and not properties[name].get("readOnly")
    }


def media_type_for(method):
    """The type of the media that is sent to a method."""
    accept = method.upload.get("accept", ["*/*"])
    if "image/png" in accept:
        return "image/png"
    return MEDIA_TYPES.get(method.document["name"]) or media_type(accept[0])


def media_type(accept):
    """A type of a range."""
    wildcards = {"*/*": "application/octet-stream", "image/*": "image/png", "video/*": "video/mp4", "message/*": "message/rfc822"}
    return wildcards.get(accept, accept)


def media_of(content_type, length):
    """Media of this type. Text is ASCII: the library cannot put other bytes beside metadata."""
    noise = media(length, seed=next(NUMBERS))
    if content_type.startswith("message/"):
        head = b"From: cow@farm.example\r\nTo: llama@farm.example\r\nSubject: Moo\r\n\r\n"
        lines = re.sub(b"(.{76})", rb"\1\r\n", noise.hex().encode())
        return (head + lines)[:length]
    if content_type.startswith("text/"):
        return (b"<moo>" + noise.hex().encode())[:length - 6] + b"</moo>"
    if content_type == "image/png":
        return _png(noise, length)
    return noise


def _png(noise, length):
    """A grey PNG of 2560 x 1440, filled up with noise to this length."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2560, 1440, 8, 0, 0, 0, 0))
    tail = chunk(b"IDAT", zlib.compress(bytes(1440 * 2561), 9)) + chunk(b"IEND", b"")
    return head + chunk(b"noIs", noise[:length - len(head) - len(tail) - 12]) + tail
