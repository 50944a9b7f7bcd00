"""Listeners for a browser: pages of an origin, and a beacon that notes who asks it."""

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Site:
    """An origin of its own: a blank page, and what it is given, by path: a type and bytes."""

    def __init__(self):
        self.files = {"/": ("text/html", b"<!doctype html><title>page</title><body><script src=/uploads.js></script>")}
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "uploads.js"), "rb") as file:
            self.files["/uploads.js"] = ("text/javascript", file.read())
        self.asked = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                site.asked.append(self.path)
                content_type, body = site.files.get(self.path, ("text/plain", b""))
                self.send_response(200)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Access-Control-Allow-Origin", "*")
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.listener.server_port}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def add(self, path, content_type, body):
        self.files[path] = (content_type, body)
        return self.url + path

    def close(self):
        self.listener.shutdown()
        self.listener.server_close()
