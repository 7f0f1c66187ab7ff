"""`lopgpn_exp check`: check that a model keeps the contract that the framework relies on."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lopgpn_exp.commands.dispatch import FAILED, CommandResult
from lopgpn_exp.commands.overrides import quote_overrides
from lopgpn_exp.commands.shared import print_line
from lopgpn_exp.errors import InputError

DESCRIPTION = "Check a model against everything that the framework relies on."
EXAMPLES = """examples:
  lopgpn_exp check my_package.MyModel hidden_dim=32              a class, with its options
  lopgpn_exp check mine --config-dir conf                        the model of conf/model/mine.yaml
  lopgpn_exp check mine model.hidden_dim=32 --config-dir conf    ... with another value
  lopgpn_exp check lop_gpn                                       one of ours
  lopgpn_exp check mine --config-dir conf --skip different_seed='the model is deterministic'

In a test of your own: from lopgpn_exp.testing import check_model, check_config, CheckSettings
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="import path of a class, or the name of a model's config")
    parser.add_argument(
        "options", nargs="*", metavar="KEY=VALUE", help="options of the class, or overrides of the config"
    )
    parser.add_argument("--config-dir", type=Path, help="your own folder of configs")
    parser.add_argument("--accuracy", type=float, help="test accuracy above which it has learned (default: 0.6)")
    parser.add_argument("--learning-epochs", type=int, help="epochs after which it must have learned (default: 80)")
    parser.add_argument("--skip", action="append", default=[], metavar="CHECK=REASON", help="skip a check")


def execute(options: argparse.Namespace) -> CommandResult:
    # Deferred import: --help works without torch.
    from lopgpn_exp.testing import CheckReport, CheckSettings, ModelUnderTest, iterate_checks

    values = {key: value for key in ("accuracy", "learning_epochs") if (value := getattr(options, key)) is not None}
    settings = CheckSettings(**values, skip=dict(word.partition("=")[::2] for word in options.skip))
    if "." in options.model:
        subject = ModelUnderTest.from_class(options.model, _parse_values(options.options), settings)
    else:
        subject = ModelUnderTest.from_config(
            options.model,
            *quote_overrides(options.options, is_sweep=False),
            config_dir=options.config_dir,
            settings=settings,
        )
    print_line(str(subject))
    results = []
    for result in iterate_checks(subject):
        results.append(result)
        print_line(str(result))
    report = CheckReport(str(subject), tuple(results))
    print_line(report.summary)
    return CommandResult(exit_code=FAILED if report.failed else 0)


def _parse_values(words: list[str]) -> dict[str, Any]:
    """Parse `key=value` as the command line of a run does."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_overrides(quote_overrides(words, is_sweep=False))
        if sweeps := [str(override.input_line) for override in parsed if override.is_sweep_override()]:
            raise InputError(f"{sweeps[0]} has several values", expected="one value for each option")
        return {override.get_key_element(): override.value() for override in parsed}
    except HydraException as error:
        raise InputError(str(error).partition("\n")[0], expected="options of the form key=value") from None
