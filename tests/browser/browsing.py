"""Pages in a browser: at some width, light or dark, and what is wrong with them there.

Needs Debian's packages chromium and chromium-driver; where they are missing such a test is
skipped, and says so.
"""

from __future__ import annotations

import functools
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
Look: TypeAlias = tuple[int, str]  # how wide, and light or dark
LOOKS: Sequence[Look] = [(width, scheme) for width in (1400, 390) for scheme in ("light", "dark")]

needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs Debian's packages chromium and chromium-driver"
)

_QUIET = (  # no display, and nothing that looks for a network
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_BROWSERS_OWN = "chrome://"  # a page with which it begins, and which misses a network
# What a page has that sticks out, but for what scrolls in a box of its own.
_STICKS_OUT = """
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
return wide <= 0 ? "" : `${wide} px too wide`;
"""


class _Handler(SimpleHTTPRequestHandler):
    """Serves files, and says nothing."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs the extra dev")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    profile = tmp_path_factory.mktemp("profile")
    for argument in (*_QUIET, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    started.set_script_timeout(300)  # the explorer's Python is slow on a busy machine
    yield started
    started.quit()


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """The files of a directory, on a port of this machine: the address."""
    handler = functools.partial(_Handler, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def look(browser: Any, width: int, scheme: str) -> None:
    """From now on pages are shown so."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def problems(browser: Any, site: str, page: str, looks: Sequence[Look] = LOOKS) -> list[str]:
    """Opens a page of a site: what the console says, what it asks elsewhere, and what sticks out
    in any of the looks. It is opened once: to load it takes far longer than to show it again."""
    look(browser, *looks[0])
    browser.get(f"{site}/{page}")
    found = []
    for width, scheme in looks:
        look(browser, width, scheme)
        if said := browser.execute_script(_STICKS_OUT):
            found.append(f"{said}, {width} px, {scheme}")
    console = (entry["message"] for entry in browser.get_log("browser"))
    found += [one for one in console if not one.startswith(_BROWSERS_OWN)]
    asked = (
        entry["message"]
        for entry in browser.get_log("performance")
        if "Network.requestWillBeSent" in entry["message"]
    )
    found += ["asks outside" for message in asked if outside(message, site)]
    return [f"{page}: {one}" for one in found]


def outside(message: str, site: str) -> bool:
    """Whether a request went anywhere but to the site, or to data within a page."""
    _, _, rest = message.partition('"request":')
    _, _, url = rest.partition('"url":"')
    return bool(url) and not url.startswith((site, "data:", "chrome:"))
