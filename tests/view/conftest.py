"""Pages in a headless Chromium, which the tests marked `browser` use."""

import io
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest


#: Debian's or Google's names; RBD_JAX_CHROMIUM overrides them.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

#: Software WebGL, available on every machine.
FLAGS = ("--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")


@pytest.fixture(scope="session")
def browser():
    """A Chromium; skips the test with the reason if it is missing."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    program = os.environ.get("RBD_JAX_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"there is no Chromium on PATH ({', '.join(NAMES)}), and RBD_JAX_CHROMIUM names none")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield chromium
        chromium.close()


class Seen:
    """A page in the browser.

    - `page`: the playwright page.
    - `errors`: its console errors and exceptions.
    - `requests`: URLs of all its requests, starting with its own.
    """

    def __init__(self, page):
        self.page, self.errors, self.requests = page, [], []
        page.on(
            "console", lambda message: self.errors.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def until(self, expression: str, seconds: float | int = 30, frame=None) -> None:
        """Waits for a JavaScript expression to be true; it also works on pages that forbid `eval`."""
        end = time.monotonic() + seconds
        while not (frame or self.page).evaluate(f"Boolean({expression})"):
            assert time.monotonic() < end, f"after {seconds} s this is still false: {expression}"
            self.page.wait_for_timeout(20)

    def picture(self, **options) -> np.ndarray:
        """Returns the screen, (height, width, 3), 0 to 255; `clip={"x": 0, "y": 0, "width": 9, "height": 9}` selects a part."""
        from PIL import Image

        return np.asarray(Image.open(io.BytesIO(self.page.screenshot(**options))).convert("RGB"))


@pytest.fixture
def see(browser):
    """Returns a function that opens a file or an address in a window of a given size, and returns a `Seen`."""
    contexts = []

    def see(where: str | Path, size: tuple[int, int] = (640, 480)) -> Seen:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]})
        contexts.append(context)
        seen = Seen(context.new_page())
        seen.page.goto(where.resolve().as_uri() if isinstance(where, Path) else where)
        return seen

    yield see
    for context in contexts:
        context.close()
