"""`lopgpn_exp register`: log the model of a run to MLflow, and register it under a name."""

from __future__ import annotations

import argparse
import shlex

from lopgpn_exp.commands.dispatch import CommandResult
from lopgpn_exp.commands.shared import RUN_HELP, add_run_argument, open_run, print_line
from lopgpn_exp.config.credentials import hide_credentials

DESCRIPTION = """Make the model of a run available where MLflow models are used: mlflow.pyfunc.load_model and mlflow
models serve return the table of `lopgpn_exp predict` for a table of nodes, with the edges as parameters."""
EXAMPLES = f"""examples:
  lopgpn_exp register lop_gpn-custom-s0                    as lop_gpn-custom, in the MLflow store of the run
  lopgpn_exp register RUN --name fraud --alias champion    models:/fraud@champion is this run from now on
  lopgpn_exp register RUN --uri http://server:5000         on a tracking server

A run that is registered under this name already keeps its version. Another run gets the next one.
{RUN_HELP}
"""
SERVING_PORT = 5001  # `lopgpn_exp ui` uses 5000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser, uri_help="MLflow store to register in, as in tracking.uri; default: that of the run")
    parser.add_argument("--name", help="of the registered model; default: MODEL-DATASET")
    parser.add_argument("--alias", help="name for this version, such as champion; moved if another version has it")


def execute(options: argparse.Namespace) -> CommandResult:
    run = open_run(options)
    # Deferred import: --help works without pandas.
    from lopgpn_exp.tracking.model_registry import choose_store, default_model_name, register_run
    from lopgpn_exp.tracking.served_model import TRUST_VARIABLE

    registered = register_run(
        run,
        name=default_model_name(run) if options.name is None else options.name,
        alias=options.alias,
        uri=choose_store(run, options.uri, options.output_dir),
        output_dir=options.output_dir,
    )
    verb = "registered" if registered.is_new else "is registered already"
    print_line(f"{run.folder.name} {verb}: {registered.name}, version {registered.version}")
    address = registered.address
    if options.alias is not None:
        address = f"models:/{registered.name}@{options.alias}"
        print_line(f"alias    {options.alias} is version {registered.version}")
    serve = ["mlflow", "models", "serve", "-m", address, "--env-manager", "local", "--port", str(SERVING_PORT)]
    variables = {"MLFLOW_TRACKING_URI": hide_credentials(registered.store)}
    if options.trust:
        variables[TRUST_VARIABLE] = run.folder.name
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    print_line(f"model    {address}")
    print_line(f"\nnext     {settings} {shlex.join(serve)}")
    return CommandResult()
