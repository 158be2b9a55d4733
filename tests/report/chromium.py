"""A real browser for tests: headless Chromium, driven over a pair of pipes by the DevTools protocol."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
# The browser reads its commands from 3 and answers on 4, whatever numbers the pipes have here.
_LAUNCH = (
    "import fcntl, os, sys; r, w = (fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3]);"
    "os.dup2(r, 3); os.dup2(w, 4); os.execv(sys.argv[3], sys.argv[3:])"
)


def find() -> str | None:
    return next((path for path in map(shutil.which, _NAMES) if path), None)


class Browser:
    """One page. `requests` are the addresses it asked for, `errors` what its console and scripts complained of."""

    def __init__(self, folder: Path, timeout_s: float = 60.0) -> None:
        program = find()
        assert program
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._loaded = False
        self._timeout_s = timeout_s
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()
        launch = [sys.executable, "-c", _LAUNCH, str(commands), str(answers), program]
        arguments = [*launch, *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            arguments, pass_fds=(commands, answers), stdin=quiet, stdout=quiet, stderr=quiet
        )
        os.close(commands)
        os.close(answers)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + self._timeout_s
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self._from, 1 << 16)
            assert more, "the browser is gone"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, said: dict[str, Any]) -> None:
        match method:
            case "Network.requestWillBeSent":
                self.requests.append(said["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(said["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.errors.append(str(said["args"]))
            case "Log.entryAdded":
                self.errors.append(str(said["entry"]))
            case "Page.loadEventFired":
                self._loaded = True

    def open(self, path: Path, wide: int = 1280, high: int = 1000) -> None:
        self.requests.clear()
        self.errors.clear()
        self._loaded = False
        self.call("Emulation.setDeviceMetricsOverride", width=wide, height=high, deviceScaleFactor=1, mobile=wide < 600)
        self.call("Page.navigate", url=path.as_uri())
        while not self._loaded:
            self._next()

    def ask(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def move(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def key(self, name: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def close(self) -> None:
        os.close(self._to)
        os.close(self._from)
        try:
            # Its commands ended: it leaves by itself.
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
