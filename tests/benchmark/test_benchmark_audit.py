"""The audit of the benchmark: what is compared with which published value, and its verdict."""

import pandas as pd
import pytest

from lopgpn_exp.benchmark.benchmark_audit import (
    DIFFERS,
    NOT_RUN,
    UNDEFINED,
    WITHIN_NOISE,
    audit_benchmark,
    count_verdicts,
    load_notes,
    select_compared,
)
from lopgpn_exp.benchmark.literature import METHODS, find_method, load_literature
from lopgpn_exp.benchmark.protocols import ALL_MODELS, FAMILIES, PROTOCOLS
from tests.support import SHARED
from tests.support.benchmark_runs import benchmark_rows

NAMES = {
    "cora_ml": "CoraML",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "amazon_photos": "AmazonPhotos",
    "amazon_computers": "AmazonComputers",
    "coauthor_cs": "CoauthorCS",
    "coauthor_physics": "CoauthorPhysics",
}
METRICS = {"acc": "test/accuracy", "brier": "test/brier", "ece": "test/ece"} | {
    f"mis_{kind}": f"error/{kind}" for kind in ("auroc", "aupr")
}


def test_stored_values_are_those_of_the_source():
    path = SHARED / "benchmark" / "epn_published.csv"
    if not path.is_file():
        pytest.skip("the published values are not available")
    source = pd.read_csv(path)
    expected = source[source["dataset"].isin(NAMES.values()) & source["mean"].notna()]
    stored = load_literature()
    assert len(stored) == len(expected)
    for name, dataset in NAMES.items():
        first, second = stored[stored["dataset"] == name], expected[expected["dataset"] == dataset]
        assert first["mean"].tolist() == second["mean"].tolist()
        assert first["std"].tolist() == second["std"].tolist()
        kinds = [METRICS.get(metric) or f"ood/{metric.partition('_')[2]}" for metric in second["metric"]]
        assert first["metric"].tolist() == kinds
        sets = [f"os_{metric[2]}" if metric.startswith("OS") else "none" for metric in second["metric"]]
        assert first["scenario"].tolist() == sets
        assert all(
            own in theirs
            for own, theirs in zip(first["name"], second["model"], strict=True)
            if not own.startswith("EGNN")
        )


def test_every_method_of_the_source_is_one_of_ours():
    values = load_literature()
    gcn = values[values["backbone"] == "GCN"]
    assert set(gcn["name"]) == set(METHODS)
    assert {method.model for method in METHODS.values()} <= set(ALL_MODELS)
    assert find_method("GPN", "GCN", "cora_ml").model == "gpn_sym"
    assert find_method("GPN", "GCN", "amazon_photos").model == "gpn_10"
    assert find_method("EPN", "GAT", "cora_ml") is None


def published(name: str, dataset: str, metric: str, scenario: str = "none") -> pd.Series:
    values = load_literature()
    keys = {"backbone": "GCN", "name": name, "dataset": dataset, "metric": metric, "scenario": scenario}
    (row,) = values[(values[list(keys)] == pd.Series(keys)).all(axis=1)].to_dict("records")
    return row


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, WITHIN_NOISE), (1.99, WITHIN_NOISE), (-2.01, DIFFERS)])
def test_two_points_are_noise(shift, verdict):
    value = published("gnnsafe", "citeseer", "test/accuracy")  # a standard error of less than a point
    assert value["std"] / 5 < 1
    ours = (value["mean"] + shift) / 100
    audit = audit_benchmark(benchmark_rows({"gnnsafe": [ours, ours]}, metric="test/accuracy", dataset="citeseer"))
    (row,) = audit[audit["verdict"].isin([WITHIN_NOISE, DIFFERS])].to_dict("records")
    assert row["verdict"] == verdict
    assert row["difference"] == pytest.approx(shift)
    assert (row["reason"] == "") == (verdict == WITHIN_NOISE)


def test_spread_over_splits_counts_as_noise():
    value = published("gnnsafe", "citeseer", "test/accuracy")
    ours = [(value["mean"] + 5 + spread) / 100 for spread in (-6, 6)]  # standard error 6
    audit = audit_benchmark(benchmark_rows({"gnnsafe": ours}, metric="test/accuracy", dataset="citeseer"))
    assert WITHIN_NOISE in set(audit["verdict"])


def test_scores_are_those_that_the_source_uses():
    """Dropout is scored by its least confidence there, although the method declares another measure here."""
    value = published("dropout", "cora_ml", "ood/auroc", "os_1")
    runs = benchmark_rows({"gcn_dropout": [value["mean"] / 100] * 2}, metric="ood/auroc/lconf", scenario="os_1")
    audit = audit_benchmark(runs)
    (row,) = audit[audit["verdict"] == WITHIN_NOISE].to_dict("records")
    assert (row["measure"], row["published_as"]) == ("lconf", "dropout")


def test_splits_without_a_value_are_not_counted():
    runs = benchmark_rows({"gnnsafe": [0.8, float("nan"), 0.8]}, metric="test/accuracy", dataset="citeseer")
    (row,) = select_compared(audit_benchmark(runs)).to_dict("records")
    assert (row["ours"], row["splits"]) == (pytest.approx(80.0), 2)


def test_a_single_split_is_named_as_such():
    runs = benchmark_rows({"gnnsafe": [0.1]}, metric="test/accuracy", dataset="citeseer")
    (row,) = select_compared(audit_benchmark(runs)).to_dict("records")
    assert row["verdict"] == DIFFERS
    assert row["reason"] == "no reason known; ours is a single split, whose spread is unknown"


def test_differences_of_both_signs_do_not_cancel():
    value = published("gnnsafe", "citeseer", "test/accuracy")["mean"] / 100
    brier = published("gnnsafe", "citeseer", "test/brier")["mean"] / 100
    runs = benchmark_rows({"gnnsafe": [value + 0.1] * 2}, metric="test/accuracy", dataset="citeseer")
    counts = count_verdicts(audit_benchmark(runs.assign(**{"test/brier": brier - 0.1})), "model").loc["gnnsafe"]
    assert (counts["median"], counts["size"]) == (pytest.approx(0.0), pytest.approx(10.0))


def test_what_cannot_be_compared_is_said():
    runs = benchmark_rows({"gcn": [0.9, 0.9]}, metric="ood/auroc/energy", dataset="pubmed", scenario="os_4")
    audit = audit_benchmark(runs)
    undefined = audit[(audit["dataset"] == "pubmed") & audit["scenario"].isin(["os_4", "os_5"])]
    assert set(undefined.loc[undefined["backbone"] == "GCN", "verdict"]) == {UNDEFINED}
    assert set(audit["verdict"]) == {UNDEFINED, NOT_RUN}
    assert len(audit) == len(load_literature())
    assert count_verdicts(audit, "model").empty


def test_every_note_explains_a_value_that_differs(stored_audit):
    differing = stored_audit[stored_audit["verdict"] == DIFFERS]
    unused = [note["reason"] for note in load_notes() if note["reason"] not in set(differing["reason"])]
    assert unused == []


def test_every_method_has_a_family_and_every_protocol_its_methods():
    assert set(FAMILIES) == set(ALL_MODELS)
    assert all(set(protocol.models) <= set(ALL_MODELS) for protocol in PROTOCOLS.values())
