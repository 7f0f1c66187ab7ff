"""GNNSafe's propagated energy and Monte Carlo dropout."""

import pytest
import torch
from torch.testing import assert_close

from lopgpn_exp.errors import InputError
from lopgpn_exp.models import GPN, Classifier, EvidentialGNN
from lopgpn_exp.posterior import Categorical, Samples
from lopgpn_exp.posthoc import EnergyPropagation, MonteCarloDropout, PostHocModel
from lopgpn_exp.seeds import seeded


def classifier(**options):
    with seeded(0):
        return Classifier(num_features=12, num_classes=3, **options).eval()


def test_energies_of_two_nodes_by_hand(build_graph):
    """Energies -log 2 and -log 8: after a step with gamma 0.25, each keeps a quarter of its own."""
    graph = build_graph([(0, 1)], [[1.0]] * 3, [0, 1, 0])
    posterior = Categorical.from_logits(torch.log(torch.tensor([[1.0, 1.0], [4.0, 4.0], [2.0, 3.0]])))
    first, second, alone = -torch.log(torch.tensor([2.0, 8.0, 5.0])).double()
    step = EnergyPropagation(num_steps=1, gamma=0.25)
    expected = torch.stack([0.25 * first + 0.75 * second, 0.25 * second + 0.75 * first, alone])
    result = step.refine(posterior, classifier(), graph)
    assert_close(result.measure("propagated_energy"), expected, atol=1e-6, rtol=1e-6)
    assert torch.equal(result.mean, posterior.mean)


@pytest.mark.parametrize("options", [{"num_steps": 0}, {"num_steps": 5, "gamma": 1.0}])
def test_without_steps_the_energy_stays_as_it_is(small_graph, options):
    model = classifier()
    posterior = model.predict(small_graph)
    result = EnergyPropagation(**options).refine(posterior, model, small_graph)
    assert torch.equal(result.measure("propagated_energy"), posterior.energy())


def test_many_steps_give_equal_energies_in_a_component(build_graph):
    """A walk that stays with probability 1/2 converges to the mean weighted by degrees."""
    graph = build_graph([(0, 1), (1, 2)], [[1.0]] * 3, [0, 1, 0])
    posterior = Categorical.from_logits(torch.tensor([[0.0, 1.0], [2.0, 3.0], [5.0, 1.0]]))
    energy = posterior.energy()
    result = EnergyPropagation(num_steps=200).refine(posterior, classifier(), graph).measure("propagated_energy")
    assert_close(result, ((energy * torch.tensor([1, 2, 1])).sum() / 4).expand(3), atol=1e-9, rtol=0)


def test_dropout_passes_are_seeded_and_leave_the_model_as_it_was(small_graph):
    model = classifier(dropout=0.5)
    before, state = model.predict(small_graph).mean, torch.random.get_rng_state()
    step = MonteCarloDropout(num_passes=4, dropout=0.3, seed=1)
    first, second = (step.refine(model.predict(small_graph), model, small_graph) for _ in range(2))
    other = MonteCarloDropout(num_passes=4, dropout=0.3, seed=2).refine(model.predict(small_graph), model, small_graph)
    assert isinstance(first, Samples)
    assert first.log_probabilities.shape == (4, 300, 3)
    assert torch.equal(first.mean, second.mean)
    assert not torch.equal(first.mean, other.mean)
    assert torch.equal(model.predict(small_graph).mean, before)
    assert model.encoder.dropout == 0.5
    assert not model.training
    assert torch.equal(torch.random.get_rng_state(), state)


def test_without_dropout_all_passes_agree(small_graph):
    model = classifier()
    samples = MonteCarloDropout(num_passes=3, dropout=0.0).refine(model.predict(small_graph), model, small_graph)
    assert samples.eu().max() < 1e-7
    assert_close(samples.mean, model.predict(small_graph).mean, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("base", "step", "missing"),
    [
        (GPN, "EnergyPropagation", "logits"),
        (EvidentialGNN, "GEBM", "hidden layer"),
        (GPN, "MonteCarloDropout", "dropout"),
    ],
)
def test_a_step_that_a_model_cannot_have_is_refused(base, step, missing):
    with pytest.raises(InputError, match=f"mine needs the {missing} of a model, and {base.__name__} has none"):
        PostHocModel(
            num_features=2,
            num_classes=2,
            base={"_target_": f"lopgpn_exp.models.{base.__name__}"},
            steps={"mine": {"_target_": f"lopgpn_exp.posthoc.{step}"}},
        )
