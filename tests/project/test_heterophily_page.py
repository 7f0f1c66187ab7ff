"""The page on graphs whose neighbours differ follows from the stored results."""

import pandas as pd
import pytest

from docs.tools import heterophily


@pytest.fixture
def tables() -> dict[str, pd.DataFrame]:
    return {name: pd.read_csv(heterophily.FOLDER / f"{name}.csv") for name in ("runs", "graphs", "curves")}


def test_the_page_is_the_one_that_its_results_give(tables):
    assert (
        heterophily.render_page(tables["runs"], tables["graphs"]) == (heterophily.FOLDER / "heterophily.md").read_text()
    )


def test_every_model_has_three_splits_of_each_graph(tables):
    counts = tables["runs"].groupby(["dataset", "model"])["split"].nunique()
    assert set(counts.index) == {(d, m) for d in heterophily.DATASETS for m in heterophily.MODELS}
    assert (counts == heterophily.SPLITS).all()
    first = tables["curves"].query("percent == 0").set_index(["dataset", "model"])["accuracy"]
    means = tables["runs"].groupby(["dataset", "model"])["test/accuracy"].mean()
    assert first.sort_index().tolist() == pytest.approx(means.sort_index().tolist())


def test_the_statistics_of_the_graphs_are_those_of_the_data(real_data, monkeypatch, tables):
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    for row in tables["graphs"].to_dict("records"):
        assert heterophily.describe(row["dataset"]) == pytest.approx(row)
