"""The wheel holds everything, and an installed copy runs from any folder."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.test_experiment import TINY

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The wheel, built and installed into a folder of its own (its dependencies are those of this environment)."""
    folder = tmp_path_factory.mktemp("wheel")
    run = {"check": True, "capture_output": True, "cwd": ROOT}
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", str(folder)], **run)
    (wheel,) = folder.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "lopgpn_exp/conf/config.yaml" in names
    report = ("published/table1.csv", "published/public_code.csv", "known.yaml", "defaults.yaml")
    assert {f"lopgpn_exp/report/{name}" for name in report} <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "outputs/"))]
    target = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*pip, str(wheel)], **run)
    return target


def call(installed: Path, elsewhere: Path, *command: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_copy_finds_its_own_conf_and_runs_elsewhere(installed, tmp_path):
    where = call(
        installed,
        tmp_path,
        sys.executable,
        "-c",
        "import lopgpn_exp.cli as c; print(c.__file__); print(c.config_dir())",
    )
    assert where.splitlines() == [str(installed / "lopgpn_exp/cli.py"), str(installed / "lopgpn_exp/conf")]
    out = call(installed, tmp_path, sys.executable, "-m", "lopgpn_exp", *TINY)
    assert "accuracy 0." in out
    assert len(list((tmp_path / "outputs/runs").iterdir())) == 1


def test_the_console_script_is_the_same_program(installed, tmp_path):
    assert "lopgpn_exp: uncertainty quantification" in call(
        installed, tmp_path, sys.executable, str(installed / "bin" / "lopgpn_exp"), "--help"
    )
