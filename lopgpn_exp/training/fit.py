"""Fit a model to a graph with a split, by gradient descent or in closed form."""

from __future__ import annotations

import logging
import signal
import sys
import time
import warnings
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.utilities.exceptions import MisconfigurationException, SIGTERMException
from torch.utils.data import DataLoader

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.models import FitData, GradientModel, Model
from lopgpn_exp.models.base import hide_labels
from lopgpn_exp.seeds import seeded
from lopgpn_exp.threads import limit_threads
from lopgpn_exp.training.allocation import keep_freed_memory
from lopgpn_exp.training.epoch_loop import Batch, EpochLoop
from lopgpn_exp.training.module import ClosedFormClassification, GraphBatch, NodeClassification, get_module_class
from lopgpn_exp.training.progress import StatusLine

IGNORED_WARNINGS = (
    ".*this fit will run with no optimizer",  # closed-form models have none
    ".*srun. command is available",  # a run is a single process, also on the login node of a cluster
    ".*does not have many workers",  # there is one batch, and it is in memory
    ".*isinstance.treespec, LeafSpec.. is deprecated",  # caused by Lightning
)


@dataclass(frozen=True)
class FitResult:
    """A fitted model and how it was fitted.

    Args:
        module: the Lightning module in its best state, on the CPU.
        epochs: number of epochs, including the warm-up; iterations of a closed-form fit.
        seconds: duration of the phases `prepare` and `train`.
        cpu_seconds: processor time of both.
        history: points (epoch, value) of each recorded series.
    """

    module: NodeClassification | ClosedFormClassification
    epochs: int
    seconds: dict[str, float]
    cpu_seconds: float
    history: dict[str, list[list[float]]] = field(default_factory=dict)


def fit(
    graph: Graph,
    *,
    model_class: str,
    model_options: dict[str, Any],
    optimizer: dict[str, Any] | None = None,
    seed: int,
    patience: int = 50,
    max_epochs: int = 100_000,
    validate_every: int = 1,
    accelerator: str = "auto",
    progress: bool = True,
    title: str = "",
    cache_dir: Path | None = None,
    checkpoint_path: Path | None = None,
    parts: tuple[Model, ...] = (),
) -> FitResult:
    """Fit a model to a graph with a split: by gradient descent with early stopping, or in one step.

    Args:
        model_class: import path of the model's class.
        model_options: its keyword arguments.
        optimizer: learning_rate, weight_decay, warmup_epochs, and which optimiser of torch to use.
        seed: seed of the initialisation and of dropout.
        patience: number of validations without improvement before training stops.
        validate_every: number of epochs between validations.
        accelerator: device, as in Lightning.
        progress: show a progress line on a terminal.
        title: start of the progress line.
        cache_dir: folder for results that depend on the graph alone.
        checkpoint_path: file to write the fitted module to.
        parts: trained models that a composite model is made from, or the teacher of a model that needs one.

    A fit in one step ignores `optimizer`, `patience`, `max_epochs`, `validate_every` and `accelerator`.
    """
    start, cpu_start = time.perf_counter(), time.process_time()
    options: dict[str, Any] = {
        "model_class": model_class,
        "model_options": model_options,
        "trained_on": graph.fingerprint,
    }
    if get_module_class(model_class) is ClosedFormClassification:
        trainer = _build_trainer("cpu", max_epochs=1)  # sparse and float64 algebra gains nothing from a GPU
        with limit_threads(), seeded(seed), closing(StatusLine(title=title, enabled=progress)) as line:
            closed_form = ClosedFormClassification(**options)
            _run_trainer(trainer, closed_form, GraphBatch(graph, seed, cache_dir, line.show, parts))
        _save_checkpoint(trainer, closed_form, checkpoint_path)
        seconds = {"prepare": 0.0, "train": time.perf_counter() - start}
        return FitResult(closed_form.eval(), closed_form.model.iterations, seconds, time.process_time() - cpu_start)
    _check_parts(graph)
    with limit_threads(), keep_freed_memory(), seeded(seed):
        module = NodeClassification(**options, **(optimizer or {}))
        nodes = graph.nodes(Part.TRAIN)
        module.model.observe_data(FitData(hide_labels(graph), nodes, graph.labels[nodes], seed, cache_dir, parts=parts))
        train, val = (_prepare_batch(module.model, graph, part, cache_dir) for part in (Part.TRAIN, Part.VAL))
        prepared = time.perf_counter()
        warmup_epochs = module.warmup_epochs if module.model.warmup_parameters() else 0
        if warmup_epochs:
            _warm_up(module, train, accelerator)
        with closing(StatusLine(title=title, enabled=progress)) as line:
            loop = EpochLoop(
                train,
                val,
                max_epochs=max_epochs,
                patience=patience,
                validate_every=validate_every,
                first_epoch=warmup_epochs,
                line=line,
            )
            trainer = _train(module, loop, accelerator)
        loop.restore_best(module)
    _save_checkpoint(trainer, module, checkpoint_path)
    seconds = {"prepare": prepared - start, "train": time.perf_counter() - prepared}
    cpu_seconds = time.process_time() - cpu_start
    return FitResult(module.eval(), loop.num_epochs + warmup_epochs, seconds, cpu_seconds, loop.history.points())


def _check_parts(graph: Graph) -> None:
    for part, purpose in ((Part.TRAIN, "training"), (Part.VAL, "validation")):
        if len(graph.nodes(part)) == 0:
            what = f"the split has no {purpose} nodes"
            raise InputError(what, expected="at least one", parameter="split", suggestion="random")


def _prepare_batch(model: GradientModel, graph: Graph, part: Part, cache_dir: Path | None) -> Batch:
    nodes = graph.nodes(part)
    return Batch(nodes, graph.labels[nodes], model.prepare(graph, nodes=nodes, cache_dir=cache_dir))


def _warm_up(module: NodeClassification, train: Batch, accelerator: str) -> None:
    """Train only the warm-up parameters, on the full loss."""
    warmup_ids = {id(parameter) for parameter in module.model.warmup_parameters()}
    frozen = [parameter for parameter in module.model.parameters() if id(parameter) not in warmup_ids]
    for parameter in frozen:
        parameter.requires_grad_(False)
    module.is_warming_up = True
    _train(module, EpochLoop(train, max_epochs=module.warmup_epochs), accelerator)
    module.is_warming_up = False
    for parameter in frozen:
        parameter.requires_grad_(True)


def _train(module: NodeClassification, loop: EpochLoop, accelerator: str) -> pl.Trainer:
    """Run all epochs of a loop, and return the trainer."""
    trainer = _build_trainer(accelerator, max_epochs=-1)  # the loop decides when training is finished
    _run_trainer(trainer, module, loop)
    return trainer


def check_accelerator(accelerator: str) -> None:
    """Raise an InputError if Lightning finds no such device on this machine."""
    try:
        _build_trainer(accelerator)
    except (MisconfigurationException, ValueError, ImportError) as error:
        raise InputError(
            f"accelerator is {accelerator!r} ({str(error).splitlines()[0][:120]})",
            expected="a device of this machine",
            parameter="accelerator",
            suggestion="auto",
        ) from None


def _build_trainer(accelerator: str, **options: Any) -> pl.Trainer:
    """Return a Trainer without logger, progress bar, summary and checkpoints, which would take longer than an epoch."""
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about missing loggers and unused GPUs
        return pl.Trainer(
            accelerator=accelerator,
            devices=1,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            num_sanity_val_steps=0,
            plugins=[LightningEnvironment()],  # a single process, even inside a Slurm job
            **options,
        )


def _save_checkpoint(trainer: pl.Trainer, module: pl.LightningModule, path: Path | None) -> None:
    """Move the module to the CPU and write its checkpoint, if a path is given."""
    module.cpu()
    if path is not None:
        trainer.save_checkpoint(path, weights_only=True)


def _run_trainer(trainer: pl.Trainer, module: pl.LightningModule, batch: EpochLoop | GraphBatch) -> None:
    """Call `trainer.fit`, with the usual exit code for SIGTERM and the usual exception for Ctrl-C."""
    with warnings.catch_warnings():
        for message in IGNORED_WARNINGS:
            warnings.filterwarnings("ignore", message=message)
        try:
            trainer.fit(module, _build_loader(batch))
        except SIGTERMException:  # Lightning would exit with code 0
            sys.stderr.write("\nTerminated. Finished trainings and runs are kept.\n")
            sys.exit(128 + signal.SIGTERM)
        except SystemExit:  # raised by Lightning on Ctrl-C
            if trainer.interrupted:
                raise KeyboardInterrupt from None
            raise


def _build_loader(batch: EpochLoop | GraphBatch) -> DataLoader:
    """Return a loader of a single batch, with a generator of its own: a loader draws a number at every pass."""
    return DataLoader([batch], batch_size=None, generator=torch.Generator())  # type: ignore[arg-type]
