"""infra/smoke.sh tells a well app from a sick one: a pipeline believes it."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from .bicep import ROOT

KEY = "sk-a-key"


@dataclass
class App:
    """What a small stand-in for the app answers, and what it was sent."""

    without_key: int = 401
    revision: str = "new"
    foreground: str = "response.completed"
    background: str = "response.completed"
    sent: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    base: str = ""


def handler(app: App) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self, code: int, text: str = "") -> None:
            self.send_response(code)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def do_GET(self) -> None:
            if self.path != "/readiness":
                return self.answer(app.without_key)
            return self.answer(200, json.dumps({"status": "healthy", "revision": app.revision}, separators=(",", ":")))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            app.sent.append(body)
            if self.path != "/v1/responses" or self.headers["api-key"] != KEY:
                return self.answer(401)
            end = app.background if body.get("background") else app.foreground
            return self.answer(200, f'event: response.created\ndata: {{}}\n\nevent: {end}\ndata: {{"status": ""}}\n\n')

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@pytest.fixture
def app() -> Iterator[App]:
    app = App()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler(app)) as server:
        app.base = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield app
        server.shutdown()
        thread.join()


def smoke(app: App, key: str = KEY, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "infra" / "smoke.sh"), app.base],
        env={"PATH": os.environ["PATH"], "SMOKE_API_KEY": key} | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_app_that_is_well_passes(app: App) -> None:
    done = smoke(app)
    assert done.returncode == 0, done.stderr
    assert [bool(body.get("background")) for body in app.sent] == [False, True]
    assert KEY not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("sick", "said"),
    [
        ({"without_key": 200}, "with 200 and not with 401"),
        ({"foreground": "response.failed"}, "a turn does not end well"),
        ({"background": "response.failed"}, "a background turn does not end well"),
        ({"background": "response.in_progress"}, "a background turn does not end well"),
    ],
    ids=str,
)
def test_an_app_that_is_not_well_fails(app: App, sick: dict[str, object], said: str) -> None:
    for name, value in sick.items():
        setattr(app, name, value)
    done = smoke(app)
    assert done.returncode == 1
    assert said in done.stderr


def test_it_waits_for_the_version_that_was_deployed(app: App) -> None:
    assert smoke(app, SMOKE_REVISION="new").returncode == 0
    app.sent.clear()
    done = smoke(app, SMOKE_REVISION="ne", SMOKE_TRIES="1")
    assert done.returncode == 1
    assert "does not run version ne: the old code still answers" in done.stderr
    assert app.sent == []


@pytest.mark.parametrize("key", ["", "sk-another"])
def test_it_does_not_pass_without_a_key_of_the_app(app: App, key: str) -> None:
    assert smoke(app, key).returncode != 0
