"""Text from files and arguments cannot steer the terminal, and every terminal can show every message."""

import io
import json
import logging
import sys

import pytest
from rich.text import Text

from lopgpn_exp.commands import main
from lopgpn_exp.errors import InputError, printable
from lopgpn_exp.report.console import Console, new_table, print_table
from tests.support import TINY
from tests.support.random_runs import save_example_runs
from tests.support.tables import write_tables

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eabc\r"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202eabc\x0d"
HIDDEN = ("\x1b", "\x07", "\x9b", "\u202e", "\r")


def assert_harmless(text: str) -> None:
    assert not [character for character in HIDDEN if character in text]


def test_control_characters_are_escaped_and_other_text_is_kept():
    assert printable(EVIL) == SHOWN
    assert printable("a\tb\nü 日本 ● ±\udcff") == "a\tb\nü 日本 ● ±\\udcff"


def test_message_is_escaped(command):
    code, _, err = command("results", "--output-dir", f"runs{EVIL}")
    assert code == 2
    assert SHOWN in err
    assert_harmless(err)


@pytest.mark.parametrize("words", [[f"model={EVIL}"], [f"+model.x={EVIL}"], [EVIL], [f"--{EVIL}"], ["predict", EVIL]])
def test_argument_is_escaped(command, words):
    code, out, err = command(*(words if words[0] == "predict" else [*words, *TINY]))
    assert code == 2
    assert_harmless(out + err)


def test_table_is_escaped_and_has_no_markup(capsys):
    table = new_table(["name", EVIL], left=["name"], title=EVIL)
    table.add_row(Text(EVIL), f"[red]{EVIL}[/red]")
    print_table(table)
    Console().print(f"[link=http://x]{EVIL}[/link] :smile:")
    out = capsys.readouterr().out
    assert out.count(r"\x1b[2J\x9b31m\u202eabc") == 5  # rich leaves some of the others out
    assert "[red]" in out
    assert "[link=http://x]" in out
    assert ":smile:" in out
    assert_harmless(out)


def test_colours_of_reports_remain(capsys):
    Console(force_terminal=True, color_system="standard").print("failed", style="red")
    assert "\x1b[31mfailed" in capsys.readouterr().out


def test_class_names_and_ids_of_a_graph_are_escaped(command, tmp_path):
    write_tables(tmp_path)
    for path in tmp_path.glob("*.csv"):
        path.write_text(path.read_text().replace("tree ", EVIL[:-1]))
    words = ["dataset=custom", f"dataset.path={tmp_path}", "trainer.max_epochs=2", "tracking=none"]
    code, out, err = command(*words, "trainer.progress=false")
    assert code == 0, err
    run_id = next((tmp_path / "outputs" / "runs").glob("[!.]*")).name
    assert_harmless(out + err)
    code, out, err = command("predict", run_id)
    assert code == 0, err
    assert r"\x1b" in out
    assert_harmless(out + err)


def test_log_message_is_escaped(command, monkeypatch, caplog):
    def warn(options):
        logging.getLogger("lopgpn_exp").warning("cannot read %s", EVIL)
        raise InputError("stopped", expected="nothing")

    monkeypatch.setattr("lopgpn_exp.commands.results.execute", warn)
    command("results")
    assert caplog.messages == [f"cannot read {SHOWN}"]


def test_damaged_runs_are_named_with_what_to_do(command, tmp_path):
    save_example_runs(tmp_path / "outputs")
    folders = sorted((tmp_path / "outputs" / "runs").iterdir())
    (folders[0] / "result.json").write_text("{")
    content = json.loads((folders[1] / "result.json").read_text())
    (folders[1] / "result.json").write_text(json.dumps({**content, "metrics": [EVIL]}))
    (tmp_path / "outputs" / "runs" / "failed").mkdir()
    (tmp_path / "outputs" / "runs" / "failed" / "error.txt").write_text("x")
    for words in (["results"], ["results", "--export", "runs.csv"]):
        code, out, err = command(*words)
        assert code == 0, err
        assert "2 runs are left out" in err
        assert "1 failed" in err
        assert "1 not finished" in err
        for folder in folders[:2]:
            assert f"  {folder.name}: " in err
        assert err.count("try: ") == 2
        assert_harmless(out + err)


def test_comparison_names_damaged_runs(command, tmp_path):
    save_example_runs(tmp_path / "outputs")
    folder = sorted((tmp_path / "outputs" / "runs").iterdir())[-1]
    models = sorted({path.name.partition("-")[0] for path in (tmp_path / "outputs" / "runs").iterdir()})[:2]
    (folder / "result.json").write_text("{")
    code, out, err = command("compare", *(f"model={model}" for model in models))
    assert code == 0, err
    assert f"1 run is left out, because its files cannot be read:\n  {folder.name}: " in err
    assert "1 more with damaged files" in out


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_terminal_without_unicode_shows_escapes(monkeypatch, encoding, tmp_path):
    save_example_runs(tmp_path / "outputs")
    monkeypatch.chdir(tmp_path)
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True))
    main(["results"])
    assert rb"\u25cf" in sys.stdout.buffer.getvalue()  # the mark of a model
    with pytest.raises(SystemExit, match="2"):
        main(["results", "--output-dir", "日本"])
    assert rb"\u65e5\u672c" in sys.stderr.buffer.getvalue()
