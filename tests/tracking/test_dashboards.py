"""Preset dashboards: every metric has a chart, and the experiment lists them. tests/browser opens them."""

from lopgpn_exp.tracking.dashboards import (
    OTHER,
    Dashboard,
    dataset_dashboard,
    describe_dashboards,
    read_dashboards,
    runs_dashboard,
)

RUN = {
    *("arc/tu", "arc/eu_so", "ood/auroc/tu", "ood/fpr95/tu", "test/accuracy", "id/accuracy", "val/nll", "test/ece"),
    *("training/loss", "training/val_nll", "epochs", "seconds/train", "peak_rss_mb"),
}
SUMMARY = {"arc/tu", "gaussian/ood/auroc/tu", "leave_out_classes/ood/auroc/eu", "gaussian/id/accuracy", "test/nll"}


def sections(dashboard: Dashboard) -> dict[str, set[str]]:
    """Return the metrics by the section they are drawn in, in the order of the page."""
    names = {section["uuid"]: section["name"] for section in dashboard.state["compareRunSections"]}
    metrics: dict[str, set[str]] = {name: set() for name in names.values()}
    for chart in dashboard.state["compareRunCharts"]:
        metrics[names[chart["metricSectionId"]]].add(chart["metricKey"])
    return metrics


def test_every_metric_has_one_chart_in_the_section_of_its_kind():
    by_section = sections(runs_dashboard(RUN))
    assert list(by_section) == [
        "Accuracy-rejection curves",
        "OOD AUC-ROC",
        "Accuracy",
        "Calibration",
        "Training",
        "Cost",
        OTHER,
    ]
    assert by_section["Accuracy-rejection curves"] == {"arc/tu", "arc/eu_so"}
    assert by_section["Training"] == {"training/loss", "training/val_nll", "epochs"}
    assert by_section[OTHER] == {"ood/fpr95/tu", "val/nll"}
    charts = runs_dashboard(RUN).state["compareRunCharts"]
    assert sorted(chart["metricKey"] for chart in charts) == sorted(RUN)
    assert len({chart["uuid"] for chart in charts}) == len(charts)


def test_metric_with_steps_is_a_line_chart_and_any_other_a_bar_chart():
    kinds = {chart["metricKey"]: chart["type"] for chart in runs_dashboard(RUN).state["compareRunCharts"]}
    assert {key for key, kind in kinds.items() if kind == "LINE"} == {
        *("arc/tu", "arc/eu_so", "training/loss", "training/val_nll")
    }


def test_dashboard_of_a_dataset_has_one_section_per_scenario():
    dashboard = dataset_dashboard("cora_ml", SUMMARY)
    by_section = sections(dashboard)
    assert by_section["OOD AUC-ROC · leave_out_classes"] == {"leave_out_classes/ood/auroc/eu"}
    assert by_section["OOD AUC-ROC · gaussian"] == {"gaussian/ood/auroc/tu"}
    assert by_section["Accuracy"] == {"gaussian/id/accuracy"}
    assert "tags.dataset = 'cora_ml'" in dashboard.state["searchFilter"]


def test_new_measure_gets_its_charts_without_further_code():
    by_section = sections(runs_dashboard(RUN | {"arc/mine", "ood/auroc/mine", "something/new"}))
    assert "arc/mine" in by_section["Accuracy-rejection curves"]
    assert "ood/auroc/mine" in by_section["OOD AUC-ROC"]
    assert "something/new" in by_section[OTHER]


def test_scenario_of_a_user_has_its_section_too():
    by_section = sections(dataset_dashboard("digits", {"mine/ood/auroc/eu", "feature_noise/ood/auroc/tu", "arc/tu"}))
    assert list(by_section) == ["Accuracy-rejection curves", "OOD AUC-ROC · feature_noise", "OOD AUC-ROC · mine"]


def test_dashboard_of_the_full_protocol_fits_into_a_tag_of_every_mlflow_version():
    """Before 2026-08, MLflow allowed 5,000 characters."""
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


def test_dataset_may_have_any_name():
    dashboard = dataset_dashboard("größe (1)", SUMMARY)
    assert dashboard.key == "models-gr__e__1_"
    assert read_dashboards(dict([dashboard.tag])) == [dashboard]


def test_dashboards_are_read_back_from_the_tags_of_an_experiment():
    dashboards = [dataset_dashboard("digits", SUMMARY), runs_dashboard(RUN)]
    tags = dict(dashboard.tag for dashboard in dashboards) | {
        "mlflow.sharedViewState.0123": "shared by hand",
        "other": "x",
    }
    assert read_dashboards(tags) == dashboards
    assert read_dashboards(tags)[1].metrics == RUN


def test_description_links_to_all_dashboards_on_any_server():
    text = describe_dashboards([runs_dashboard(RUN), dataset_dashboard("digits", SUMMARY)], "7")
    assert "[models on digits](#/experiments/7/runs?viewStateShareKey=models-digits&compareRunsMode=CHART)" in text
    assert "[single runs](#/experiments/7/runs?viewStateShareKey=runs&compareRunsMode=CHART)" in text
    assert "http" not in text
