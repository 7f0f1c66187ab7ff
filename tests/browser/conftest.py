"""Headless Chromium, and a small store of runs with its UI. `make test-browser` runs what is here."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.test_experiment import TINY

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / "outputs" / "browser"
WIDTHS = {"desktop": (1920, 1080), "laptop": (1366, 768)}
MODELS = ("appnp", "gpn_sym", "lop_gpn")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync", "--disable-quic", "--hide-scrollbars"),
)


def pytest_collection_modifyitems(items):
    """Only on request: a browser is not part of what `make test` sets up."""
    if not os.environ.get("LOPGPN_BROWSER"):
        for item in items:
            if "tests/browser" in Path(item.fspath).as_posix():
                item.add_marker(pytest.mark.skip(reason="make test-browser"))


@pytest.fixture(scope="session")
def browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert binary, "there is no chromium: apt-get install chromium chromium-driver"
    assert driver, "there is no chromedriver: apt-get install chromium chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    yield chrome
    chrome.quit()


@pytest.fixture(params=WIDTHS)
def page(browser, request):
    """A window of each width, and of what it shows a screenshot to look at."""
    browser.set_window_size(*WIDTHS[request.param])
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.get("about:blank")
    browser.get_log("browser")
    yield browser
    name = re.sub(r"\W+", "-", request.node.name)
    browser.save_screenshot(str(SCREENSHOTS / f"{name}.png"))


@pytest.fixture(scope="session")
def store(tmp_path_factory) -> Path:
    """A folder with a sweep of three models and a run of its own."""
    folder = tmp_path_factory.mktemp("store")
    tiny = [word for word in TINY if word != "tracking=none"]
    sweep = [f"model={','.join(MODELS)}", "split.index=0,1", "-m"]
    for words in (sweep, ["model=lop_gpn", "split.index=2", "ood=gaussian"]):
        program = [sys.executable, "-m", "lopgpn_exp", *tiny, *words]
        done = subprocess.run(program, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (folder / "last.txt").write_text(done.stdout)
    return folder


@pytest.fixture(scope="session")
def links(store) -> dict[str, str]:
    """What `python -m lopgpn_exp.ui` prints: addresses by the dashboards' names."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [sys.executable, "-m", "lopgpn_exp.ui", "--port", str(port)]
    server = subprocess.Popen(program, cwd=store, env=environment(), stdout=subprocess.PIPE, text=True)
    found: dict[str, str] = {}
    try:
        for line in server.stdout:
            if match := re.match(r"  (\S.*?)  +(http://\S+)", line):
                found[match[1]] = match[2]
            if len(found) == 2:
                break
        yield found
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=30) == 0
        server.stdout.close()
        with socket.socket() as probe:  # and nobody is left behind
            assert probe.connect_ex(("127.0.0.1", port)) != 0


def until(condition, *, seconds: float = 60):
    """What a condition gives, once it is something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.3)
    pytest.fail(f"not within {seconds} s: {condition.__doc__ or condition}")


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
