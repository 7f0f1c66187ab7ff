"""Headless Chromium, a folder with a few runs, and the MLflow UI on them. `make test-browser` runs these tests."""

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

from tests.support import ROOT, TINY

SCREENSHOTS = ROOT / "outputs" / "browser"
WIDTHS = {"desktop": (1920, 1080), "laptop": (1366, 768)}
MODELS = ("appnp", "gpn_sym", "lop_gpn")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync", "--disable-quic", "--hide-scrollbars"),
)


def pytest_collection_modifyitems(items):
    """Skip unless requested: `make test` does not install a browser."""
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
    """A window of each width; a screenshot of its final state is saved."""
    browser.set_window_size(*WIDTHS[request.param])
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.get("about:blank")
    browser.get_log("browser")
    yield browser
    name = re.sub(r"\W+", "-", request.node.name)
    browser.save_screenshot(str(SCREENSHOTS / f"{name}.png"))


@pytest.fixture(scope="session")
def store(tmp_path_factory) -> Path:
    """A folder with a sweep of three models and a single run."""
    folder = tmp_path_factory.mktemp("store")
    tracked = [override for override in TINY if override != "tracking=none"]
    sweep = [f"model={','.join(MODELS)}", "split.index=0,1", "-m"]
    single = ["model=lop_gpn", "split.index=2", "ood=gaussian"]
    for overrides in (sweep, single):
        command = [sys.executable, "-m", "lopgpn_exp", *tracked, *overrides]
        process = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stderr
    return folder


@pytest.fixture(scope="session")
def links(store) -> dict[str, str]:
    """Addresses by the names of the dashboards, as printed by `lopgpn_exp ui`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "lopgpn_exp", "ui", "--port", str(port)]
    server = subprocess.Popen(command, cwd=store, env=environment(), stdout=subprocess.PIPE, text=True)
    addresses: dict[str, str] = {}
    try:
        for line in server.stdout:
            if match := re.match(r"  (\S.*?)  +(http://\S+)", line):
                addresses[match[1]] = match[2]
            if len(addresses) == 2:
                break
        yield addresses
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=30) == 0
        server.stdout.close()
        with socket.socket() as probe:  # no process keeps the port open
            assert probe.connect_ex(("127.0.0.1", port)) != 0


def until(condition, *, seconds: float = 60):
    """Wait until a condition returns a true value, and return that value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.3)
    pytest.fail(f"not within {seconds} s: {condition.__doc__ or condition}")


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
