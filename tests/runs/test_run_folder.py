"""The folder of a run: its page is written with it, and a page that fails does not lose the run."""

from pathlib import Path

from lopgpn_exp.runs.checksums import write_checksums
from lopgpn_exp.runs.run_folder import find_damage, is_complete, write_run
from tests.support.report_data import example_run


def write_example(tmp_path: Path) -> Path:
    (tmp_path / "model.ckpt").write_bytes(b"")
    result, evaluation, graph = example_run()
    folder = tmp_path / result.run_id
    write_run(
        folder,
        result=result,
        evaluation=evaluation,
        config={},
        checkpoint=tmp_path / "model.ckpt",
        graph=graph,
        cache_dir=tmp_path / "cache",
    )
    return folder


def test_page_that_cannot_be_drawn_does_not_lose_the_run(tmp_path, monkeypatch, caplog):
    def fail(*_, **__):
        raise ValueError("<no> pen")

    monkeypatch.setattr("lopgpn_exp.report.run_page.run_page", fail)
    folder = write_example(tmp_path)
    assert is_complete(folder)
    assert "could not be drawn" in caplog.text
    page = (folder / "page.html").read_text()
    assert "could not be drawn" in page
    assert "ValueError: &lt;no&gt; pen" in page


def test_invalid_result_with_the_right_checksum_is_damage(tmp_path):
    folder = write_example(tmp_path)
    assert find_damage(folder) is None
    (folder / "result.json").write_text("{}")
    write_checksums(folder)
    assert "result.json cannot be read (schema None" in str(find_damage(folder))


def test_run_is_written_with_its_page_and_layout(tmp_path):
    page = (write_example(tmp_path) / "page.html").read_text()
    assert page == example_run().page()
    assert len(list((tmp_path / "cache").glob("layout-*.npz"))) == 1
