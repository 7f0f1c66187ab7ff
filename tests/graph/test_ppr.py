"""The PPR matrix and dispersion."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.caching import CacheImpl

from lopgpn_exp.data.datasets.synthetic import block_model
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Dispersion, Graph, ppr, ppr_matrix, row_stochastic, symmetric
from lopgpn_exp.graph.compilation import compile_kernel
from lopgpn_exp.graph.ppr import memory_bound_gib
from lopgpn_exp.threads import limit_cores, limit_threads


def permute(graph, order):
    """Return the same graph with node i renumbered as order[i]."""
    inverse = torch.argsort(order)
    return graph.replace(
        features=graph.features[inverse],
        labels=graph.labels[inverse],
        part=graph.part[inverse],
        is_ood=graph.is_ood[inverse],
        edge_index=order[graph.edge_index],
    )


def dense_ppr(graph, **options):
    return ppr_matrix(graph, **options).scipy().toarray()


@pytest.mark.parametrize("scheme", ["recursion", "power"])
def test_dense_equals_sparse_without_pruning(small_graph, scheme):
    exact = dense_ppr(small_graph, prune_threshold=0.0, scheme=scheme)
    barely_pruned = dense_ppr(small_graph, prune_threshold=1e-15, scheme=scheme)
    np.testing.assert_allclose(barely_pruned, exact, atol=1e-12)


def test_recursion_equals_explicit_matrix_powers(small_graph):
    """Z_L = sum_{l<L} eps ((1-eps) A)^l + ((1-eps) A)^L, from the definition."""
    a = 0.9 * row_stochastic(small_graph).toarray()
    expected = 0.1 * sum(np.linalg.matrix_power(a, step) for step in range(10)) + np.linalg.matrix_power(a, 10)
    np.testing.assert_allclose(dense_ppr(small_graph, prune_threshold=0.0), expected, atol=1e-13)


def test_power_scheme_equals_the_equation_of_the_paper_and_differs_from_the_recursion(small_graph):
    a = 0.1 * np.eye(300) + 0.9 * row_stochastic(small_graph).toarray()
    power = dense_ppr(small_graph, prune_threshold=0.0, scheme="power")
    np.testing.assert_allclose(power, np.linalg.matrix_power(a, 10), atol=1e-13)
    assert np.abs(power - dense_ppr(small_graph, prune_threshold=0.0)).max() > 0.01


@given(seed=st.integers(0, 50), delta=st.sampled_from([0.2, 0.05, 0.01, 0.001]), teleport=st.floats(0.01, 1.0))
@settings(max_examples=30, deadline=None)
def test_rows_sum_to_one_and_are_short(seed, delta, teleport):
    graph = block_model(num_nodes=60, num_edges=120, num_classes=3, num_features=2, seed=seed)
    matrix = ppr_matrix(graph, prune_threshold=delta, teleport=teleport).scipy()
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
    assert np.diff(matrix.indptr).max() <= 1 / delta + 1
    entries = matrix.tocoo()
    mask = entries.row != entries.col
    assert (entries.data[mask] >= delta * (1 - 1e-8)).all()


def test_pruning_matches_values_by_hand(build_graph):
    """One step on a path of three nodes, eps = 0.1: row 1 is (0.3, 0.4, 0.3); delta = 0.35 drops its outer entries."""
    graph = build_graph([(0, 1), (1, 2)], [[1.0]] * 3, [0, 1, 0])
    expected = [[0.55, 0.45, 0], [0, 1, 0], [0, 0.45, 0.55]]
    np.testing.assert_allclose(dense_ppr(graph, num_steps=1, prune_threshold=0.35), expected, atol=1e-15)


def test_entry_at_the_threshold_is_kept_regardless_of_rounding(build_graph):
    """The entry is 0.9 / 3; thresholds one rounding step above and below 0.3 give the same result."""
    graph = build_graph([(0, 1), (1, 2)], [[1.0]] * 3, [0, 1, 0])
    for delta in (np.nextafter(0.3, 1), 0.3, np.nextafter(0.3, 0)):
        assert np.count_nonzero(dense_ppr(graph, num_steps=1, prune_threshold=float(delta))[1]) == 3


def test_renumbering_nodes_permutes_the_matrix(small_graph):
    order = torch.randperm(300, generator=torch.Generator().manual_seed(3))
    original, renumbered = dense_ppr(small_graph), dense_ppr(permute(small_graph, order))
    np.testing.assert_allclose(renumbered[np.ix_(order, order)], original, atol=1e-12)


def test_result_does_not_depend_on_blocks_threads_or_cores(small_graph, monkeypatch):
    expected = dense_ppr(small_graph)
    for rows, threads, cores in ((7, 1, 1), (7, 3, 1), (2, 1, 3)):  # 150 blocks are distributed over all cores
        monkeypatch.setattr(ppr, "ROWS_PER_TASK", rows)
        ppr._cache.clear()
        with limit_threads(threads), limit_cores(cores):
            np.testing.assert_array_equal(dense_ppr(small_graph), expected)


@pytest.mark.parametrize("scheme", ["recursion", "power"])
def test_sums_follow_the_order_of_the_edges_to_the_bit(scheme):
    """The same steps with a dict per row. The first node has 900 neighbours: its hash table is the largest."""
    n, delta = 1000, 0.002
    path, star = np.arange(n - 1), np.arange(1, 901)
    edges = np.stack([np.concatenate([path, 0 * star]), np.concatenate([path + 1, star])])
    graph = Graph.build(features=np.ones((n, 1)), edge_index=edges, labels=np.arange(n) % 2)
    operator = row_stochastic(graph)
    rows = [{i: 1.0} for i in range(n)]
    for _ in range(3):
        rows = [_pruned_row(operator, rows, i, delta * (1 - 1e-9), scheme) for i in range(n)]
    result = ppr_matrix(graph, num_steps=3, prune_threshold=delta, scheme=scheme).scipy()
    for i, row in enumerate(rows):
        entries = slice(result.indptr[i], result.indptr[i + 1])
        assert dict(zip(result.indices[entries].tolist(), result.data[entries].tolist(), strict=True)) == row
        assert (np.diff(result.indices[entries]) > 0).all()


def _pruned_row(operator, rows, i, threshold, scheme):
    total: dict[int, float] = {}
    for edge in range(operator.indptr[i], operator.indptr[i + 1]):
        weight = (1 - 0.1) * float(operator.data[edge])
        for column, value in rows[operator.indices[edge]].items():
            total[column] = total.get(column, 0.0) + weight * value
    for column, value in {i: 1.0}.items() if scheme == "recursion" else rows[i].items():
        total[column] += 0.1 * value
    pruned_mass = sum(value for value in total.values() if value < threshold)
    kept = {column: value if value >= threshold else 0.0 for column, value in total.items()}
    kept[i] += pruned_mass
    return {column: kept[column] for column in sorted(kept) if kept[column] > 0}


@pytest.mark.parametrize("scheme", ["recursion", "power"])
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.3])
def test_pruning_equals_dense_algebra(small_graph, scheme, delta):
    """Product, threshold, lost mass added to the diagonal: the same steps with dense matrices."""
    operator, n = row_stochastic(small_graph).toarray(), small_graph.num_nodes
    expected = np.eye(n)
    for _ in range(10):
        product = 0.9 * operator @ expected + 0.1 * (np.eye(n) if scheme == "recursion" else expected)
        kept = np.where(product >= delta * (1 - 1e-9), product, 0)
        expected = kept + np.diag((product - kept).sum(axis=1))
    np.testing.assert_allclose(dense_ppr(small_graph, prune_threshold=delta, scheme=scheme), expected, atol=1e-13)


def test_isolated_node_keeps_its_own_opinion(small_graph):
    for delta in (0.0, 0.01):
        row = dense_ppr(small_graph, prune_threshold=delta)[5]
        assert row[5] == pytest.approx(1)
        assert np.count_nonzero(row) == 1


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_disk_cache_is_used_and_damaged_files_are_recomputed(small_graph, tmp_path, delta, monkeypatch):
    ppr._cache.clear()
    first = dense_ppr(small_graph, prune_threshold=delta, cache_dir=tmp_path)
    (file,) = tmp_path.glob("*.npz")
    ppr._cache.clear()
    with monkeypatch.context() as patch:
        patch.setattr(ppr, "_compute", lambda *_: pytest.fail("computed again"))
        np.testing.assert_array_equal(dense_ppr(small_graph, prune_threshold=delta, cache_dir=tmp_path), first)
    ppr._cache.clear()
    file.write_bytes(file.read_bytes()[:100])
    np.testing.assert_array_equal(dense_ppr(small_graph, prune_threshold=delta, cache_dir=tmp_path), first)
    with np.load(file) as archive:
        arrays = dict(archive)
    key = "dense" if delta == 0 else "data"
    np.savez(file, **(arrays | {key: arrays[key] * 2}))  # a valid archive with changed content
    ppr._cache.clear()
    np.testing.assert_array_equal(dense_ppr(small_graph, prune_threshold=delta, cache_dir=tmp_path), first)
    assert [path.name for path in tmp_path.glob("*.npz")] == [file.name]


def test_too_large_matrix_is_rejected_before_anything_is_allocated(small_graph):
    bound = memory_bound_gib(170_000, 0.0)
    assert bound > 600
    assert memory_bound_gib(170_000, 0.01) < 1.1
    with pytest.raises(InputError, match=r"can take 0\.00\d+ GiB") as caught:
        ppr_matrix(small_graph, memory_limit_gib=1e-4)
    assert "memory_limit_gib=1" in str(caught.value)
    assert (caught.value.parameter, caught.value.suggestion) == ("prune_threshold", 0.05)


@pytest.mark.parametrize(
    ("delta", "scheme"), [(0.0, "recursion"), (0.0, "power"), (0.01, "recursion"), (0.01, "power")]
)
def test_memory_stays_below_the_bound(delta, scheme):
    """Measured with tracemalloc, to which numpy reports its allocations."""
    graph = block_model(num_nodes=2000, num_edges=8000, num_classes=2, num_features=1)
    operator = row_stochastic(graph)
    tracemalloc.start()
    ppr._compute(operator, 10, 0.1, delta, scheme, "float64")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.1 * memory_bound_gib(2000, delta) <= peak / 2**30 <= memory_bound_gib(2000, delta)


@pytest.mark.parametrize("options", [{"teleport": 0.0}, {"teleport": 1.5}, {"num_steps": -1}, {"prune_threshold": 1.0}])
def test_options_out_of_range_are_rejected(small_graph, options):
    (name,) = options
    with pytest.raises(InputError, match=name) as caught:
        ppr_matrix(small_graph, **options)
    assert caught.value.parameter == name
    ppr_matrix(small_graph, **{name: caught.value.suggestion})


@pytest.mark.parametrize("scheme", ["recursion", "power"])
def test_dispersion_equals_the_matrix_product_and_its_gradient(small_graph, scheme):
    operator = row_stochastic(small_graph)
    values = torch.randn(300, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    matrix = torch.from_numpy(dense_ppr(small_graph, prune_threshold=0.0, scheme=scheme)).float()
    disperse = Dispersion(operator, num_steps=10, teleport=0.1, scheme=scheme)
    torch.testing.assert_close(disperse(values), matrix @ values)
    weights = torch.randn(300, 4, generator=torch.Generator().manual_seed(1))
    gradient = torch.autograd.grad((disperse(values) * weights).sum(), values)[0]
    torch.testing.assert_close(gradient, matrix.T @ weights)


def test_dispersion_with_teleport_one_is_the_identity(small_graph):
    values = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(Dispersion(symmetric(small_graph), num_steps=10, teleport=1.0)(values), values)


def test_kernels_compile_without_a_writable_cache_folder(monkeypatch):
    """numba refuses to cache a function if it finds no writable folder."""
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])

    @compile_kernel
    def twice(x):
        return 2 * x

    assert twice(21) == 42


@pytest.mark.parametrize("scheme", ["recursion", "power"])
def test_float32_pruning_follows_the_public_code_step_by_step(small_graph, scheme):
    """Against dense float32 arithmetic in the same order: product, factor, teleport, comparison, diagonal."""
    operator = row_stochastic(small_graph).toarray().astype(np.float32)
    identity = np.eye(small_graph.num_nodes, dtype=np.float32)
    current, delta = identity, 0.02
    for _ in range(10):
        teleported = np.float32(0.1) * (identity if scheme == "recursion" else current)
        current = (operator @ current) * np.float32(0.9) + teleported
        current = np.where(current >= np.float32(delta), current, np.float32(0))
        current = current + np.diag(1 - current.sum(axis=1))
    found = dense_ppr(small_graph, prune_threshold=delta, precision="float32", scheme=scheme)
    assert ((found > 0) == (current > 0)).mean() > 0.999  # dense products add up in another order
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    exact = dense_ppr(small_graph, prune_threshold=delta, scheme=scheme)
    assert np.median(np.abs(found - exact).max(axis=1)) < 1e-6


def test_float32_decides_ties_at_the_threshold_by_rounding():
    """A node with nine neighbours: 0.9 / 10 * 0.1 + ... has entries equal to delta, which rounding moves below it."""
    star = Graph.build(
        features=torch.ones(10, 1), edge_index=torch.tensor([[0] * 9, range(1, 10)]), labels=torch.arange(10) % 2
    )
    options = {"num_steps": 1, "teleport": 0.1, "prune_threshold": 0.09}
    kept = dense_ppr(star, **options)[0] > 0
    rounded = np.float32(np.float32(0.1) * np.float32(0.9)) >= np.float32(0.09)
    assert kept.all()
    assert not rounded
    assert ((dense_ppr(star, precision="float32", **options)[0] > 0)[1:] == rounded).all()
