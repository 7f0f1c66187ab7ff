"""The hypergeometric distribution, without scipy.stats, which is slow to import."""

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln


def hypergeometric_cdf(
    observed: Int[np.ndarray, " tests"],
    total: Int[np.ndarray, " tests"],
    wrong: Int[np.ndarray, " tests"],
    drawn: Int[np.ndarray, " tests"],
) -> Float[np.ndarray, " tests"]:
    """Return the probability that at most `observed` of `drawn` nodes are wrong, if `wrong` of all `total` are."""
    count = np.arange(int(observed.max(initial=0)) + 1)[:, None]
    is_possible = (count <= observed) & (count <= wrong) & (count <= drawn) & (drawn - count <= total - wrong)
    k = np.where(is_possible, count, 0)
    rest = np.where(is_possible, drawn - count, 0)
    logarithm = _log_binomial(wrong, k) + _log_binomial(total - wrong, rest) - _log_binomial(total, drawn)
    return np.where(is_possible, np.exp(logarithm), 0.0).sum(axis=0).clip(max=1.0)


def _log_binomial(n: np.ndarray, k: np.ndarray) -> np.ndarray:
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
