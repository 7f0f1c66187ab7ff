"""Preset dashboards: every metric on a chart, kept in step, listed where people look. tests/browser opens them."""

from lopgpn_exp.experiment.tracking.dashboards import (
    REST,
    Dashboard,
    dashboards_in,
    dataset_dashboard,
    described,
    runs_dashboard,
)

RUN = {
    *("arc/tu", "arc/eu_so", "ood/auroc/tu", "ood/fpr95/tu", "test/accuracy", "id/accuracy", "val/nll", "test/ece"),
    *("training/loss", "training/val_nll", "epochs", "seconds/train", "peak_rss_mb"),
}
SUMMARY = {"arc/tu", "gaussian/ood/auroc/tu", "leave_out_classes/ood/auroc/eu", "gaussian/id/accuracy", "test/nll"}


def sections(dashboard: Dashboard) -> dict[str, set[str]]:
    """Metrics by the section they are drawn in, in the order of the page."""
    names = {section["uuid"]: section["name"] for section in dashboard.state["compareRunSections"]}
    found: dict[str, set[str]] = {name: set() for name in names.values()}
    for chart in dashboard.state["compareRunCharts"]:
        found[names[chart["metricSectionId"]]].add(chart["metricKey"])
    return found


def test_every_metric_has_one_chart_in_the_section_that_people_look_in():
    found = sections(runs_dashboard(RUN))
    assert list(found) == [
        "Accuracy-rejection curves",
        "OOD AUC-ROC",
        "Accuracy",
        "Calibration",
        "Training",
        "Cost",
        REST,
    ]
    assert found["Accuracy-rejection curves"] == {"arc/tu", "arc/eu_so"}
    assert found["Training"] == {"training/loss", "training/val_nll", "epochs"}
    assert found[REST] == {"ood/fpr95/tu", "val/nll"}
    charts = runs_dashboard(RUN).state["compareRunCharts"]
    assert sorted(chart["metricKey"] for chart in charts) == sorted(RUN)
    assert len({chart["uuid"] for chart in charts}) == len(charts)


def test_what_has_steps_is_a_line_and_what_has_one_value_a_bar():
    kinds = {chart["metricKey"]: chart["type"] for chart in runs_dashboard(RUN).state["compareRunCharts"]}
    assert {key for key, kind in kinds.items() if kind == "LINE"} == {
        *("arc/tu", "arc/eu_so", "training/loss", "training/val_nll")
    }


def test_a_sweeps_models_have_a_section_a_scenario():
    dashboard = dataset_dashboard("cora_ml", SUMMARY)
    found = sections(dashboard)
    assert found["OOD AUC-ROC · leave_out_classes"] == {"leave_out_classes/ood/auroc/eu"}
    assert found["OOD AUC-ROC · gaussian"] == {"gaussian/ood/auroc/tu"}
    assert found["Accuracy"] == {"gaussian/id/accuracy"}
    assert "tags.dataset = 'cora_ml'" in dashboard.state["searchFilter"]


def test_a_new_measure_gets_its_charts_by_itself():
    found = sections(runs_dashboard(RUN | {"arc/mine", "ood/auroc/mine", "something/new"}))
    assert "arc/mine" in found["Accuracy-rejection curves"]
    assert "ood/auroc/mine" in found["OOD AUC-ROC"]
    assert "something/new" in found[REST]


def test_a_scenario_of_the_users_own_has_its_section_too():
    found = sections(dataset_dashboard("digits", {"mine/ood/auroc/eu", "feature_noise/ood/auroc/tu", "arc/tu"}))
    assert list(found) == ["Accuracy-rejection curves", "OOD AUC-ROC · feature_noise", "OOD AUC-ROC · mine"]


def test_the_protocols_dashboard_fits_into_a_tag_of_every_mlflow():
    """5,000 characters, as MLflow had it before 2026-08."""
    measures = ("tu", "au", "eu", "eu_pc", "eu_so", "lconf")
    scenarios = ("leave_out_classes", "bernoulli", "gaussian", "feature_dropout", "feature_noise")
    metrics = {f"{p}/{m}" for p in ("arc", "test/auarc") for m in measures} | {
        "test/accuracy",
        "epochs",
        "seconds/train",
    }
    for scenario in scenarios:
        metrics |= {f"{scenario}/{p}/{m}" for p in ("ood/auroc", "ood/aupr", "ood/fpr95", "change") for m in measures}
        metrics |= {f"{scenario}/{p}/accuracy" for p in ("id", "ood")}
    assert len(metrics) > 140
    assert len(dataset_dashboard("amazon_computers", metrics).tag[1]) < 5000


def test_a_dataset_may_have_any_name():
    made = dataset_dashboard("größe (1)", SUMMARY)
    assert made.key == "models-gr__e__1_"
    assert dashboards_in(dict([made.tag])) == [made]


def test_dashboards_are_found_again_in_an_experiments_tags():
    made = [dataset_dashboard("digits", SUMMARY), runs_dashboard(RUN)]
    tags = dict(dashboard.tag for dashboard in made) | {"mlflow.sharedViewState.0123": "shared by hand", "other": "x"}
    assert dashboards_in(tags) == made
    assert dashboards_in(tags)[1].metrics == RUN


def test_the_description_links_to_all_of_them_on_whichever_server():
    text = described([runs_dashboard(RUN), dataset_dashboard("digits", SUMMARY)], "7")
    assert "[models on digits](#/experiments/7/runs?viewStateShareKey=models-digits&compareRunsMode=CHART)" in text
    assert "[single runs](#/experiments/7/runs?viewStateShareKey=runs&compareRunsMode=CHART)" in text
    assert "http" not in text
