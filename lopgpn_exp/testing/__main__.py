"""`python -m lopgpn_exp.testing`: whether a model keeps its promises."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from lopgpn_exp.errors import InputError, mistakes_told

BROKEN = 1
EXAMPLES = """examples:
  python -m lopgpn_exp.testing my_package.MyModel hidden_dim=32              a class, with its options
  python -m lopgpn_exp.testing mine --config-dir conf                        the model of conf/model/mine.yaml
  python -m lopgpn_exp.testing mine model.hidden_dim=32 --config-dir conf    ... with another value
  python -m lopgpn_exp.testing lop_gpn                                       one of ours
  python -m lopgpn_exp.testing mine --config-dir conf --excuse other_seed='nothing in it is random'

In a test of your own: from lopgpn_exp.testing import check_model, check_config, Terms
"""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lopgpn_exp.testing",
        description="Ask a model for all that the framework relies on.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help="import path of a class, or the name of a model's config")
    parser.add_argument("options", nargs="*", metavar="key=value", help="of the class, or overrides of the config")
    parser.add_argument("--config-dir", type=Path, help="your own folder of configs")
    parser.add_argument("--accuracy", type=float, help="on test nodes, above which it has learned (default: 0.6)")
    parser.add_argument("--learning-epochs", type=int, help="after which it must have learned (default: 80)")
    parser.add_argument("--excuse", action="append", default=[], metavar="PROMISE=REASON", help="do not ask for it")
    with mistakes_told():
        _examine(parser.parse_intermixed_args(arguments))


def _examine(words: argparse.Namespace) -> None:
    from lopgpn_exp.testing.contract import trial_of_config, trial_of_model  # torch: --help does without
    from lopgpn_exp.testing.examine import outcomes
    from lopgpn_exp.testing.report import Status, summary
    from lopgpn_exp.testing.trial import Terms

    asked = {key: value for key in ("accuracy", "learning_epochs") if (value := getattr(words, key)) is not None}
    terms = Terms(**asked, excused=dict(excuse.partition("=")[::2] for excuse in words.excuse))
    if "." in words.model:
        trial = trial_of_model(words.model, _values(words.options), terms)
    else:
        trial = trial_of_config(words.model, tuple(words.options), words.config_dir, terms)
    sys.stdout.write(f"{trial}\n")
    found = []
    for outcome in outcomes(trial):
        found.append(outcome)
        sys.stdout.write(f"{outcome}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{summary(found)}\n")
    if any(outcome.status is Status.broken for outcome in found):
        sys.exit(BROKEN)


def _values(words: list[str]) -> dict[str, Any]:
    """`key=value` as the command line of a run reads it."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return {o.get_key_element(): o.value() for o in OverridesParser.create().parse_overrides(words)}
    except HydraException as error:
        raise InputError(str(error).partition("\n")[0], expected="options of the form key=value") from None


if __name__ == "__main__":
    main()
