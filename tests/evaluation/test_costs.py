"""What runs cost: a training that several runs share counts once."""

import pandas as pd
import pytest

from lopgpn_exp.evaluation.costs import summarise_costs


def make_runs(scenarios: dict[str, str], *, model: str = "gkde") -> pd.DataFrame:
    """One run per scenario; the values are training ids."""
    rows = [
        {"model": model, "scenario": scenario, "run_id": scenario, "training_id": training_id}
        | {"epochs": 7 if training_id == "clean" else 9, "peak_rss_mb": 100.0}
        | {"seconds/load": 0.0, "seconds/prepare": 600.0, "seconds/train": 3000.0, "seconds/evaluate": 900.0}
        for scenario, training_id in scenarios.items()
    ]
    return pd.DataFrame(rows)


def test_a_training_that_scenarios_share_counts_once():
    scenarios = {"none": "clean", "leave_out_classes": "other", "bernoulli": "clean", "gaussian": "clean"}
    row = summarise_costs(make_runs(scenarios)).loc["gkde"]
    assert (row["runs"], row["trainings"], row["train_hours"], row["other_hours"]) == (4, 2, 2.0, 1.0)
    assert (row["mean_epochs"], row["peak_mb"]) == (8.0, 100.0)


@pytest.mark.parametrize("order", [["none", "my_noise"], ["my_noise", "none"]])
def test_a_scenario_of_the_user_that_is_only_evaluated_is_not_a_training(order):
    row = summarise_costs(make_runs(dict.fromkeys(order, "clean"))).loc["gkde"]
    assert (row["runs"], row["trainings"], row["train_hours"]) == (2, 1, 1.0)


def test_a_scenario_of_the_user_that_is_trained_on_is_a_training():
    row = summarise_costs(make_runs({"none": "clean", "my_classes": "own"})).loc["gkde"]
    assert (row["runs"], row["trainings"], row["train_hours"]) == (2, 2, 2.0)


def test_scenarios_count_without_the_clean_run():
    row = summarise_costs(make_runs({"bernoulli": "clean", "gaussian": "clean"})).loc["gkde"]
    assert (row["runs"], row["trainings"], row["train_hours"], row["mean_epochs"]) == (2, 1, 1.0, 7.0)


def test_costs_are_per_model():
    runs = pd.concat([make_runs({"none": "clean"}), make_runs({"none": "clean", "gaussian": "clean"}, model="gpn_rw")])
    assert summarise_costs(runs)["trainings"].to_dict() == {"gkde": 1, "gpn_rw": 1}
    assert summarise_costs(runs)["runs"].to_dict() == {"gkde": 1, "gpn_rw": 2}


def test_results_without_training_ids_are_refused():
    with pytest.raises(KeyError, match="training_id"):
        summarise_costs(make_runs({"none": "clean"}).drop(columns="training_id"))
