import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.caching import CacheImpl

from lopgpn_exp.data.synthetic import block_model
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Dispersion, ppr, ppr_matrix, row_stochastic, symmetric
from lopgpn_exp.graph.compiled import compiled
from lopgpn_exp.graph.ppr import memory_bound_gib


def permuted(graph, order):
    """The same graph with node i renamed order[i]."""
    edges = order[graph.edge_index]
    inverse = torch.argsort(order)
    keys = edges[0] * graph.num_nodes + edges[1]
    return graph.replace(
        features=graph.features[inverse],
        labels=graph.labels[inverse],
        part=graph.part[inverse],
        is_ood=graph.is_ood[inverse],
        edge_index=edges[:, torch.argsort(keys)],
    )


def dense(graph, **options):
    return ppr_matrix(graph, **options).scipy().toarray()


@pytest.mark.parametrize("scheme", ["recursion", "power"])
def test_dense_equals_sparse_without_pruning(small_graph, scheme):
    exact = dense(small_graph, prune_threshold=0.0, scheme=scheme)
    nearly = dense(small_graph, prune_threshold=1e-15, scheme=scheme)
    np.testing.assert_allclose(nearly, exact, atol=1e-12)


def test_the_recursion_against_explicit_matrix_powers(small_graph):
    """Z_L = sum_{l<L} eps ((1-eps) A)^l + ((1-eps) A)^L, from the definition."""
    a = 0.9 * row_stochastic(small_graph).toarray()
    expected = 0.1 * sum(np.linalg.matrix_power(a, step) for step in range(10)) + np.linalg.matrix_power(a, 10)
    np.testing.assert_allclose(dense(small_graph, prune_threshold=0.0), expected, atol=1e-13)


def test_the_literal_power_is_the_papers_equation_and_differs(small_graph):
    a = 0.1 * np.eye(300) + 0.9 * row_stochastic(small_graph).toarray()
    power = dense(small_graph, prune_threshold=0.0, scheme="power")
    np.testing.assert_allclose(power, np.linalg.matrix_power(a, 10), atol=1e-13)
    assert np.abs(power - dense(small_graph, prune_threshold=0.0)).max() > 0.01


@given(seed=st.integers(0, 50), delta=st.sampled_from([0.2, 0.05, 0.01, 0.001]), teleport=st.floats(0.01, 1.0))
@settings(max_examples=30, deadline=None)
def test_rows_sum_to_one_and_are_short(seed, delta, teleport):
    graph = block_model(num_nodes=60, num_edges=120, num_classes=3, num_features=2, seed=seed)
    matrix = ppr_matrix(graph, prune_threshold=delta, teleport=teleport).scipy()
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
    assert np.diff(matrix.indptr).max() <= 1 / delta + 1
    off_diagonal = matrix.tocoo()
    away = off_diagonal.row != off_diagonal.col
    assert (off_diagonal.data[away] >= delta * (1 - 1e-8)).all()


def test_pruning_by_hand(build_graph):
    """One step on a path of three, eps = 0.1: row 1 is (0.3, 0.4, 0.3); with delta = 0.35 its ends are dropped."""
    graph = build_graph([(0, 1), (1, 2)], [[1.0]] * 3, [0, 1, 0])
    expected = [[0.55, 0.45, 0], [0, 1, 0], [0, 0.45, 0.55]]
    np.testing.assert_allclose(dense(graph, num_steps=1, prune_threshold=0.35), expected, atol=1e-15)


def test_an_entry_at_the_threshold_is_kept_whatever_the_rounding(build_graph):
    """0.9 / 3 is the threshold on paper; a threshold one rounding away from it on either side decides the same."""
    graph = build_graph([(0, 1), (1, 2)], [[1.0]] * 3, [0, 1, 0])
    for delta in (np.nextafter(0.3, 1), 0.3, np.nextafter(0.3, 0)):
        assert np.count_nonzero(dense(graph, num_steps=1, prune_threshold=float(delta))[1]) == 3


def test_renaming_nodes_renames_the_matrix(small_graph):
    order = torch.randperm(300, generator=torch.Generator().manual_seed(3))
    original, renamed = dense(small_graph), dense(permuted(small_graph, order))
    np.testing.assert_allclose(renamed[np.ix_(order, order)], original, atol=1e-12)


def test_neither_blocks_nor_threads_change_a_bit(small_graph, monkeypatch):
    whole = dense(small_graph)
    monkeypatch.setattr(ppr, "ROWS_OF_A_TASK", 7)
    for threads in (1, 3):
        ppr._last.clear()
        torch.set_num_threads(threads)
        try:
            np.testing.assert_array_equal(dense(small_graph), whole)
        finally:
            torch.set_num_threads(1)


@pytest.mark.parametrize("scheme", ["recursion", "power"])
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.3])
def test_pruning_equals_the_textbook_by_dense_algebra(small_graph, scheme, delta):
    """Product, threshold, missing mass to the diagonal: written once more, with whole matrices."""
    operator, n = row_stochastic(small_graph).toarray(), small_graph.num_nodes
    expected = np.eye(n)
    for _ in range(10):
        product = 0.9 * operator @ expected + 0.1 * (np.eye(n) if scheme == "recursion" else expected)
        kept = np.where(product >= delta * (1 - 1e-9), product, 0)
        expected = kept + np.diag((product - kept).sum(axis=1))
    np.testing.assert_allclose(dense(small_graph, prune_threshold=delta, scheme=scheme), expected, atol=1e-13)


def test_an_isolated_node_keeps_its_own_opinion(small_graph):
    for delta in (0.0, 0.01):
        row = dense(small_graph, prune_threshold=delta)[5]
        assert row[5] == pytest.approx(1)
        assert np.count_nonzero(row) == 1


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_the_cache_on_disk_is_used_and_survives_damage(small_graph, tmp_path, delta, monkeypatch):
    ppr._last.clear()
    first = dense(small_graph, prune_threshold=delta, cache_dir=tmp_path)
    (file,) = tmp_path.iterdir()
    ppr._last.clear()
    with monkeypatch.context() as patch:
        patch.setattr(ppr, "_compute", lambda *_: pytest.fail("computed again"))
        np.testing.assert_array_equal(dense(small_graph, prune_threshold=delta, cache_dir=tmp_path), first)
    ppr._last.clear()
    file.write_bytes(file.read_bytes()[:100])
    np.testing.assert_array_equal(dense(small_graph, prune_threshold=delta, cache_dir=tmp_path), first)
    with np.load(file) as archive:
        arrays = dict(archive)
    key = "dense" if delta == 0 else "data"
    np.savez(file, **(arrays | {key: arrays[key] * 2}))  # whole, but not what was written
    ppr._last.clear()
    np.testing.assert_array_equal(dense(small_graph, prune_threshold=delta, cache_dir=tmp_path), first)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_memory_is_bounded_and_stated_before_anything_is_allocated(small_graph):
    bound = memory_bound_gib(170_000, 0.0)
    assert bound > 600
    assert memory_bound_gib(170_000, 0.01) < 1.1
    with pytest.raises(InputError, match=r"can take 0\.00\d+ GiB") as caught:
        ppr_matrix(small_graph, memory_limit_gib=1e-4)
    assert "model.memory_limit_gib=1" in str(caught.value)


@pytest.mark.parametrize(
    ("delta", "scheme"), [(0.0, "recursion"), (0.0, "power"), (0.01, "recursion"), (0.01, "power")]
)
def test_building_stays_below_the_stated_memory(delta, scheme):
    """Measured by numpy's own accounting."""
    graph = block_model(num_nodes=2000, num_edges=8000, num_classes=2, num_features=1)
    operator = row_stochastic(graph)
    tracemalloc.start()
    ppr._compute(operator, 10, 0.1, delta, scheme)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.1 * memory_bound_gib(2000, delta) <= peak / 2**30 <= memory_bound_gib(2000, delta)


@pytest.mark.parametrize("options", [{"teleport": 0.0}, {"teleport": 1.5}, {"num_steps": -1}, {"prune_threshold": 1.0}])
def test_senseless_values_are_refused(small_graph, options):
    with pytest.raises(InputError, match=next(iter(options))):
        ppr_matrix(small_graph, **options)


@pytest.mark.parametrize("scheme", ["recursion", "power"])
def test_dispersion_equals_the_matrix_and_has_its_gradient(small_graph, scheme):
    operator = row_stochastic(small_graph)
    values = torch.randn(300, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    matrix = torch.from_numpy(dense(small_graph, prune_threshold=0.0, scheme=scheme)).float()
    disperse = Dispersion(operator, num_steps=10, teleport=0.1, scheme=scheme)
    torch.testing.assert_close(disperse(values), matrix @ values)
    weights = torch.randn(300, 4, generator=torch.Generator().manual_seed(1))
    gradient = torch.autograd.grad((disperse(values) * weights).sum(), values)[0]
    torch.testing.assert_close(gradient, matrix.T @ weights)


def test_dispersion_with_teleport_one_is_the_identity(small_graph):
    values = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(Dispersion(symmetric(small_graph), num_steps=10, teleport=1.0)(values), values)


def test_kernels_compile_where_nothing_can_be_cached(monkeypatch):
    """numba refuses to cache a function for which it finds no folder that it can write to."""
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])

    @compiled
    def twice(x):
        return 2 * x

    assert twice(21) == 42
