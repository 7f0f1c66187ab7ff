"""The contract of a model, to be checked from a test, a notebook or the command line (`python -m lopgpn_exp.testing`).

    from lopgpn_exp.testing import check_model

    def test_my_model_keeps_its_promises():
        check_model(MyModel, hidden_dim=32)

All promises are asked for, and what is broken is told together: which promise, what was seen, what to look at.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lopgpn_exp.testing.contract import check_config, check_model, examine_config, examine_model
    from lopgpn_exp.testing.promises import PROMISES
    from lopgpn_exp.testing.report import BrokenPromiseError, Outcome, Report, Status
    from lopgpn_exp.testing.trial import Terms

_HOME = {
    "contract": ("check_config", "check_model", "examine_config", "examine_model"),
    "promises": ("PROMISES",),
    "report": ("BrokenPromiseError", "Outcome", "Report", "Status"),
    "trial": ("Terms",),
}
__all__ = [
    "PROMISES",
    "BrokenPromiseError",
    "Outcome",
    "Report",
    "Status",
    "Terms",
    "check_config",
    "check_model",
    "examine_config",
    "examine_model",
]


def __getattr__(name: str) -> object:
    """All of it without importing torch for those who only ask for --help."""
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"lopgpn_exp.testing.{module}"), name)
    raise AttributeError(f"module 'lopgpn_exp.testing' has no attribute {name!r}")
