"""A real browser for tests: headless Chromium, driven by its DevTools protocol over a pipe."""

import base64
import json
import os
import shutil
import subprocess
import tempfile

from harness import PATIENCE, Failure, Skipped, tries

BINARIES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
KEYS = {"Tab": 9, "Enter": 13, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}


class Browser:
    """One browser with one page. Numbers are CSS pixels."""

    def __init__(self, width=1280, height=900, dark=False, extra=()):
        binary = next(filter(None, map(shutil.which, BINARIES)), None)
        if binary is None:
            raise Skipped("no Chromium: deploy/install-deps installs it")
        self.folder = tempfile.mkdtemp(prefix="millrace-browser-")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        self._log = open(os.path.join(self.folder, "log"), "wb")

        def connect():  # Chromium reads what to do from 3, and answers at 4
            for fd, high in ((to_browser, 30), (from_browser, 31)):
                os.dup2(fd, high)
            os.dup2(30, 3)
            os.dup2(31, 4)

        self.process = subprocess.Popen(
            [binary, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--hide-scrollbars", "--no-proxy-server", "--disable-background-networking",
             f"--user-data-dir={self.folder}/profile", "--remote-debugging-pipe", *extra, "about:blank"],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, preexec_fn=connect,
            close_fds=False)
        os.close(to_browser)
        os.close(from_browser)
        self._count = 0
        self._rest = b""
        self.events = []
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._call("Target.attachToTarget",
                                   {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Performance"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        self.prefer(dark)

    # --- The protocol

    def _call(self, method, params=None, session=None):
        self._count += 1
        message = {"id": self._count, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read(method)
            if answer.get("id") != self._count:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise Failure(f"{method}: {answer['error']}")
            return answer["result"]

    def _read(self, what):
        while b"\0" not in self._rest:
            got = os.read(self._in, 1 << 16)
            if not got:
                raise Failure(f"the browser has ended: {what}")
            self._rest += got
        text, self._rest = self._rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        return self._call(method, params, self._session)

    # --- The page

    def open(self, url):
        self.call("Page.navigate", url=url)

    def run(self, expression):
        """The value of a JavaScript expression, which may be a promise."""
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True,
                         returnByValue=True)
        if "exceptionDetails" in done:
            raise Failure(f"{expression}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def wait(self, expression, what=None):
        """Waits until the expression is true; gives its value."""
        for _ in tries(pause=0.05):
            if value := self.run(expression):
                return value
        raise Failure(f"{what or expression}: not within {PATIENCE:.0f} s; the page says: "
                      f"{self.run('document.body.innerText')[:2000]}")

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def table(self, name):
        """The rows that a table shows: dictionaries of texts by title."""
        return self.run(f"""[...document.querySelectorAll('#{name} .scroll tbody tr')].map((row) =>
            Object.fromEntries([...row.cells].map((c) => [c.dataset.label, c.lastChild.textContent])))""")

    def press(self, key, shift=False):
        code = KEYS.get(key, ord(key[0].upper()))
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        modifiers = 8 if shift else 0
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", key=key,
                  code=key, windowsVirtualKeyCode=code, text=text, modifiers=modifiers)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key,
                  windowsVirtualKeyCode=code, modifiers=modifiers)

    def resize(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=phone)

    def prefer(self, dark):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def screenshot(self, path, whole=True):
        """Writes the page as PNG, down to its end if `whole`."""
        done = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as out:
            out.write(base64.b64decode(done["data"]))

    def problems(self):
        """What the browser complained about: errors of scripts, refused resources."""
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"].get("exception", params)))
            elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        return found

    def requests(self):
        """The addresses that the page has asked for."""
        return {e["params"]["request"]["url"] for e in self.events
                if e.get("method") == "Network.requestWillBeSent"}

    def close(self):
        self.process.kill()
        self.process.wait()
        for fd in (self._in, self._out):
            os.close(fd)
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
