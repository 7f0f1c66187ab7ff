"""Each promise can be broken, and is then named: toy models with one defect each."""

import math
import random
import subprocess
import sys
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
from lopgpn_exp.testing import PROMISES, BrokenPromiseError, Status, Terms, check_config, check_model, examine_model
from lopgpn_exp.testing.__main__ import main
from tests.test_startup import start

OWN_CONFIG = "name: mine\n_target_: tests.test_testing.Sound\n"


class Sound(GradientModel):
    """A linear layer's evidence, from each node's own features."""

    def __init__(self, *, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_features, num_classes)

    def prepare(self, graph: Graph, *, nodes: Tensor | None = None, cache_dir: Path | None = None) -> Any:
        features = self.seen(graph)
        return features if nodes is None else features[nodes]

    def seen(self, graph: Graph) -> Tensor:
        return graph.features

    def forward(self, prepared: Any) -> Any:
        return Dirichlet(1 + self.evidence(prepared))

    def evidence(self, features: Tensor) -> Tensor:
        return nn.functional.softplus(self.linear(features))

    def node_loss(self, posterior: Dirichlet, labels: Tensor) -> Tensor:
        return posterior.expected_cross_entropy(labels)


class NeedsManyFeatures(Sound):
    def __init__(self, *, num_features: int, num_classes: int) -> None:
        super().__init__(num_features=num_features, num_classes=num_classes)
        if num_features < 2:
            raise ValueError("too few features")


class LossIsNaN(Sound):
    def node_loss(self, posterior, labels):
        return super().node_loss(posterior, labels) * math.nan


class PredictsATensor(Sound):
    def predict(self, graph, *, cache_dir=None):
        return super().predict(graph, cache_dir=cache_dir).mean


class ForgetsTheSoftmax(Sound):
    def forward(self, prepared):
        return Categorical(self.linear(prepared))

    def node_loss(self, posterior, labels):
        return posterior.expected_cross_entropy(labels) + posterior.log_mean.logsumexp(dim=1)


class PredictsNaN(Sound):
    """Where nobody trains or validates."""

    def predict(self, graph, *, cache_dir=None):
        alpha = super().predict(graph).alpha
        return Dirichlet(alpha.index_fill(0, graph.nodes(Part.TEST)[:1], math.nan))


class PredictsTestNodesAlone(Sound):
    def predict(self, graph, *, cache_dir=None):
        return super().predict(graph)[graph.nodes(Part.TEST)]


class Flipped(Dirichlet):
    """Dirichlets with one measure of the user's own."""

    def __getitem__(self, nodes):
        return type(self)(self.alpha[nodes])


class NegativeEU(Flipped):
    def eu(self):
        return -super().eu()

    def au(self):
        return self.tu() - super().eu()


class PositiveCounts(Flipped):
    def eu_pc(self):
        return -super().eu_pc()


class FloatMeasure(Flipped):
    def eu_so(self):
        return super().eu_so().float()


class MoreAUThanTU(Flipped):
    def au(self):
        return self.tu() + 0.1


class Confidence(Flipped):
    def lconf(self):
        return self.mean.double().amax(dim=1)


class NegativeTU(Flipped):
    def tu(self):
        return -super().tu()

    def au(self):
        return self.tu()


class InfiniteEntropy(Flipped):
    def eu_so(self):
        return torch.where(self.alpha[:, 0] > 1.5, math.inf, super().eu_so())


class SortsWhenIndexed(Dirichlet):
    def __getitem__(self, nodes):
        return SortsWhenIndexed(self.alpha[nodes.sort().values])


class BecomesAnother(Dirichlet):
    """Indexed, it has other measures."""

    def __getitem__(self, nodes):
        return Categorical(self.log_mean[nodes])


class Believes(Sound):
    """A model with the posterior that its option names."""

    def __init__(self, *, num_features: int, num_classes: int, posterior: str) -> None:
        super().__init__(num_features=num_features, num_classes=num_classes)
        self.posterior = globals()[posterior]

    def forward(self, prepared):
        return self.posterior(1 + self.evidence(prepared))


class DropsOutWhilePredicting(Sound):
    def evidence(self, features):
        return super().evidence(nn.functional.dropout(features, 0.5, training=True))


class DrawsFromItsOwnGenerator(Sound):
    def evidence(self, features):
        self.generator = getattr(self, "generator", None) or torch.Generator().manual_seed(0)
        return super().evidence(features) * (1 + 0.1 * torch.rand(len(features), 1, generator=self.generator))


class InitialisedByNumpy(Sound):
    def __init__(self, *, num_features: int, num_classes: int) -> None:
        super().__init__(num_features=num_features, num_classes=num_classes)
        with torch.no_grad():
            self.linear.weight.copy_(torch.from_numpy(np.random.randn(num_classes, num_features)))  # noqa: NPY002


class InitialisedByRandom(Sound):
    def __init__(self, *, num_features: int, num_classes: int) -> None:
        super().__init__(num_features=num_features, num_classes=num_classes)
        with torch.no_grad():
            self.linear.bias += random.random()


class HasItsOwnSeed(Sound):
    def __init__(self, *, num_features: int, num_classes: int) -> None:
        torch.manual_seed(7)
        super().__init__(num_features=num_features, num_classes=num_classes)


class DrawsInVain(Sound):
    """Its numbers do not depend on what it draws, but everybody's after it do."""

    def evidence(self, features):
        np.random.rand()  # noqa: NPY002
        return super().evidence(features)


class SeesLabels(Sound):
    def seen(self, graph):
        return graph.features + nn.functional.one_hot(graph.labels, graph.num_features)


class CountsAllLabels(Sound):
    """A prior of all classes, test nodes' too; kept in the state, so that predictions need no labels."""

    def __init__(self, *, num_features: int, num_classes: int) -> None:
        super().__init__(num_features=num_features, num_classes=num_classes)
        self.register_buffer("prior", torch.ones(num_classes))

    def prepare(self, graph, *, nodes=None, cache_dir=None):
        if self.training:
            self.prior.copy_(torch.bincount(graph.labels, minlength=graph.num_classes) / graph.num_nodes)
        return super().prepare(graph, nodes=nodes)

    def evidence(self, features):
        return super().evidence(features) * self.prior


class CountsValidationLabels(CountsAllLabels):
    def prepare(self, graph, *, nodes=None, cache_dir=None):
        only = graph.labels[graph.nodes(Part.VAL)]
        if self.training:
            self.prior.copy_(torch.bincount(only, minlength=graph.num_classes) / len(only))
        return Sound.prepare(self, graph, nodes=nodes)


class SeesMarks(Sound):
    def seen(self, graph):
        return graph.features + graph.is_ood[:, None]


class ClampsInPlace(Sound):
    def seen(self, graph):
        return graph.features.clamp_(-1, 1)


class SortsItsNodes(Sound):
    def prepare(self, graph, *, nodes=None, cache_dir=None):
        return super().prepare(graph, nodes=nodes if nodes is None else nodes.sort().values)


class KnowsPositions(Sound):
    def seen(self, graph):
        return graph.features + torch.linspace(0, 1, graph.num_nodes)[:, None]


class DividesByTheLargestDegree(Sound):
    def seen(self, graph):
        degree = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes)
        return graph.features + (degree / degree.max())[:, None]


class ObservesIntoAnAttribute(Sound):
    prior: Any = 1.0

    def observe(self, train_labels):
        counts = torch.bincount(train_labels).float()
        self.prior = counts / counts.sum()

    def evidence(self, features):
        return super().evidence(features) * self.prior


class SavesAnObject(Sound):
    def get_extra_state(self):
        return Path("weights")

    def set_extra_state(self, state):
        pass


class RemembersFeaturesByEdges(Sound):
    def seen(self, graph):
        self.known = getattr(self, "known", {})
        return self.known.setdefault(graph.structure_fingerprint, graph.features)


class MeanLoss(Sound):
    def node_loss(self, posterior, labels):
        return super().node_loss(posterior, labels).mean()


class CentredLoss(Sound):
    def node_loss(self, posterior, labels):
        losses = super().node_loss(posterior, labels)
        return losses - losses.mean().detach()


class NeverLearns(Sound):
    def node_loss(self, posterior, labels):
        return 0 * super().node_loss(posterior, labels)


class FitsAllLabels(GKDE):
    def fit_nodes(self, graph, nodes, labels, **how):
        everyone = torch.arange(graph.num_nodes)
        return super().fit_nodes(graph, everyone, graph.labels, **how)


class FitsFeatures(GKDE):
    def fit_nodes(self, graph, nodes, labels, **how):
        found = super().fit_nodes(graph, nodes, labels, **how)
        return {"alpha": found["alpha"] + graph.features.abs().mean(dim=1, keepdim=True)}


class FitsIntoAnAttribute(GKDE):
    def fit_nodes(self, graph, nodes, labels, **how):
        self.alpha = super().fit_nodes(graph, nodes, labels, **how)["alpha"]
        return {}

    def posterior(self, fitted):
        return Dirichlet(self.alpha)


class NumbersItsNodes(GKDE):
    def fit_nodes(self, graph, nodes, labels, **how):
        found = super().fit_nodes(graph, nodes, labels, **how)
        return {"alpha": found["alpha"] + torch.arange(graph.num_nodes)[:, None] / graph.num_nodes}


# What each breaks, and a word of what is then seen.
BROKEN = {
    NeedsManyFeatures: ("construction", "ValueError: too few features (test_testing.py, line"),
    LossIsNaN: ("fits", "is nan"),
    PredictsATensor: ("posterior", "returned a Tensor"),
    ForgetsTheSoftmax: ("posterior", "adds up to"),
    PredictsNaN: ("posterior", "nan"),
    PredictsTestNodesAlone: ("posterior", "shape (180, 3), not (300, 3)"),
    DropsOutWhilePredicting: ("repeats random_state", "a prediction moves the global random state of torch"),
    DrawsFromItsOwnGenerator: ("repeats", "means of the same graph differ"),
    InitialisedByNumpy: ("same_seed random_state", "training moves the global random state of numpy"),
    InitialisedByRandom: ("same_seed", "two trainings with one seed differ"),
    HasItsOwnSeed: ("other_seed", "are the same"),
    DrawsInVain: ("random_state", "a prediction moves the global random state of numpy"),
    SeesLabels: ("labels", "predictions change with the labels"),
    CountsAllLabels: ("labels", "labels outside of training and validation"),
    CountsValidationLabels: ("labels", "labels of validation nodes"),
    SeesMarks: ("ood_marks", "marks of nodes change predictions"),
    ClampsInPlace: ("graph_untouched", "graph.features has changed"),
    SortsItsNodes: ("some_nodes", "its row of all differ by"),
    KnowsPositions: ("renaming", "under its old name differ by"),
    DividesByTheLargestDegree: ("no_edges", "is nan"),
    ObservesIntoAnAttribute: ("checkpoint", "a new model with the state_dict predicts otherwise"),
    SavesAnObject: ("checkpoint", "weights_only"),
    RemembersFeaturesByEdges: ("other_graphs", "on the graph with other features"),
    MeanLoss: ("loss", "losses of shape ()"),
    CentredLoss: ("loss", "changes the loss of node"),
    NeverLearns: ("learns", "accuracy 0."),
    FitsAllLabels: ("labels", "labels outside of training and validation"),
    FitsFeatures: ("features", "other features give another fit"),
    FitsIntoAnAttribute: ("checkpoint", "alpha"),
    NumbersItsNodes: ("renaming", "under its old name differ by"),
}
BROKEN_POSTERIORS = {
    NegativeEU: ("measures", "eu of node 0 is -"),
    PositiveCounts: ("measures", "eu_pc of node 0 is"),
    FloatMeasure: ("measures", "eu_so is float32"),
    MoreAUThanTU: ("measures", "not between 0 and its tu"),
    Confidence: ("measures", "lconf of node"),
    NegativeTU: ("measures", "tu of node"),
    InfiniteEntropy: ("measures", "is inf"),
    SortsWhenIndexed: ("indexing", "its row of all differ by"),
    BecomesAnother: ("indexing", "gives a Categorical"),
}


@pytest.mark.parametrize("model", [Sound, GKDE], ids=lambda model: model.__name__)
def test_a_sound_model_keeps_all_promises_of_its_kind(model):
    report = check_model(model)
    assert {outcome.status for outcome in report.outcomes} == {Status.kept}
    assert [outcome.name for outcome in report.outcomes] == [p.name for p in PROMISES if issubclass(model, p.of)]


@pytest.mark.parametrize("model", BROKEN, ids=lambda model: model.__name__)
def test_a_defect_breaks_just_its_promise(model):
    named_and_seen(examine_model(model), *BROKEN[model])


@pytest.mark.parametrize("posterior", BROKEN_POSTERIORS, ids=lambda posterior: posterior.__name__)
def test_a_defect_of_a_posterior_breaks_just_its_promise(posterior):
    named_and_seen(examine_model(Believes, posterior=posterior.__name__), *BROKEN_POSTERIORS[posterior])


def named_and_seen(report, names: str, seen: str) -> None:
    assert report.broken == names.split()
    messages = "\n".join(report[name].message for name in report.broken)
    assert seen in messages
    assert all(word in messages for word in ("promised:", "look at:"))
    for name in report.untested:  # a promise is left out only for want of one that is broken
        assert any(needed in report.broken + report.untested for needed in promise(name).needs)


def promise(name: str):
    return next(each for each in PROMISES if each.name == name)


def test_every_promise_has_a_model_that_breaks_it():
    """A check that cannot fail is none."""
    broken = {name for names, _ in [*BROKEN.values(), *BROKEN_POSTERIORS.values()] for name in names.split()}
    assert broken == {each.name for each in PROMISES}


def test_what_a_promise_needs_is_asked_for_before_it():
    asked: list[str] = []
    for each in PROMISES:
        assert set(each.needs) <= set(asked)
        asked.append(each.name)


def test_all_that_is_broken_is_told_at_once():
    with pytest.raises(AssertionError) as told:
        check_model(DropsOutWhilePredicting)
    assert type(told.value) is BrokenPromiseError
    first, *lines = str(told.value).splitlines()
    assert first == "tests.test_testing.DropsOutWhilePredicting()"
    assert [line.partition(":")[0].strip() for line in lines] == [
        "repeats",
        "promised",
        "look at",
        "random_state",
        "promised",
        "look at",
    ]


def test_what_is_excused_is_not_asked_for_and_says_why():
    report = check_model(HasItsOwnSeed, terms=Terms(excused={"other_seed": "its seed is fixed on purpose"}))
    assert report["other_seed"].status is Status.excused
    assert "its seed is fixed on purpose" in str(report)
    for excused in ({"other_sed": "so"}, {"other_seed": ""}):
        with pytest.raises(InputError, match="excused"):
            check_model(Sound, terms=Terms(excused=excused))


def test_terms_are_what_is_asked():
    assert examine_model(Sound, terms=Terms(accuracy=1.0)).broken == ["learns"]
    assert examine_model(NumbersItsNodes, terms=Terms(tolerance=1.0)).broken == []


def test_the_examination_leaves_no_trace():
    def world():
        numpy_state = np.random.get_state()[1].tolist()  # noqa: NPY002
        return torch.get_num_threads(), torch.random.get_rng_state().tolist(), numpy_state

    before = world()
    examine_model(InitialisedByNumpy)
    assert world() == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_model(Sound, hidden_dim=3), "model.hidden_dim is not an option"),
        (lambda: check_model("tests.test_testing.Sond"), "cannot be imported"),
        (lambda: check_model(nn.Linear), "is no model"),
        (lambda: check_model(GradientModel), "has no forward"),
        (lambda: check_model(Believes), "model.posterior is not set"),
        (lambda: check_model(type("Local", (Sound,), {"__qualname__": "f.<locals>.Local"})), "imported by its name"),
        (lambda: check_config("mine", config_dir="nowhere"), "there is no folder nowhere"),
    ],
)
def test_a_mistake_is_not_a_broken_promise(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_a_config_is_checked_with_its_options(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text(OWN_CONFIG)
    assert check_config("mine", config_dir=tmp_path).model == "tests.test_testing.Sound()"
    (tmp_path / "model" / "other.yaml").write_text(OWN_CONFIG)
    with pytest.raises(InputError, match="model=other has the name mine"):
        check_config("other", config_dir=tmp_path)


def test_the_command_tells_and_counts(capsys, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text(OWN_CONFIG)
    main(["mine", "--config-dir", str(tmp_path)])
    out = capsys.readouterr().out
    assert "  kept      renaming" in out
    assert out.endswith("19 promises: 19 kept\n")
    with pytest.raises(SystemExit) as stop:
        main(["tests.test_testing.Believes", "posterior=NegativeEU", "--excuse", "learns=no time"])
    assert stop.value.code == 1
    out = capsys.readouterr().out
    assert "  BROKEN    measures" in out
    assert "no time" in out
    assert out.endswith("19 promises: 16 kept, 1 broken, 1 untested, 1 excused\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tests.test_testing.Believes", "posterior=1"], "model.posterior is 1"),
        (["tests.test_testing.Sound", "x"], "options of the form key=value"),
        (["gkd"], "model=gkde"),
    ],
)
def test_mistakes_on_the_command_line_are_one_message(capsys, words, message):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_help_imports_nothing_heavy_and_the_checks_no_pytest(tmp_path):
    code, output, imported = start(tmp_path, "lopgpn_exp.testing", "--help")
    assert code == 0, output
    assert "check_model" in output
    assert imported == set()
    probe = "import sys, lopgpn_exp.testing.contract; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
