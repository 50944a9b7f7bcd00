"""A headless Chromium, driven by the DevTools protocol over pipes."""

import fcntl
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading

PATIENCE = 60
FLAGS = ("--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-default-browser-check")


class Failed(Exception):
    """What Chromium said of a command, or what a page has thrown."""


class Chromium:
    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="conformance-chromium-")
        # Chromium refuses to run as root with its sandbox.
        root = ("--no-sandbox",) if os.geteuid() == 0 else ()
        command = [program(), *FLAGS, *root, f"--user-data-dir={self.profile}", "about:blank"]
        (theirs_in, ours_out), (ours_in, theirs_out) = high_pipe(), high_pipe()

        def as_3_and_4():
            os.dup2(theirs_in, 3)
            os.dup2(theirs_out, 4)

        self.process = subprocess.Popen(command, preexec_fn=as_3_and_4, pass_fds=(3, 4), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.out, self.lines = os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")
        self.last, self.replies, self.events = 0, {}, {}
        self.lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()
        self.call("Browser.setDownloadBehavior", behavior="deny")

    def _read(self):
        rest = b""
        while piece := self.lines.read1(1 << 16):
            *messages, rest = (rest + piece).split(b"\0")
            for message in map(json.loads, messages):
                # A reply has the id of its command, an event the session of its tab.
                with self.lock:
                    of_tab = self.events.setdefault(message.get("sessionId"), queue.Queue())
                    inbox = self.replies.pop(message["id"], None) if "id" in message else of_tab
                if inbox:
                    inbox.put(message)

    def call(self, method, tab=None, **params):
        inbox = queue.Queue()
        with self.lock:
            self.last += 1
            number = self.last
            self.replies[number] = inbox
        command = {"id": number, "method": method, "params": params, **({"sessionId": tab} if tab else {})}
        self.out.write(json.dumps(command).encode() + b"\0")
        self.out.flush()
        said = inbox.get(timeout=PATIENCE)
        if "error" in said:
            raise Failed(f"{method}: {said['error']['message']}")
        return said["result"]

    def tab(self):
        return Tab(self)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.profile, ignore_errors=True)


class Tab:
    def __init__(self, chromium):
        self.chromium = chromium
        self.target = chromium.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = chromium.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.chromium.call("Target.closeTarget", targetId=self.target)

    def call(self, method, **params):
        return self.chromium.call(method, self.session, **params)

    def open(self, url):
        """Opens a page; whether it was shown, and not saved or refused, and the dialogs that it opened."""
        said = self.call("Page.navigate", url=url)
        if "errorText" in said:
            return False, []
        dialogs = []
        while (event := self.event())["method"] != "Page.loadEventFired":
            if event["method"] == "Page.javascriptDialogOpening":
                dialogs.append(event["params"]["message"])
                self.call("Page.handleJavaScriptDialog", accept=True)
        return True, dialogs

    def event(self, patience=PATIENCE):
        with self.chromium.lock:
            inbox = self.chromium.events.setdefault(self.session, queue.Queue())
        return inbox.get(timeout=patience)

    def title(self):
        return self.chromium.call("Target.getTargetInfo", targetId=self.target)["targetInfo"]["title"]

    def run(self, expression):
        """The value of an expression in the page, or of the promise that it is."""
        said = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in said:
            thrown = said["exceptionDetails"].get("exception", {})
            raise Failed(thrown.get("description") or said["exceptionDetails"]["text"])
        return said["result"].get("value")


def program():
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not found:
        print("nothing was run: chromium is not installed", file=sys.stderr)
        sys.exit(2)
    return found


def high_pipe():
    """A pipe whose ends are neither 3 nor 4, which become the browser's."""
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return high
