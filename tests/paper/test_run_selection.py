"""Which runs make up the reproduction: the paper's protocol, variants, and tests of scale."""

import pandas as pd
import pytest

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.errors import InputError
from lopgpn_exp.paper import run_selection
from lopgpn_exp.paper.run_selection import compose_runs, find_scale_runs, identify_runs
from lopgpn_exp.report.names import MODEL_NAMES
from lopgpn_exp.runs.execute import locate_run
from lopgpn_exp.sweeps.sweep_plan import dataset_cache
from tests.support import ROOT, run_tiny


def test_the_runs_are_the_papers_protocol():
    """Six models, four scenarios, ten splits; one split of OGBN Arxiv, one initialisation of deterministic models."""
    configs = compose_runs(
        models=MODEL_NAMES, datasets=["cora_ml", "ogbn_arxiv"], splits=10, inits=2, split_name="published"
    )
    table = pd.DataFrame({"model": config["model"]["name"], "dataset": config["dataset"]["name"]} for config in configs)
    counts = table.groupby(["dataset", "model"]).size()
    deterministic = ("gkde", "matern_ggp")
    assert counts["cora_ml"].to_dict() == {m: 40 if m in deterministic else 80 for m in MODEL_NAMES}
    assert counts["ogbn_arxiv"].to_dict() == {m: 4 if m in deterministic else 8 for m in MODEL_NAMES}
    keys = {
        (c["model"]["name"], c["dataset"]["name"], c["split"]["index"], c["init"], c["ood"]["name"]) for c in configs
    }
    assert len(keys) == len(configs)


@pytest.mark.parametrize(
    ("split_name", "file"), [("published", "runs.parquet"), ("random", "random_splits/runs.parquet")]
)
def test_default_runs_have_the_ids_of_the_stored_ones(real_data, monkeypatch, split_name, file):
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    stored = pd.read_parquet(ROOT / "outputs/reproduction" / file, columns=["run_id", "variant"])
    options = {"models": MODEL_NAMES, "datasets": ["citeseer"], "splits": 1, "inits": 1}
    jobs = identify_runs(compose_runs(**options, split_name=split_name))
    assert len(jobs) == 6 * 4
    assert {job.run_id for job in jobs} <= set(stored.loc[stored["variant"] == "", "run_id"])


def test_a_variant_is_another_run_and_skips_models_without_the_option(real_data, monkeypatch):
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    options = {"models": ["gkde", "lop_gpn"], "datasets": ["cora_ml"], "splits": 1, "inits": 1, "split_name": "random"}
    default = identify_runs(compose_runs(**options))
    power = identify_runs(compose_runs(**options, variant=["model.dispersion=power"]))
    assert {job.model for job in default} == {"gkde", "lop_gpn"}
    assert {job.model for job in power} == {"lop_gpn"}
    assert not {job.run_id for job in default} & {job.run_id for job in power}
    with pytest.raises(InputError, match=r"gkde, lop_gpn cannot run with model\.dispersions=power"):
        compose_runs(**options, variant=["model.dispersions=power"])


def test_sharing_graphs_between_runs_changes_no_identity(real_data, monkeypatch):
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    configs = compose_runs(
        models=["gkde", "appnp"], datasets=["cora_ml", "citeseer"], splits=2, inits=1, split_name="published"
    )
    separate = [locate_run(dataset_cache.share(plan_run(config))).run_id for config in configs]
    assert [job.run_id for job in identify_runs(configs)] == separate


def test_large_synthetic_runs_are_listed_with_their_overrides(monkeypatch, tmp_path):
    outcome = run_tiny(tmp_path, "model=gkde", "ood=gaussian")
    assert find_scale_runs(tmp_path) == {}
    monkeypatch.setattr(run_selection, "LARGE", 300)
    (overrides,) = find_scale_runs(tmp_path).values()
    assert {"dataset.num_nodes=300", "dataset.signal=2", "trainer.max_epochs=6"} <= set(overrides.split())
    assert {word.split(".")[0] for word in overrides.split()} == {"dataset", "trainer"}
    outcome.folder.rename(outcome.folder.with_name(outcome.folder.name[:-1] + "x"))  # today's code gives another id
    assert find_scale_runs(tmp_path) == {}
