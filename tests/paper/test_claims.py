"""The rules that judge the paper's claims, on the published table."""

import pandas as pd
import pytest

from lopgpn_exp.paper.claims import check_claims
from tests.support.published_runs import published_results, published_table

EU_DROP = "LOP-GPN's EU curve falls at high rejection rates on three datasets"


@pytest.fixture(scope="module")
def results() -> pd.DataFrame:
    return published_table()


@pytest.fixture(scope="module")
def curves() -> pd.DataFrame:
    """Straight, rising lines: the paper's curves are not published."""
    frames = [
        pd.DataFrame({"measure": name.removeprefix("arc/"), "percent": range(100), "accuracy": curve}).assign(
            **{key: getattr(result, key) for key in ("dataset", "model", "scenario", "split", "init")}
        )
        for result in published_results()
        if result.scenario == "none"
        for name, curve in result.curves.items()
    ]
    return pd.concat(frames, ignore_index=True)


def test_verdicts_on_the_published_numbers(results, curves):
    claims = {claim.name: claim for claim in check_claims(results, curves)}
    assert claims["Only LOP-GPN stays accurate under Gaussian features"].verdict == "holds"
    assert "LOP-GPN 15" in claims["LOP-GPN detects changed features best"].evidence
    assert claims["On left-out classes, LOP-GPN is slightly worse than GPN, but similar"].verdict == "holds"
    assert claims["LOP-GPN is the most accurate model"].verdict == "holds in part"  # best on one dataset of five
    assert claims[EU_DROP].verdict == "does not hold"


def test_falling_eu_curves_on_the_right_datasets_are_recognised(results, curves):
    is_falling = curves["dataset"].isin(["citeseer", "amazon_photos", "amazon_computers"]) & (curves["measure"] == "eu")
    falling = curves.assign(accuracy=curves["accuracy"].where(~is_falling, 1 - curves["percent"] / 100))
    claims = {claim.name: claim for claim in check_claims(results, falling)}
    assert claims[EU_DROP].verdict == "holds"


def test_without_a_dataset_with_all_models_no_claim_is_judged(results, curves):
    assert check_claims(results[results["model"] != "gkde"], curves) == []
