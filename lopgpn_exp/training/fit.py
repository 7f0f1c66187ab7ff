"""From a graph with a split to a fitted module: by gradient, or in closed form."""

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
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.utilities.exceptions import MisconfigurationException, SIGTERMException
from torch.utils.data import DataLoader

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.models import GradientModel
from lopgpn_exp.models.seeding import seeded
from lopgpn_exp.training.callbacks import BestState, History, Progress, StatusLine
from lopgpn_exp.training.module import (
    Batch,
    ClosedFormClassification,
    NodeClassification,
    WholeGraph,
    module_type,
)


@dataclass(frozen=True)
class Fitted:
    """A module in its best state, what it took, and by name the points (epoch, value) of how it went."""

    module: NodeClassification | ClosedFormClassification
    epochs: int
    seconds: dict[str, float]
    history: dict[str, list[list[float]]] = field(default_factory=dict)


def fit(graph: Graph, *, model_class: str, optimizer: dict[str, Any], **options: Any) -> Fitted:
    """Fit a model of either kind; a closed-form one needs none of the optimiser's and the stopping rule's options."""
    if module_type(model_class) is NodeClassification:
        return fit_by_gradient(graph, model_class=model_class, optimizer=optimizer, **options)
    used = ("model_options", "seed", "progress", "title", "cache_dir", "checkpoint_path")
    return fit_in_closed_form(
        graph, model_class=model_class, **{key: value for key, value in options.items() if key in used}
    )


def fit_in_closed_form(
    graph: Graph,
    *,
    model_class: str,
    model_options: dict[str, Any],
    seed: int,
    progress: bool = True,
    title: str = "",
    cache_dir: Path | None = None,
    checkpoint_path: Path | None = None,
) -> Fitted:
    """One epoch of one step, in which the model fits itself; write one checkpoint."""
    start = time.perf_counter()
    module = ClosedFormClassification(
        model_class=model_class, model_options=model_options, trained_on=graph.fingerprint
    )
    trainer = _lean_trainer("cpu", max_epochs=1)  # counting, sparse and float64 algebra: nothing for a GPU
    with seeded(seed), closing(StatusLine(title=title, enabled=progress)) as line:
        _fit(trainer, module, WholeGraph(graph, seed, cache_dir, line.show))
    _finish(trainer, module, checkpoint_path)
    return Fitted(module.eval(), module.model.iterations, {"prepare": 0.0, "train": time.perf_counter() - start})


def fit_by_gradient(
    graph: Graph,
    *,
    model_class: str,
    model_options: dict[str, Any],
    optimizer: dict[str, Any],
    seed: int,
    patience: int = 50,
    max_epochs: int = 100_000,
    validate_every: int = 1,
    accelerator: str = "auto",
    progress: bool = True,
    title: str = "",
    cache_dir: Path | None = None,
    checkpoint_path: Path | None = None,
) -> Fitted:
    """Warm up, train until validation cross-entropy stops improving, restore the best state, write one checkpoint.

    Nothing that does not depend on parameters is computed inside an epoch: `prepare` runs once for the training nodes
    and once for the validation nodes.
    """
    for part in (Part.TRAIN, Part.VAL):
        if len(graph.nodes(part)) == 0:
            raise InputError(
                f"the split has no {part.name.lower()} nodes", expected="at least one", hint="split=random"
            )
    start = time.perf_counter()
    with seeded(seed):
        module = NodeClassification(
            model_class=model_class, model_options=model_options, trained_on=graph.fingerprint, **optimizer
        )
        module.model.observe(graph.labels[graph.nodes(Part.TRAIN)])
        train = _batch(module.model, graph, Part.TRAIN, cache_dir)
        val = _batch(module.model, graph, Part.VAL, cache_dir)
        prepared = time.perf_counter()
        warmed_up = module.warmup_epochs if module.model.warmup_parameters() else 0
        if warmed_up:
            _warm_up(module, train, accelerator)
        best, history = BestState(patience=patience), History(first_epoch=warmed_up)
        trainer = _lean_trainer(
            accelerator,
            max_epochs=max_epochs,
            check_val_every_n_epoch=validate_every,
            callbacks=[best, history, Progress(best, StatusLine(title=title, enabled=progress))],
        )
        _fit(trainer, module, train, val)
    _finish(trainer, module, checkpoint_path)
    seconds = {"prepare": prepared - start, "train": time.perf_counter() - prepared}
    return Fitted(module.eval(), trainer.current_epoch + warmed_up, seconds, history.thinned())


def _batch(model: GradientModel, graph: Graph, part: Part, cache_dir: Path | None) -> Batch:
    nodes = graph.nodes(part)
    return Batch(nodes, graph.labels[nodes], model.prepare(graph, nodes=nodes, cache_dir=cache_dir))


def _warm_up(module: NodeClassification, train: Batch, accelerator: str) -> None:
    """Train the warm-up parameters alone on the full loss; of what is frozen, no gradient is computed."""
    chosen = {id(parameter) for parameter in module.model.warmup_parameters()}
    frozen = [parameter for parameter in module.model.parameters() if id(parameter) not in chosen]
    for parameter in frozen:
        parameter.requires_grad_(False)
    module.warming_up = True
    _fit(_lean_trainer(accelerator, max_epochs=module.warmup_epochs), module, train)
    module.warming_up = False
    for parameter in frozen:
        parameter.requires_grad_(True)


def check_accelerator(accelerator: str) -> None:
    """Whether Lightning finds such a device here."""
    try:
        _lean_trainer(accelerator)
    except (MisconfigurationException, ValueError, ImportError) as error:
        raise InputError(
            f"trainer.accelerator is {accelerator!r} ({str(error).splitlines()[0][:120]})",
            expected="a device that this machine has",
            hint="trainer.accelerator=auto",
        ) from None


def _lean_trainer(accelerator: str, **options: Any) -> pl.Trainer:
    """A Trainer without what costs more than an epoch: logger, bar, summary, checkpoint files, sanity check."""
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice on loggers and GPUs that are left out on purpose
        return pl.Trainer(
            accelerator=accelerator,
            devices=1,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            num_sanity_val_steps=0,
            inference_mode=False,  # but no_grad: a training step takes over what the validation before it computed
            plugins=[LightningEnvironment()],  # one process, also inside a Slurm job, which is ours and not Lightning's
            **options,
        )


def _finish(trainer: pl.Trainer, module: pl.LightningModule, checkpoint_path: Path | None) -> None:
    module.cpu()
    if checkpoint_path is not None:
        trainer.save_checkpoint(checkpoint_path, weights_only=True)


def _fit(trainer: pl.Trainer, module: pl.LightningModule, train: Batch | WholeGraph, val: Batch | None = None) -> None:
    with warnings.catch_warnings():
        for known in (
            ".*validation_step. but have no .val_dataloader",  # the warm-up validates nothing
            ".*this fit will run with no optimizer",  # a closed-form model has none
            ".*srun. command is available",  # a run is one process, on a cluster's login node too
            ".*does not have many workers",  # there is one batch, and it is in memory
            ".*isinstance.treespec, LeafSpec.. is deprecated",  # Lightning's own use of torch
        ):
            warnings.filterwarnings("ignore", message=known)
        try:
            trainer.fit(module, _loader(train), _loader(val) if val is not None else None)
        except SIGTERMException:  # Lightning's leaves with the exit code of a success
            sys.stderr.write("\nTerminated. Finished trainings and runs are kept.\n")
            sys.exit(128 + signal.SIGTERM)
        except SystemExit:  # Lightning's word for Ctrl-C
            if trainer.interrupted:
                raise KeyboardInterrupt from None
            raise


def _loader(batch: Batch | WholeGraph) -> DataLoader:
    return DataLoader([batch], batch_size=None)  # type: ignore[arg-type]
