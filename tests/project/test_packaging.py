"""The wheel contains everything, and an installed copy runs from any folder."""

import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import ROOT, TINY


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """Build the wheel and install it into a folder, with the dependencies of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    options = {"check": True, "capture_output": True, "cwd": ROOT}
    isolation = ["--no-isolation"] if find_spec("hatchling") else []  # without it, build downloads it first
    subprocess.run([sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", str(folder)], **options)
    (wheel,) = folder.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "lopgpn_exp/conf/config.yaml" in names
    data = {
        path.relative_to(ROOT).as_posix()
        for kind in ("csv", "yaml")
        for path in (ROOT / "lopgpn_exp").rglob(f"*.{kind}")
    }
    assert "lopgpn_exp/paper/cell_notes.yaml" in data
    assert data <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "outputs/"))]
    target = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], **options)
    return target


def call(installed: Path, folder: Path, *command: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_installed_copy_finds_its_configs_and_runs_in_any_folder(installed, tmp_path):
    program = "import lopgpn_exp.config as c; print(c.__file__); print(c.default_config_dir())"
    lines = call(installed, tmp_path, sys.executable, "-c", program).splitlines()
    assert lines == [str(installed / "lopgpn_exp/config/__init__.py"), str(installed / "lopgpn_exp/conf")]
    out = call(installed, tmp_path, sys.executable, "-m", "lopgpn_exp", *TINY, "model=gkde")
    assert "accuracy 0." in out
    assert len(list((tmp_path / "outputs/runs").iterdir())) == 1


def test_console_script_is_the_same_program(installed, tmp_path):
    script = call(installed, tmp_path, sys.executable, str(installed / "bin" / "lopgpn_exp"), "--help")
    assert script.startswith("usage: lopgpn_exp [COMMAND] [OPTIONS]")
    assert script == call(installed, tmp_path, sys.executable, "-m", "lopgpn_exp", "--help")
