"""The contract of a model, as checks that run from a test, a notebook or the command line.

    from lopgpn_exp.testing import check_model

    def test_my_model():
        check_model(MyModel, hidden_dim=32)

All checks run even if one fails; a failure says what was expected and observed, and where the cause usually is.
"""

from lopgpn_exp.testing.check_types import Check, CheckFailedError, CheckReport, CheckResult, Status
from lopgpn_exp.testing.checks import CHECKS
from lopgpn_exp.testing.contract import check_config, check_model, iterate_checks, run_checks
from lopgpn_exp.testing.model_under_test import CheckSettings, ModelUnderTest

__all__ = [
    "CHECKS",
    "Check",
    "CheckFailedError",
    "CheckReport",
    "CheckResult",
    "CheckSettings",
    "ModelUnderTest",
    "Status",
    "check_config",
    "check_model",
    "iterate_checks",
    "run_checks",
]
