"""YouTube: videos, and the images and captions that belong to them."""

import struct
import zlib

from library import CHUNK, LIBRARY, MIB, raw, refused, same, upload
from report import media
from resumable import to_the_end

SMALL, LARGE = media(1000), media(3 * MIB + 12_345, seed=3)


def png(width=1280, height=720):
    """A black PNG."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(height * (width + 1)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def cases(report, server, youtube):
    for part in uploads, images, captions, refusals:
        part(report, youtube, server)


def insert(youtube, data=SMALL, part="snippet,status", **how):
    body = {"snippet": {"title": "Llama", "tags": ["a"], "categoryId": "15"}, "status": {"privacyStatus": "private"}}
    return youtube.videos().insert(part=part, body=body, media_body=upload(data, "video/mp4", **how))


def uploads(report, youtube, server):
    def whole(request):
        video = to_the_end(request) if request.resumable else request.execute()
        same((video["kind"], video["snippet"]["title"], video["status"]["uploadStatus"]), ("youtube#video", "Llama", "uploaded"))
        same(raw(f"{server.url}/youtube/v3/videos/{video['id']}"), (200, LARGE))

    def life():
        video = insert(youtube).execute()["id"]
        listed = youtube.videos().list(part="snippet,status,fileDetails", id=video).execute()["items"][0]
        same((listed["status"]["privacyStatus"], listed["fileDetails"]["fileSize"]), ("private", "1000"))
        body = {"id": video, "snippet": {"title": "Alpaca", "categoryId": "15"}}
        same(youtube.videos().update(part="snippet", body=body).execute()["snippet"]["title"], "Alpaca")
        youtube.videos().delete(id=video).execute()
        same(youtube.videos().list(part="id", id=video).execute()["items"], [])
        refused(youtube.videos().delete(id=video), 404, "videoNotFound")

    def inserted(**how):
        return lambda: whole(insert(youtube, LARGE, **how))

    report.case("videos.insert, multipart", inserted(), LIBRARY, "multipart")
    report.case("videos.insert, resumable", inserted(resumable=True), LIBRARY, "resumable")
    report.case("videos.insert, 256 KiB chunks", inserted(resumable=True, chunksize=CHUNK), LIBRARY, "chunks")
    report.case("videos: insert, list, update, delete", life)


def images(report, youtube, _):
    image = png()

    def thumbnails():
        video = insert(youtube).execute()["id"]
        for how in {}, {"resumable": True}:
            set_to = youtube.thumbnails().set(videoId=video, media_body=upload(image, "image/png", **how)).execute()
            high = set_to["items"][0]["high"]
            same((raw(high["url"]), high["width"], high["height"]), ((200, image), 1280, 720))
        listed = youtube.videos().list(part="snippet", id=video).execute()["items"][0]
        same(listed["snippet"]["thumbnails"]["high"], high)

    def banner():
        made = youtube.channelBanners().insert(body={}, media_body=upload(image, "image/png")).execute()
        same(raw(made["url"]), (200, image))

    def watermark():
        body = {"timing": {"type": "offsetFromStart", "offsetMs": "0"}}
        youtube.watermarks().set(channelId="UCbarn", body=body, media_body=upload(image, "image/png")).execute()
        youtube.watermarks().unset(channelId="UCbarn").execute()
        refused(youtube.watermarks().unset(channelId="UCbarn"), 404, "notFound")

    def playlist():
        all_of = youtube.playlistImages()
        body = {"snippet": {"playlistId": "PLbarn", "type": "hero"}}
        made = all_of.insert(part="snippet", body=body, media_body=upload(image, "image/png")).execute()
        same((made["snippet"]["width"], made["snippet"]["height"]), (1280, 720))
        smaller = upload(png(640, 360), "image/png")
        made = all_of.update(part="snippet", body={**body, "id": made["id"]}, media_body=smaller).execute()
        same(made["snippet"]["width"], 640)
        listed = all_of.list(part="snippet", parent="PLbarn").execute()["items"]
        same(listed, [made])
        all_of.delete(id=made["id"]).execute()
        same(all_of.list(part="snippet", parent="PLbarn").execute()["items"], [])

    report.case("thumbnails.set", thumbnails)
    report.case("channelBanners.insert", banner)
    report.case("watermarks.set and unset", watermark)
    report.case("playlistImages: insert, update, list, delete", playlist)


def captions(report, youtube, _):
    def life():
        video = insert(youtube).execute()["id"]
        tracks = youtube.captions()
        body = {"snippet": {"videoId": video, "language": "en", "name": "English", "isDraft": True}}
        made = tracks.insert(part="snippet", body=body, media_body=upload(b"0:00 moo", "text/plain", resumable=True)).execute()
        refused(tracks.insert(part="snippet", body=body, media_body=upload(b"x")), 409, "captionExists")
        same(tracks.download(id=made["id"]).execute(), b"0:00 moo")
        same(tracks.download_media(id=made["id"]).execute(), b"0:00 moo")
        change = {"id": made["id"], "snippet": {"videoId": video, "isDraft": False}}
        tracks.update(part="snippet", body=change, media_body=upload(b"0:00 meow")).execute()
        listed = tracks.list(part="snippet", videoId=video).execute()["items"]
        same([(it["id"], it["snippet"]["isDraft"]) for it in listed], [(made["id"], False)])
        same(tracks.download(id=made["id"]).execute(), b"0:00 meow")
        tracks.delete(id=made["id"]).execute()
        same(tracks.list(part="snippet", videoId=video).execute()["items"], [])

    report.case("captions: insert, download, update, list, delete", life)


def refusals(report, youtube, server):
    def too_large():
        url = f"{server.url}/upload/youtube/v3/thumbnails/set?videoId=none&uploadType=media"
        status, _ = raw(url, "POST", b"", Content_Type="image/png", X_Upload_Content_Length="0")
        same(status, 404)
        url = f"{server.url}/upload/youtube/v3/videos?part=snippet&uploadType=resumable"
        status, body = raw(url, "POST", b"", X_Upload_Content_Length=str((256 << 30) + 1))
        same((status, b"uploadTooLarge" in body), (413, True))

    def not_an_image():
        video = insert(youtube).execute()["id"]
        refused(youtube.thumbnails().set(videoId=video, media_body=upload(SMALL, "image/png")), 400, "invalidImage")

    report.case("a part that is none", lambda: refused(insert(youtube, part="snippet,feathers"), 400, "unknownPart"))
    report.case("a video that there is not", lambda: refused(
        youtube.thumbnails().set(videoId="none", media_body=upload(png(), "image/png")), 404, "videoNotFound"))
    report.case("a thumbnail that is no image", not_an_image)
    report.case("too large a video", too_large)
