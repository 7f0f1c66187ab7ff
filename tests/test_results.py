"""`python -m lopgpn_exp.results` and `lopgpn_exp.load_results`."""

import zipfile

import pandas as pd
import pytest

import lopgpn_exp
from lopgpn_exp.errors import InputError
from lopgpn_exp.results import main
from tests.test_experiment import outcome


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    for overrides in ([], ["split.index=1"], ["model=gkde"], ["model=gkde", "split.index=1"]):
        outcome(folder, *overrides)
    (folder / "runs" / "unfinished").mkdir()
    return folder


def test_load_results_filters_and_leaves_out_what_is_not_finished(outputs):
    table = lopgpn_exp.load_results(outputs)
    assert len(table) == 4
    assert {"model", "dataset", "scenario", "split", "init", "run_id", "test/accuracy", "seconds/train"} <= set(table)
    assert set(lopgpn_exp.load_results(outputs, model="gkde", split=[1])["split"]) == {1}
    assert len(lopgpn_exp.load_results(outputs, model="gkde", split=[1])) == 1
    assert lopgpn_exp.load_results(outputs / "nowhere").empty
    with pytest.raises(InputError, match="no column 'modle'"):
        lopgpn_exp.load_results(outputs, modle="gkde")
    assert len(lopgpn_exp.load_curves(outputs).query("model == 'gkde' and measure == 'tu'")) == 200


def test_the_table_shows_means(outputs, capsys):
    main(["--output-dir", str(outputs), "--model", "gkde"])
    out = capsys.readouterr().out
    assert "gkde" in out
    assert "lop_gpn" not in out
    assert "±" in out


@pytest.mark.parametrize(("name", "read"), [("t.csv", pd.read_csv), ("t.parquet", pd.read_parquet)])
def test_exports_are_read_back(outputs, tmp_path, name, read):
    main(["--output-dir", str(outputs), "--export", str(tmp_path / name)])
    table = read(tmp_path / name)
    assert table["test/accuracy"].tolist() == pytest.approx(lopgpn_exp.load_results(outputs)["test/accuracy"].tolist())
    main(["--output-dir", str(outputs), "--aggregate", "--export", str(tmp_path / name)])
    assert {"mean", "se", "low", "high"} <= set(read(tmp_path / name))


def test_results_travel_in_one_file(outputs, tmp_path, capsys):
    file, home = tmp_path / "sweep.zip", tmp_path / "home"
    main(["--output-dir", str(outputs), "--model", "gkde", "--pack", str(file)])
    for expected in ("2 runs brought in, 0 were here", "0 runs brought in, 2 were here"):
        capsys.readouterr()
        main(["--output-dir", str(home), "--unpack", str(file)])
        assert expected in capsys.readouterr().out
    pd.testing.assert_frame_equal(
        lopgpn_exp.load_results(home), lopgpn_exp.load_results(outputs, model="gkde"), check_like=True
    )
    assert not any(name.endswith("model.ckpt") for name in zipfile.ZipFile(file).namelist())


@pytest.mark.parametrize(
    "words", [["--output-dir", "nowhere"], ["--unpack", "nowhere.zip"], ["--export", "table.xlsx"]], ids=lambda w: w[0]
)
def test_mistakes_are_one_message(outputs, words, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*(["--output-dir", str(outputs)] if words[0] == "--export" else []), *words])
    assert stop.value.code == 2
    assert "expected:" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../evil/result.json", "a/b/c", "result.json"])
def test_a_foreign_zip_is_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(name, "{}")
    with pytest.raises(SystemExit):
        main(["--output-dir", str(tmp_path / "out"), "--unpack", str(tmp_path / "x.zip")])
    assert not (tmp_path / "evil").exists()
