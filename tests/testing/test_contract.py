"""The contract finds every kind of defect: each toy model has one, and exactly the right check fails."""

import math
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.models import GKDE, GradientModel
from lopgpn_exp.posterior import Categorical, Dirichlet
from lopgpn_exp.testing import (
    CHECKS,
    CheckFailedError,
    CheckReport,
    CheckSettings,
    ModelUnderTest,
    Status,
    check_config,
    check_model,
    run_checks,
)
from tests.support.processes import run_program

USER_CONFIG = f"name: mine\n_target_: {__name__}.ValidModel\n"


class ValidModel(GradientModel):
    """Evidence from a linear layer on the features of each node."""

    def __init__(self, *, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_features, num_classes)

    def prepare(self, graph: Graph, *, nodes: Tensor | None = None, cache_dir: Path | None = None) -> Any:
        features = self.input_features(graph)
        return features if nodes is None else features[nodes]

    def input_features(self, graph: Graph) -> Tensor:
        return graph.features.to_dense()

    def forward(self, prepared: Any) -> Any:
        return Dirichlet(1 + self.evidence(prepared))

    def evidence(self, features: Tensor) -> Tensor:
        return nn.functional.softplus(self.linear(features))

    def node_loss(self, posterior: Dirichlet, labels: Tensor) -> Tensor:
        return posterior.expected_cross_entropy(labels)


class ReadsDenseFeatures(ValidModel):
    def input_features(self, graph):
        return graph.features.abs()


class NeedsManyFeatures(ValidModel):
    def __init__(self, *, num_features: int, num_classes: int) -> None:
        super().__init__(num_features=num_features, num_classes=num_classes)
        if num_features < 2:
            raise ValueError("too few features")


class NaNLoss(ValidModel):
    def node_loss(self, posterior, labels):
        return super().node_loss(posterior, labels) * math.nan


class PredictsTensor(ValidModel):
    def predict(self, graph, *, cache_dir=None):
        return super().predict(graph, cache_dir=cache_dir).mean


class MissingSoftmax(ValidModel):
    def forward(self, prepared):
        return Categorical(self.linear(prepared))

    def node_loss(self, posterior, labels):
        return posterior.expected_cross_entropy(labels) + posterior.log_mean.logsumexp(dim=1)


class PredictsNaN(ValidModel):
    """Only at a test node."""

    def predict(self, graph, *, cache_dir=None):
        alpha = super().predict(graph).alpha
        return Dirichlet(alpha.index_fill(0, graph.nodes(Part.TEST)[:1], math.nan))


class PredictsTestNodesOnly(ValidModel):
    def predict(self, graph, *, cache_dir=None):
        return super().predict(graph)[graph.nodes(Part.TEST)]


class CustomDirichlet(Dirichlet):
    """Base class of posteriors with a wrong measure."""

    def __getitem__(self, nodes):
        return type(self)(self.alpha[nodes])


class NegativeEU(CustomDirichlet):
    def eu(self):
        return -super().eu()

    def au(self):
        return self.tu() - super().eu()


class PositivePC(CustomDirichlet):
    def eu_pc(self):
        return -super().eu_pc()


class Float32Measure(CustomDirichlet):
    def eu_so(self):
        return super().eu_so().float()


class AUAboveTU(CustomDirichlet):
    def au(self):
        return self.tu() + 0.1


class ConfidenceAsLConf(CustomDirichlet):
    def lconf(self):
        return self.mean.double().amax(dim=1)


class NegativeTU(CustomDirichlet):
    def tu(self):
        return -super().tu()

    def au(self):
        return self.tu()


class InfiniteEntropy(CustomDirichlet):
    def eu_so(self):
        return torch.where(self.alpha[:, 0] > 1.5, math.inf, super().eu_so())


class SortsWhenIndexed(Dirichlet):
    def __getitem__(self, nodes):
        return SortsWhenIndexed(self.alpha[nodes.sort().values])


class ChangesTypeWhenIndexed(Dirichlet):
    """The indexed posterior has other measures."""

    def __getitem__(self, nodes):
        return Categorical(self.log_mean[nodes])


class WithPosterior(ValidModel):
    """A model that returns the posterior class with the given name."""

    def __init__(self, *, num_features: int, num_classes: int, posterior: str) -> None:
        super().__init__(num_features=num_features, num_classes=num_classes)
        self.posterior = globals()[posterior]

    def forward(self, prepared):
        return self.posterior(1 + self.evidence(prepared))


class DropoutInPrediction(ValidModel):
    def evidence(self, features):
        return super().evidence(nn.functional.dropout(features, 0.5, training=True))


class RandomPrediction(ValidModel):
    def evidence(self, features):
        self.generator = getattr(self, "generator", None) or torch.Generator().manual_seed(0)
        return super().evidence(features) * (1 + 0.1 * torch.rand(len(features), 1, generator=self.generator))


class InitialisedByNumpy(ValidModel):
    def __init__(self, *, num_features: int, num_classes: int) -> None:
        super().__init__(num_features=num_features, num_classes=num_classes)
        with torch.no_grad():
            self.linear.weight.copy_(torch.from_numpy(np.random.randn(num_classes, num_features)))  # noqa: NPY002


class InitialisedByPythonRandom(ValidModel):
    def __init__(self, *, num_features: int, num_classes: int) -> None:
        super().__init__(num_features=num_features, num_classes=num_classes)
        with torch.no_grad():
            self.linear.bias += random.random()


class FixedSeed(ValidModel):
    def __init__(self, *, num_features: int, num_classes: int) -> None:
        torch.manual_seed(7)
        super().__init__(num_features=num_features, num_classes=num_classes)


class UnusedNumpyDraw(ValidModel):
    """The draw does not change its own results, but those of everything that uses numpy afterwards."""

    def evidence(self, features):
        np.random.rand()  # noqa: NPY002
        return super().evidence(features)


class LabelsAsFeatures(ValidModel):
    def input_features(self, graph):
        return graph.features.to_dense() + nn.functional.one_hot(graph.labels, graph.num_features)


class PriorFromAllLabels(ValidModel):
    """The class prior counts test labels too. It is part of the state, so that predictions need no labels."""

    def __init__(self, *, num_features: int, num_classes: int) -> None:
        super().__init__(num_features=num_features, num_classes=num_classes)
        self.register_buffer("prior", torch.ones(num_classes))

    def prepare(self, graph, *, nodes=None, cache_dir=None):
        if self.training:
            self.prior.copy_(torch.bincount(graph.labels, minlength=graph.num_classes) / graph.num_nodes)
        return super().prepare(graph, nodes=nodes)

    def evidence(self, features):
        return super().evidence(features) * self.prior


class PriorFromValidationLabels(PriorFromAllLabels):
    def prepare(self, graph, *, nodes=None, cache_dir=None):
        labels = graph.labels[graph.nodes(Part.VAL)]
        if self.training:
            self.prior.copy_(torch.bincount(labels, minlength=graph.num_classes) / len(labels))
        return ValidModel.prepare(self, graph, nodes=nodes)


class OODMarksAsFeatures(ValidModel):
    def input_features(self, graph):
        return graph.features.to_dense() + graph.is_ood[:, None]


class ClampsFeaturesInPlace(ValidModel):
    def input_features(self, graph):
        return graph.features.to_dense().clamp_(-1, 1)


class SortsNodeSubset(ValidModel):
    def prepare(self, graph, *, nodes=None, cache_dir=None):
        return super().prepare(graph, nodes=nodes if nodes is None else nodes.sort().values)


class PositionsAsFeatures(ValidModel):
    def input_features(self, graph):
        return graph.features.to_dense() + torch.linspace(0, 1, graph.num_nodes)[:, None]


class DividesByLargestDegree(ValidModel):
    def input_features(self, graph):
        degree = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes)
        return graph.features.to_dense() + (degree / degree.max())[:, None]


class PriorAsAttribute(ValidModel):
    prior: Any = 1.0

    def observe(self, train_labels):
        counts = torch.bincount(train_labels).float()
        self.prior = counts / counts.sum()

    def evidence(self, features):
        return super().evidence(features) * self.prior


class PathInExtraState(ValidModel):
    def get_extra_state(self):
        return Path("weights")

    def set_extra_state(self, state):
        pass


class CachesFeaturesByEdges(ValidModel):
    def input_features(self, graph):
        self.cache = getattr(self, "cache", {})
        return self.cache.setdefault(graph.structure_fingerprint, graph.features.to_dense())


class MeanLoss(ValidModel):
    def node_loss(self, posterior, labels):
        return super().node_loss(posterior, labels).mean()


class CentredLoss(ValidModel):
    def node_loss(self, posterior, labels):
        losses = super().node_loss(posterior, labels)
        return losses - losses.mean().detach()


class ZeroLoss(ValidModel):
    def node_loss(self, posterior, labels):
        return 0 * super().node_loss(posterior, labels)


class FitsAllLabels(GKDE):
    def fit_nodes(self, data):
        return super().fit_nodes(replace(data, nodes=torch.arange(data.graph.num_nodes), labels=data.graph.labels))


class FitsFeatures(GKDE):
    def fit_nodes(self, data):
        alpha = super().fit_nodes(data)["alpha"]
        return {"alpha": alpha + data.graph.features.to_dense().abs().mean(dim=1, keepdim=True)}


class FitAsAttribute(GKDE):
    def fit_nodes(self, data):
        self.alpha = super().fit_nodes(data)["alpha"]
        return {}

    def posterior(self, fitted):
        return Dirichlet(self.alpha)


class AddsNodeIndex(GKDE):
    def fit_nodes(self, data):
        alpha = super().fit_nodes(data)["alpha"]
        return {"alpha": alpha + torch.arange(data.graph.num_nodes)[:, None] / data.graph.num_nodes}


# The checks that fail for each defect, and a part of the message.
DEFECTS = {
    NeedsManyFeatures: ("construction", "ValueError: too few features (test_contract.py, line"),
    NaNLoss: ("fit", "is nan"),
    PredictsTensor: ("posterior", "returned a Tensor"),
    MissingSoftmax: ("posterior", "sums to"),
    PredictsNaN: ("posterior", "nan"),
    PredictsTestNodesOnly: ("posterior", "shape (180, 3), not (300, 3)"),
    DropoutInPrediction: ("predict_twice random_state", "prediction changes the global random state of torch"),
    RandomPrediction: ("predict_twice", "means of the same graph differ"),
    InitialisedByNumpy: ("same_seed random_state", "training changes the global random state of numpy"),
    InitialisedByPythonRandom: ("same_seed", "two trainings with the same seed differ"),
    FixedSeed: ("different_seed", "are identical"),
    UnusedNumpyDraw: ("random_state", "prediction changes the global random state of numpy"),
    LabelsAsFeatures: ("label_access", "predictions change with the labels"),
    PriorFromAllLabels: ("label_access", "labels outside of training and validation"),
    PriorFromValidationLabels: ("label_access", "labels of validation nodes"),
    OODMarksAsFeatures: ("ood_access", "is_ood changes predictions"),
    ClampsFeaturesInPlace: ("graph_unchanged", "graph.features has changed"),
    SortsNodeSubset: ("node_subset", "from its value predicted with all nodes"),
    PositionsAsFeatures: ("node_permutation", "from its value before the permutation"),
    ReadsDenseFeatures: ("sparse_features", "test_contract.py, line"),
    DividesByLargestDegree: ("no_edges", "is nan"),
    PriorAsAttribute: ("checkpoint", "a new model with the same state_dict predicts something else"),
    PathInExtraState: ("checkpoint", "weights_only"),
    CachesFeaturesByEdges: ("other_graphs", "on a graph with other features"),
    MeanLoss: ("node_loss", "losses of shape ()"),
    CentredLoss: ("node_loss", "changes the loss of node"),
    ZeroLoss: ("learning", "accuracy is 0."),
    FitsAllLabels: ("label_access", "labels outside of training and validation"),
    FitsFeatures: ("feature_access", "features change the fitted model"),
    FitAsAttribute: ("checkpoint", "alpha"),
    AddsNodeIndex: ("node_permutation", "from its value before the permutation"),
}
POSTERIOR_DEFECTS = {
    NegativeEU: ("measures", "eu of node 0 is -"),
    PositivePC: ("measures", "eu_pc of node 0 is"),
    Float32Measure: ("measures", "eu_so is float32"),
    AUAboveTU: ("measures", "not between 0 and its tu"),
    ConfidenceAsLConf: ("measures", "lconf of node"),
    NegativeTU: ("measures", "tu of node"),
    InfiniteEntropy: ("measures", "is inf"),
    SortsWhenIndexed: ("indexing", "from its value predicted with all nodes"),
    ChangesTypeWhenIndexed: ("indexing", "returns a Categorical"),
}


def report_on(model: type, settings: CheckSettings | None = None, **options: Any) -> CheckReport:
    return run_checks(ModelUnderTest.from_class(model, options, settings))


@pytest.mark.parametrize("model", [ValidModel, GKDE], ids=lambda model: model.__name__)
def test_a_valid_model_passes_all_checks_of_its_kind(model):
    report = check_model(model)
    assert {result.status for result in report.results} == {Status.PASSED}
    assert [result.name for result in report.results] == [c.name for c in CHECKS if issubclass(model, c.applies_to)]


@pytest.mark.parametrize("model", DEFECTS, ids=lambda model: model.__name__)
def test_a_defect_fails_exactly_its_check(model):
    assert_fails(report_on(model), *DEFECTS[model])


@pytest.mark.parametrize("posterior", POSTERIOR_DEFECTS, ids=lambda posterior: posterior.__name__)
def test_a_defect_of_a_posterior_fails_exactly_its_check(posterior):
    assert_fails(report_on(WithPosterior, posterior=posterior.__name__), *POSTERIOR_DEFECTS[posterior])


def assert_fails(report: CheckReport, names: str, text: str) -> None:
    assert report.failed == names.split()
    messages = "\n".join(report[name].message for name in report.failed)
    assert text in messages
    assert all(word in messages for word in ("expected:", "advice:"))
    requires = {check.name: check.requires for check in CHECKS}
    not_run = [result.name for result in report.results if result.status is Status.NOT_RUN]
    for name in not_run:  # only because a required check did not pass
        assert any(required in report.failed + not_run for required in requires[name])


def test_every_check_has_a_model_that_fails_it():
    failed = {name for names, _ in [*DEFECTS.values(), *POSTERIOR_DEFECTS.values()] for name in names.split()}
    assert failed == {check.name for check in CHECKS}


def test_a_check_runs_after_the_checks_that_it_requires():
    earlier: list[str] = []
    for check in CHECKS:
        assert set(check.requires) <= set(earlier)
        earlier.append(check.name)


def test_one_error_describes_all_failures():
    with pytest.raises(AssertionError) as raised:
        check_model(DropoutInPrediction)
    assert type(raised.value) is CheckFailedError
    first, *lines = str(raised.value).splitlines()
    assert first == f"{__name__}.DropoutInPrediction()"
    assert [line.partition(":")[0].strip() for line in lines] == [
        "predict_twice",
        "expected",
        "advice",
        "random_state",
        "expected",
        "advice",
    ]


def test_a_skipped_check_is_not_run_and_reports_the_reason():
    report = check_model(FixedSeed, settings=CheckSettings(skip={"different_seed": "its seed is fixed on purpose"}))
    assert report["different_seed"].status is Status.SKIPPED
    assert "its seed is fixed on purpose" in str(report)


@pytest.mark.parametrize(
    ("skip", "message", "suggestion"),
    [
        ({"diferent_seed": "why"}, "there is no check 'diferent_seed'", "different_seed=why"),
        ({"different_seed": ""}, "'different_seed' is skipped without a reason", "different_seed=REASON"),
    ],
)
def test_a_skipped_check_must_exist_and_have_a_reason(skip, message, suggestion):
    with pytest.raises(InputError, match=message) as raised:
        check_model(ValidModel, settings=CheckSettings(skip=skip))
    assert (raised.value.parameter, raised.value.suggestion) == ("skip", suggestion)


def test_settings_change_the_requirements():
    assert report_on(ValidModel, CheckSettings(accuracy=1.0)).failed == ["learning"]
    assert report_on(AddsNodeIndex, CheckSettings(tolerance=1.0)).failed == []


def test_checks_restore_threads_and_random_states():
    def global_state():
        numpy_state = np.random.get_state()[1].tolist()  # noqa: NPY002
        return torch.get_num_threads(), torch.random.get_rng_state().tolist(), numpy_state

    before = global_state()
    report_on(InitialisedByNumpy)
    assert global_state() == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_model(ValidModel, hidden_dim=3), "^hidden_dim is not an option"),
        (lambda: check_model(f"{__name__}.ValdModel"), "cannot be imported"),
        (lambda: check_model(nn.Linear), "is not a model"),
        (lambda: check_model(GradientModel), "does not implement forward"),
        (lambda: check_model(WithPosterior), "^posterior is not set"),
        (lambda: check_model(type("Local", (ValidModel,), {"__qualname__": "f.<locals>.Local"})), "by its name"),
        (lambda: check_config("mine", config_dir="nowhere"), "there is no folder nowhere"),
    ],
)
def test_a_wrong_argument_is_an_input_error(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.fixture
def config_dir(tmp_path):
    """A folder of configs with the model `mine`."""
    folder = tmp_path / "conf"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "mine.yaml").write_text(USER_CONFIG)
    return folder


def test_a_config_is_checked_with_its_options(config_dir):
    assert check_config("mine", config_dir=config_dir).model == f"{__name__}.ValidModel()"
    (config_dir / "model" / "other.yaml").write_text(USER_CONFIG)
    with pytest.raises(InputError, match="model=other has the name mine"):
        check_config("other", config_dir=config_dir)


def test_the_command_prints_results_and_counts(command, config_dir):
    code, out, _ = command("check", "mine", "--config-dir", str(config_dir))
    assert code == 0
    assert "  passed   node_permutation" in out
    assert out.endswith("20 checks: 20 passed\n")
    code, out, _ = command("check", f"{__name__}.WithPosterior", "posterior=NegativeEU", "--skip", "learning=no time")
    assert code == 1
    assert "  FAILED   measures" in out
    assert "no time" in out
    assert out.endswith("20 checks: 17 passed, 1 failed, 1 not run, 1 skipped\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([f"{__name__}.WithPosterior", "posterior=1"], ": posterior is 1"),
        ([f"{__name__}.ValidModel", "x"], "key=value"),
        (["gkd"], "model=gkde"),
    ],
)
def test_a_wrong_command_line_prints_one_message(command, words, message):
    code, _, err = command("check", *words)
    assert code == 2
    assert message in err


def test_help_imports_nothing_heavy_and_the_checks_do_not_import_pytest(tmp_path):
    code, output, imported = run_program(tmp_path, "check", "--help")
    assert code == 0, output
    assert "check_model" in output
    assert imported == set()
    probe = "import sys, lopgpn_exp.testing; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
