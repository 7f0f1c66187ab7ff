"""Claims about the paper's figures 1 to 3, which need no experiment."""

from __future__ import annotations

from lopgpn_exp.report import concepts
from lopgpn_exp.report.claims.evidence import FAILS, HOLDS, Claim, Evidence


def same_total(_: Evidence) -> Claim:
    _, uniform, bimodal = concepts.second_order()
    same = abs(uniform.measure("tu") - bimodal.measure("tu")) < 1e-9
    more = bimodal.measure("eu") > uniform.measure("eu")
    return Claim(
        "TU cannot tell ignorance from two sure opinions",
        "Sec. 2.1, Fig. 1",
        "have the same TU",
        "TU of Q2 and Q3 is equal, and EU of Q3 is larger",
        HOLDS if same and more else FAILS,
        f"TU {uniform.measure('tu'):.4f} and {bimodal.measure('tu'):.4f}, "
        f"EU {uniform.measure('eu'):.4f} and {bimodal.measure('eu'):.4f}",
    )


def conflict(_: Evidence) -> Claim:
    alone, gpn, lop = concepts.opinions()[0], concepts.gpn_pooled()[0], concepts.lop_gpn_pooled()[0]
    beliefs = {"alone": alone, "GPN": gpn, "LOP-GPN": lop}
    raised = gpn.measure("au") > alone.measure("au") + 0.2 and gpn.measure("eu") < 0.02
    kept = abs(lop.measure("au") - alone.measure("au")) < 1e-6 and lop.measure("eu") > alone.measure("eu") + 0.2
    texts = [f"{n}: AU {b.measure('au'):.3f}, EU {b.measure('eu'):.3f}" for n, b in beliefs.items()]
    return Claim(
        "A conflict becomes aleatoric in GPN and epistemic in LOP-GPN",
        "Sec. 3.3 and 4, Fig. 2 and 3",
        "AU is not increased",
        "two sure, opposite opinions: GPN raises AU and keeps EU low, LOP-GPN keeps AU and raises EU",
        HOLDS if raised and kept else FAILS,
        "; ".join(texts),
    )
