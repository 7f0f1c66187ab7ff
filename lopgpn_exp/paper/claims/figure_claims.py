"""Claims about the paper's figures 1 to 3, which need no experiment."""

from __future__ import annotations

from lopgpn_exp.paper.claims.evidence import FAILS, HOLDS, Claim, Evidence
from lopgpn_exp.paper.concept_figures import figure1_beliefs, pool_with_gpn, pool_with_lop_gpn, separate_beliefs


def check_equal_total_uncertainty(_: Evidence) -> Claim:
    uniform, bimodal = figure1_beliefs()[1:]
    is_tu_equal = abs(uniform.measure("tu") - bimodal.measure("tu")) < 1e-9
    is_eu_larger = bimodal.measure("eu") > uniform.measure("eu")
    return Claim(
        "TU cannot distinguish ignorance from two confident, conflicting opinions",
        "Sec. 2.1, Fig. 1",
        "have the same TU",
        "TU of Q2 and Q3 is equal, and EU of Q3 is larger",
        HOLDS if is_tu_equal and is_eu_larger else FAILS,
        f"TU {uniform.measure('tu'):.4f} and {bimodal.measure('tu'):.4f}, "
        f"EU {uniform.measure('eu'):.4f} and {bimodal.measure('eu'):.4f}",
    )


def check_conflict(_: Evidence) -> Claim:
    alone, gpn, lop = separate_beliefs()[0], pool_with_gpn()[0], pool_with_lop_gpn()[0]
    gpn_raises_au = gpn.measure("au") > alone.measure("au") + 0.2 and gpn.measure("eu") < 0.02
    lop_keeps_au = abs(lop.measure("au") - alone.measure("au")) < 1e-6
    lop_raises_eu = lop.measure("eu") > alone.measure("eu") + 0.2
    beliefs = {"alone": alone, "GPN": gpn, "LOP-GPN": lop}
    texts = [f"{name}: AU {b.measure('au'):.3f}, EU {b.measure('eu'):.3f}" for name, b in beliefs.items()]
    return Claim(
        "GPN turns conflict into aleatoric uncertainty, LOP-GPN into epistemic uncertainty",
        "Sec. 3.3 and 4, Fig. 2 and 3",
        "AU is not increased",
        "for two confident, opposite opinions, GPN raises AU and keeps EU low; LOP-GPN keeps AU and raises EU",
        HOLDS if gpn_raises_au and lop_keeps_au and lop_raises_eu else FAILS,
        "; ".join(texts),
    )
