"""google-api-python-client, unmodified, against Campaign Manager 360 and Play Games.

    ads.py BINARY

Everything runs against the descriptions that come with Windlass, and again against the published ones.
"""

import io
import json
import sys
import urllib.error
import urllib.request

import googleapiclient.errors as errors
from google.auth.credentials import AnonymousCredentials
from googleapiclient.discovery import build
from googleapiclient.http import MediaIoBaseUpload

import files
import published
from faults import CUT, FaultProxy
from report import Report
from resumable import to_the_end
from server import Server

KIB, MIB = 1024, 1024 * 1024
CHUNK = 256 * KIB
LIMIT = 15_728_640


def service(url, name, version):
    where = url + "/discovery/v1/apis/{api}/{apiVersion}/rest"
    return build(name, version, discoveryServiceUrl=where, credentials=AnonymousCredentials())


def upload(data, mimetype, **how):
    return MediaIoBaseUpload(io.BytesIO(data), mimetype=mimetype, **how)


def refusal(function, status, reason, words):
    """The library must see this status and this reason, and a message that says why."""
    try:
        function()
    except errors.HttpError as error:
        details = json.loads(error.content)["error"]
        assert error.resp.status == status, f"{error.resp.status}, not {status}: {details}"
        assert details["errors"][0]["reason"] == reason, f"{details['errors']}, not {reason}"
        assert words in details["message"], f"{details['message']!r}, not {words!r}"
    else:
        raise AssertionError("not refused")


def fetched(url):
    with urllib.request.urlopen(url) as reply:
        return reply.read()


class Assets:
    def __init__(self, url, version):
        self.service = service(url, "dfareporting", version)
        self.where = f"{url}/dfareporting/{version}/userprofiles/1/creativeAssets/2/creativeAssets/"

    def insert(self, name, asset_type, data, mimetype="application/octet-stream", **how):
        identifier = {"name": name, "type": asset_type}
        media = upload(data, mimetype, **how)
        assets = self.service.creativeAssets()
        request = assets.insert(profileId="1", advertiserId="2", body={"assetIdentifier": identifier}, media_body=media)
        return to_the_end(request) if how.get("resumable") else request.execute()

    def verified(self, name, asset_type, data, **how):
        asset = self.insert(name, asset_type, data, **how)
        assert asset["assetIdentifier"]["type"] == asset_type, asset
        assert asset["idDimensionValue"]["value"] == asset["id"], asset
        assert fetched(f"{self.where}{asset['id']}?alt=media") == data, "other bytes came back"
        return asset

    def refused(self, words, name, asset_type, data, reason="invalid", **how):
        refusal(lambda: self.insert(name, asset_type, data, **how), 400, reason, words)


def assets(report, server, version, whose):
    made = Assets(server.url, version)
    film = files.video(3 * MIB)

    def case(name, function):
        report.case(f"{whose} {version}: {name}", function)

    def bundle(**how):
        asset = made.verified("banner.zip", "HTML", files.bundle(), **how)
        tag = asset["clickTags"][0]
        assert tag["name"] == "clickTag", tag
        assert tag["clickThroughUrl"]["customClickThroughUrl"] == "https://shop.example/sale", tag
        assert asset["detectedFeatures"] == ["CANVAS", "CSS_BORDER_RADIUS", "POST_MESSAGE"], asset
        assert asset["warnedValidationRules"] == [], asset

    def page():
        asset = made.verified("page.html", "HTML", files.PAGE)
        assert asset["warnedValidationRules"] == ["LINKED_FILE_NOT_FOUND"], asset

    def renamed():
        first, second = (made.verified(f"twice {version}.png", "HTML_IMAGE", files.png()) for _ in range(2))
        names = [asset["assetIdentifier"]["name"] for asset in (first, second)]
        assert names == [f"twice {version}.png", f"twice {version}_2.png"], names
        assert first["id"] != second["id"], first

    def broken():
        """The connection dies three times in the middle of a chunk."""
        with FaultProxy(server.port, CUT, times=3, after=700 * KIB) as line:
            through = Assets(line.url, version)
            asset = through.insert("film.mp4", "VIDEO", film, resumable=True, chunksize=MIB)
            assert line.struck == 3, f"the line broke {line.struck} times"
            assert fetched(f"{made.where}{asset['id']}?alt=media") == film, "other bytes came back"

    def alone():
        request = made.service.creativeAssets().insert(
            profileId="1", advertiserId="2", media_body=upload(files.png(), "image/png"))
        refusal(request.execute, 400, "required", "assetIdentifier")

    case("an image, multipart", lambda: made.verified("logo.png", "HTML_IMAGE", files.png(300, 250), mimetype="image/png"))
    case("a JPEG image with much before its size", lambda: made.verified("photo.jpg", "HTML_IMAGE", files.jpeg()))
    case("a bundle, multipart", bundle)
    case("a bundle, resumable", lambda: bundle(resumable=True, chunksize=CHUNK))
    case("a page", page)
    case("a video, resumable in chunks", lambda: made.verified("film.mp4", "VIDEO", film, resumable=True, chunksize=CHUNK))
    case("a video, over a line that breaks", broken)
    case("sound", lambda: made.verified("song.mp3", "AUDIO", b"ID3\x04\0\0" + bytes(5000)))
    case("a name that is taken", renamed)
    case("no metadata", alone)
    case("another type than the bytes", lambda: made.refused(
        "a GIF image, declared as an asset of the type VIDEO", "a", "VIDEO", files.gif()))
    case("another suffix than the bytes", lambda: made.refused(
        "a GIF image, in a file named .png", "a.png", "HTML_IMAGE", files.gif()))
    case("a name with a slash", lambda: made.refused("can only contain", "a/b.png", "HTML_IMAGE", files.png()))
    case("an unknown type", lambda: made.refused("must be one of", "a.png", "PICTURE", files.png()))
    case("a bomb of zeros", lambda: made.refused("unpacks to 200 times", "a.zip", "HTML", files.bomb()))
    case("a bomb of zeros, resumable", lambda: made.refused("unpacks to 200 times", "a.zip", "HTML", files.bomb(), resumable=True))
    case("an archive of many files", lambda: made.refused("5000 files", "a.zip", "HTML", files.many()))
    case("an archive that claims to have many", lambda: made.refused("65534 files", "a.zip", "HTML", files.claims_many_entries()))
    case("an archive in an archive", lambda: made.refused("is a ZIP archive itself", "a.zip", "HTML", files.nested()))
    case("an archive that leads away", lambda: made.refused("unsafe name", "a.zip", "HTML", files.leads_away()))
    case("a damaged archive", lambda: made.refused("no list of its files", "a.zip", "HTML", files.bundle()[:-9]))
    case("an image of too many pixels", lambda: made.refused(
        "60000 x 60000 pixels", "a.png", "HTML_IMAGE", files.png(60_000, 60_000, real=False)))


def studio(report, server, version, whose):
    made = service(server.url, "dfareporting", version).studioCreativeAssets()

    def insert(**ids):
        return made.insert(body=ids, media_body=upload(files.png(), "image/png")).execute()

    def image():
        (asset,) = insert(studioAdvertiserId="7")["assets"]
        assert (asset["type"], asset["studioAdvertiserId"]) == ("IMAGE", "7"), asset
        assert int(asset["filesize"]) == len(files.png()), asset

    report.case(f"{whose} {version}: a file of Studio", image)
    report.case(f"{whose} {version}: a file of Studio, of nobody", lambda: refusal(
        lambda: insert(studioCreativeId="7"), 400, "required", "studioAdvertiserId"))


class Games:
    def __init__(self, url):
        self.images = service(url, "gamesConfiguration", "v1configuration").imageConfigurations()

    def upload(self, data, mimetype="image/png", image_type="ACHIEVEMENT_ICON", **how):
        media = upload(data, mimetype, **how)
        request = self.images.upload(resourceId="res-1", imageType=image_type, media_body=media)
        return to_the_end(request) if how.get("resumable") else request.execute()

    def verified(self, data, **how):
        image = self.upload(data, **how)
        assert image["kind"] == "gamesConfiguration#imageConfiguration", image
        assert image["resourceId"] == "res-1", image
        assert fetched(image["url"]) == data, "other bytes came back"
        return image

    def refused(self, words, data, reason="invalid", **how):
        refusal(lambda: self.upload(data, **how), 400, reason, words)


def raw(url, data, mimetype):
    """The status and the reason of a simple upload without the library."""
    request = urllib.request.Request(url, data=data, headers={"Content-Type": mimetype}, method="POST")
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, None
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)["error"]["errors"][0]["reason"]


def games(report, server, whose):
    made = Games(server.url)
    path = "/games/v1configuration/images/res-2/imageType/LEADERBOARD_ICON"

    def case(name, function):
        report.case(f"{whose} Play Games: {name}", function)

    def replaced():
        first = made.verified(files.png(8, 8))
        second = made.verified(files.jpeg(), mimetype="image/jpeg")
        assert first["url"] == second["url"], second

    def by_hand(data, mimetype, expected, upload_path="/upload" + path + "?uploadType=media"):
        def run():
            found = raw(server.url + upload_path, data, mimetype)
            assert found == expected, f"{found}, not {expected}"
        return run

    case("an icon", lambda: made.verified(files.png(512, 512)))
    case("an icon, resumable", lambda: made.verified(files.png(512, 512), resumable=True))
    case("another icon in its place", replaced)
    case("the other type", lambda: made.verified(files.png(), image_type="LEADERBOARD_ICON"))
    case("a GIF image", lambda: made.refused("an icon is a PNG or a JPEG image", files.gif(), mimetype="image/gif"))
    case("text", lambda: made.refused("not a PNG", b"text"))
    case("another type than declared", lambda: made.refused("a JPEG image, declared as image/png", files.jpeg()))
    case("an image that is cut off", lambda: made.refused("cut off", files.png(512, 512)[:-20]))
    case("a bomb", lambda: made.refused("60000 x 60000 pixels", files.png(60_000, 60_000, real=False)))
    case("by hand", by_hand(files.png(), "image/png", (200, None)))
    case("by hand, no image", by_hand(b"text", "image/png", (400, "invalid")))
    case("by hand, of a type that is not taken", by_hand(b"text", "text/plain", (400, "badRequest")))
    case("by hand, one byte too many", by_hand(bytes(LIMIT + 1), "image/png", (413, "uploadTooLarge")))
    case("by hand, to the plain URI", by_hand(files.png(), "image/png", (400, "wrongUrlForUpload"), path))
    unspecified = path.replace("LEADERBOARD_ICON", "IMAGE_TYPE_UNSPECIFIED")
    case("by hand, of no type", by_hand(
        files.png(), "image/png", (400, "invalidParameter"), "/upload" + unspecified + "?uploadType=media"))


def served(report, whose, binary, apis, versions, with_studio):
    options = [word for api in apis for word in ("--api", api)]
    server = Server(binary, *options)
    try:
        for version in versions:
            assets(report, server, version, whose)
        for version in with_studio:
            studio(report, server, version, whose)
        games(report, server, whose)

        def stops():
            assert server.stop() == 0, "it did not drain"
        report.case(f"{whose}: the server drains and exits with 0", stops)
    finally:
        server.remove()


def main():
    binary = sys.argv[1]
    report = Report()
    versions = ["v4", "v5"]
    served(report, "ours", binary, ["dfareporting", "gamesConfiguration"], versions, versions)
    theirs = [published.current(f"dfareporting.{version}.json") for version in ("v3.3", "v4", "v5")]
    apis = [*theirs, published.with_images(sys.prefix)]
    served(report, "published", binary, apis, ["v3.3", *versions], versions)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
