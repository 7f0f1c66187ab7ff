"""The page that shows all methods side by side follows from the stored results."""

import pandas as pd
import pytest

from docs.tools import methods
from tests.support import SHARED, config_names


@pytest.fixture
def tables() -> dict[str, pd.DataFrame]:
    return {name: pd.read_csv(methods.FOLDER / f"{name}.csv") for name in ("runs", "costs", "published")}


def test_the_page_is_the_one_that_its_results_give(tables):
    assert methods.render_page(**tables) == (methods.FOLDER / "methods.md").read_text()


def test_every_method_has_three_splits_of_each_graph_and_protocol(tables):
    counts = tables["runs"].groupby(["protocol", "dataset", "model", "scenario"])["split"].nunique()
    expected = {
        (protocol, dataset, model, scenario)
        for protocol, ood in methods.OOD.items()
        for dataset in methods.DATASETS
        for model in methods.METHODS
        for scenario in ("none", ood)
    }
    assert set(counts.index) == expected
    assert (counts == methods.SPLITS).all()
    assert list(tables["costs"]["model"]) == list(methods.METHODS)
    # GKDE and Matern-GGP use no features, mlp no edges.
    assert set(methods.METHODS) >= set(config_names("model")) - {"gkde", "matern_ggp", "gpn_rw", "mlp"}


@pytest.mark.skipif(not (SHARED / "benchmark").is_dir(), reason="the published values are not available")
def test_published_values_are_those_of_the_source(tables):
    source = pd.read_csv(SHARED / "benchmark" / "epn_published.csv")
    selected = methods.select_published(source).reset_index(drop=True)
    pd.testing.assert_frame_equal(selected, tables["published"])
    assert len(selected) == 4 * len(methods.PUBLISHED)
