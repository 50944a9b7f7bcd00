"""The recipes of docs/proxies.md: a proxy with its configuration as the document has it, before a server with its command there."""

import contextlib
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import time

RECIPES = pathlib.Path(__file__).resolve().parent.parent / "docs/proxies.md"
NAMES = "nginx", "haproxy", "caddy"
# Of the document's blocks.
LANGUAGES = {"nginx": "nginx", "haproxy": "haproxy", "caddy": "caddyfile", "haproxy tcp": "haproxy tcp"}
PATIENCE = 30


def recipe(language):
    text = RECIPES.read_text(encoding="utf-8")
    return re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)[1]


def arguments(public_url):
    """Those of `windlass serve` in the document, but for the name and the data, which are of this machine."""
    return after_data(recipe("sh").replace("https://up.example.com", public_url))


def tcp_arguments(public_url, certificates):
    """As `arguments`, for a proxy that passes TLS on."""
    _, command = recipe("sh tcp").splitlines()
    _, chain, _, key = certificates.options
    command = command.replace("--listen 127.0.0.1:8443 ", "").replace("https://up.example.com", public_url)
    return after_data(command.replace("/etc/ssl/up.example.com.pem", chain).replace("/etc/ssl/up.example.com.key", key))


def tcp_settings():
    """The settings of the document for a proxy that passes TLS on."""
    export, _ = recipe("sh tcp").splitlines()
    name, _, value = export.removeprefix("export WINDLASS_").partition("=")
    return {name.lower(): value}


def after_data(command):
    command = shlex.split(command)
    at = command.index("--data")
    assert command[:2] == ["windlass", "serve"], command
    return command[2:at] + command[at + 2:]


def url_of(port):
    return f"https://localhost:{port}"


class Proxy:
    """A proxy with the configuration of its recipe: only ports, files and names are of this machine."""

    def __init__(self, name, port, server, certificates, folder):
        self.port, self.url, self.folder = port, url_of(port), folder
        text = re.sub(r"127\.0\.0\.1:8(080|443)", f"127.0.0.1:{server.port}", recipe(LANGUAGES[name]))
        text, command = getattr(self, name.partition(" ")[0])(text, certificates)
        pathlib.Path(folder, "configuration").write_text(text, encoding="utf-8")
        self.log = open(os.path.join(folder, "log"), "wb")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=self.environment())
        try:
            self.until_it_listens()
        except RuntimeError:
            self.stop()
            raise

    def nginx(self, text, certificates):
        folder, (_, chain, _, key) = self.folder, certificates.options
        places = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{self.port} ssl").replace("http {", f"http {{ {places}", 1)
        text = text.replace("/etc/ssl/up.example.com.pem", chain).replace("/etc/ssl/up.example.com.key", key)
        text = text.replace("/var/log/nginx", folder)
        text = text.replace("up.example.com", "localhost")
        head = f"daemon off; pid {folder}/pid; error_log {folder}/error.log;" + (" user root;" if os.geteuid() == 0 else "")
        return f"{head}\n{text}", ["nginx", "-p", folder, "-e", f"{folder}/error.log", "-c", f"{folder}/configuration"]

    def haproxy(self, text, certificates):
        _, chain, _, key = certificates.options
        both = pathlib.Path(self.folder, "both.pem")
        both.write_text(pathlib.Path(chain).read_text(encoding="utf-8") + pathlib.Path(key).read_text(encoding="utf-8"), encoding="utf-8")
        text = text.replace("bind :443", f"bind 127.0.0.1:{self.port}").replace("/etc/ssl/up.example.com.pem", str(both))
        return text, ["haproxy", "-db", "-f", f"{self.folder}/configuration"]

    def caddy(self, text, certificates):
        _, chain, _, key = certificates.options
        text = text.replace("/etc/ssl/up.example.com.pem", chain).replace("/etc/ssl/up.example.com.key", key)
        options = ("admin off", "auto_https disable_redirects", "skip_install_trust", "default_bind 127.0.0.1")
        text = "{\n\t" + "\n\t".join(options) + "\n}\n" + text.replace("up.example.com", f"localhost:{self.port}")
        return text, ["caddy", "run", "--adapter", "caddyfile", "--config", f"{self.folder}/configuration"]

    def environment(self):
        """With the libraries of the packages that are unpacked, and not installed."""
        return {**os.environ, "HOME": self.folder, "LD_LIBRARY_PATH": os.environ.get("UNPACKED_LIBRARIES", "")}

    def until_it_listens(self):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)
        raise RuntimeError(f"it does not listen: {pathlib.Path(self.log.name).read_text(encoding='utf-8')}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        ended = self.process.poll()
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)
        self.log.close()
        if ended is not None:
            said = pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace")
            print(f"{self.process.args[0]} has ended by itself, with {ended}, and said last:\n{said[-4000:]}", file=sys.stderr)
