"""The service behind the photo album: counts likes, and makes a thumbnail of each photo that was uploaded.

    service.py PORT SERVER SECRET_FILE

Needs Pillow, for the thumbnails: pip install pillow
"""

import base64
import hashlib
import hmac
import io
import json
import sys
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from PIL import Image, UnidentifiedImageError

SIDE = 200
TOLERANCE = 5 * 60


def is_signed(secret, headers, body):
    """Whether a request comes from the server and is not an old one: https://www.standardwebhooks.com."""
    sent = headers.get("webhook-timestamp", "")
    if not sent.isdigit() or abs(time.time() - int(sent)) > TOLERANCE:
        return False
    signed = f"{headers.get('webhook-id', '')}.{sent}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
    signatures = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(expected, signature) for signature in signatures)


def like(call):
    """What the server does with the photo: the fields that change."""
    return {"fields": {"likes": call["resource"]["likes"] + 1}}


def finished(server, event):
    """Makes a thumbnail. Doing it twice does no harm, so the id of the event need not be remembered."""
    photo = event["data"]["resource"]
    if not photo["mimeType"].startswith("image/"):
        return
    url = f"{server}/album/v1/photos/{photo['id']}"
    try:
        with urllib.request.urlopen(f"{url}?alt=media") as media:
            image = Image.open(media).convert("RGB")
    except (urllib.error.HTTPError, UnidentifiedImageError):
        return  # It was deleted meanwhile, or is no picture.
    image.thumbnail((SIDE, SIDE))
    thumbnail = io.BytesIO()
    image.save(thumbnail, "JPEG")
    fields = {"thumbnail": base64.b64encode(thumbnail.getvalue()).decode()}
    patch = urllib.request.Request(url, json.dumps(fields).encode(), {"Content-Type": "application/json"}, method="PATCH")
    urllib.request.urlopen(patch).close()


def main():
    port, server = int(sys.argv[1]), sys.argv[2]
    with open(sys.argv[3], encoding="ascii") as file:
        secret = base64.b64decode(file.read())

    class Service(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if not is_signed(secret, self.headers, body):
                return self.answer(403, {"error": "the signature is wrong"})
            if self.path == "/like":
                return self.answer(200, like(json.loads(body)))
            finished(server, json.loads(body))
            return self.answer(200, {})

        def answer(self, status, reply):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

    ThreadingHTTPServer(("127.0.0.1", port), Service).serve_forever()


if __name__ == "__main__":
    main()
