"""Run identities: stable across versions, and changed by everything that changes a result and by nothing else."""

import pandas as pd
import pytest

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.config.schema import KEYS_WITHOUT_EFFECT, LABEL_IGNORED_KEYS, flatten
from lopgpn_exp.models import GPN
from lopgpn_exp.runs.execute import LocatedRun, locate_run
from lopgpn_exp.runs.sweep_folder import label_variants
from lopgpn_exp.seeds import derive_seed
from tests.support import ROOT, TINY, compose

MODELS = ("lop_gpn", "gpn_rw", "gpn_sym", "appnp", "matern_ggp", "gkde")
PUBLISHED = ROOT / "outputs" / "reproduction" / "random_splits" / "runs.parquet"
# Another value of every key that changes no result. `None`: keys that the configs of these models do not have.
OTHER_VALUES = {
    "trainer.progress": "true",
    "model.memory_limit_gib": "9",
    "dataset.memory_limit_gib": None,  # an option of dataset=custom
    "tracking.enabled": "true",
    "tracking.uri": "sqlite:///other.db",
    "tracking.experiment": "other",
    "inits": "3",
    "output_dir": "elsewhere",
    "data_root": "elsewhere",
    "force": "true",
    "dry_run": "true",
    "report": "[test/ece]",
}


def locate(*overrides: str) -> LocatedRun:
    return locate_run(plan_run(compose(*overrides)))


@pytest.fixture(scope="module")
def published_ids() -> dict[tuple[str, str, str], str]:
    """Run ids of the reproduction's default runs on the first split, by model, dataset and scenario."""
    if not PUBLISHED.is_file():
        pytest.skip("there are no reproduced runs")
    runs = pd.read_parquet(PUBLISHED, columns=["model", "dataset", "scenario", "split", "init", "variant", "run_id"])
    runs = runs[(runs["split"] == 0) & (runs["init"] == 0) & (runs["variant"] == "")]
    return runs.set_index(["model", "dataset", "scenario"])["run_id"].to_dict()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("dataset", "scenario"), [("cora_ml", "none"), ("cora_ml", "leave_out_classes"), ("citeseer", "gaussian")]
)
def test_ids_of_the_reproduced_runs_are_unchanged(real_data, published_ids, monkeypatch, model, dataset, scenario):
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    found = locate(f"model={model}", f"dataset={dataset}", f"ood={scenario}")
    assert found.run_id == published_ids[model, dataset, scenario]


def test_id_of_the_default_run_is_unchanged():
    assert locate().run_id == "lop_gpn-digits-s0-i0-none-500cb89095"


def test_numerics_version_of_a_model_changes_its_ids_and_those_of_no_other_model(monkeypatch):
    before = {name: locate(f"model={name}", *TINY).training_id for name in ("gpn_sym", "appnp")}
    monkeypatch.setattr(GPN, "numerics_version", 99)
    after = {name: locate(f"model={name}", *TINY).training_id for name in ("gpn_sym", "appnp")}
    assert before["gpn_sym"] != after["gpn_sym"]
    assert before["appnp"] == after["appnp"]


def test_training_seeds_are_unchanged():
    assert derive_seed("training", 0, 1) != derive_seed("training", 1, 0)
    assert derive_seed("training", 0) != derive_seed("scenario/gaussian", 0)
    assert derive_seed("training", 0, 0) == 5014218136554246131  # another value would silently change every result


def test_everything_that_changes_a_result_changes_the_id():
    changes = [
        "model.teleport=0.2",
        "model.optimizer.learning_rate=0.02",
        "split.index=1",
        "init=1",
        "dataset.seed=1",
        "trainer.max_epochs=5",
        "trainer.threads=2",
        "ood=bernoulli",
        "model=gpn_sym",
    ]
    run_ids = {locate(*TINY, *override).run_id for override in [(), *((change,) for change in changes)]}
    assert len(run_ids) == len(changes) + 1


def test_keys_without_effect_change_neither_the_id_nor_the_label_of_a_run():
    assert set(OTHER_VALUES) == KEYS_WITHOUT_EFFECT < LABEL_IGNORED_KEYS
    base = locate(*TINY)
    for key, value in OTHER_VALUES.items():
        if value is None:
            continue
        changed = locate(*TINY, f"{key}={value}")
        assert changed.plan.config != base.plan.config, f"{key}={value} changes nothing"
        assert (changed.run_id, changed.training_id) == (base.run_id, base.training_id), key
        assert label_variants({"first": base.plan.config, "second": changed.plan.config}) == {}, key


def test_keys_without_effect_exist():
    keys = {
        key for overrides in (TINY, ["dataset=custom", "dataset.path=x.csv"]) for key, _ in flatten(compose(*overrides))
    }
    assert keys >= KEYS_WITHOUT_EFFECT


def test_memory_limit_of_a_file_does_not_change_the_id(tmp_path):
    from tests.support.tables import write_tables

    write_tables(tmp_path)
    words = ["dataset=custom", f"dataset.path={tmp_path}", "model=gkde"]
    assert locate(*words).run_id == locate(*words, "dataset.memory_limit_gib=9").run_id
