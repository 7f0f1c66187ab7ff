"""Plain implementations of three models: the baseline of `make bench`, and an independent reference for tests.

Eager PyTorch, dense features, one flow per class in a loop, the PPR matrix computed by sparse products in every forward
pass, and all metrics of training and validation nodes computed, logged and saved in every epoch. Nothing here is slow
on purpose; it is written in the most direct way.
"""

from __future__ import annotations

import logging
import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from lopgpn_exp.graph import Graph, Part

torch.sparse.check_sparse_tensor_invariants.disable()  # torch warns unless this is set explicitly
TIE_FACTOR = 1 - 1e-9  # of the pruning threshold, so that rounding does not decide about ties


def adjacency(graph: Graph) -> Tensor:
    """Return the sparse adjacency matrix with self-loops."""
    loops = torch.arange(graph.num_nodes).expand(2, -1)
    index = torch.cat([graph.edge_index, loops], dim=1)
    ones = torch.ones(index.shape[1], dtype=graph.features.dtype)
    return torch.sparse_coo_tensor(index, ones, (graph.num_nodes,) * 2).coalesce()


def normalise_rows(matrix: Tensor) -> Tensor:
    degree = matrix.sum(dim=1).to_dense()
    return torch.sparse_coo_tensor(matrix.indices(), matrix.values() / degree[matrix.indices()[0]], matrix.shape)


def normalise_symmetrically(matrix: Tensor) -> Tensor:
    scale = matrix.sum(dim=1).to_dense().rsqrt()
    source, target = matrix.indices()
    return torch.sparse_coo_tensor(matrix.indices(), scale[source] * matrix.values() * scale[target], matrix.shape)


def ppr(operator: Tensor, num_steps: int, teleport: float, delta: float) -> Tensor:
    """Apply the recursion to the identity; returns a pruned sparse matrix if delta > 0, else a dense one."""
    n = operator.shape[0]
    if delta == 0:
        dense = torch.eye(n, dtype=operator.dtype)
        for _ in range(num_steps):
            dense = (1 - teleport) * torch.sparse.mm(operator, dense) + teleport * torch.eye(n, dtype=operator.dtype)
        return dense
    diagonal = torch.arange(n).expand(2, -1)
    identity = torch.sparse_coo_tensor(diagonal, torch.ones(n, dtype=operator.dtype), (n, n)).coalesce()
    current = identity
    for _ in range(num_steps):
        full = ((1 - teleport) * torch.sparse.mm(operator, current) + teleport * identity).coalesce()
        keep = full.values() >= delta * TIE_FACTOR
        pruned = torch.sparse_coo_tensor(full.indices()[:, keep], full.values()[keep], (n, n))
        missing = (full.sum(dim=1) - pruned.sum(dim=1)).to_dense()
        current = (pruned + torch.sparse_coo_tensor(diagonal, missing, (n, n))).coalesce()
    return current


def disperse(operator: Tensor, values: Tensor, num_steps: int, teleport: float) -> Tensor:
    current = values
    for _ in range(num_steps):
        current = (1 - teleport) * torch.sparse.mm(operator, current) + teleport * values
    return current


class RadialStack(nn.Module):
    """The flow of one class."""

    def __init__(self, dim: int, num_layers: int) -> None:
        super().__init__()
        self.center = nn.Parameter(torch.zeros(num_layers, dim))
        self.alpha_raw = nn.Parameter(torch.zeros(num_layers))
        self.beta_raw = nn.Parameter(torch.zeros(num_layers))

    def log_prob(self, z: Tensor) -> Tensor:
        dim = z.shape[1]
        log_det = torch.zeros(len(z), dtype=z.dtype)
        for center, alpha_raw, beta_raw in zip(self.center, self.alpha_raw, self.beta_raw, strict=True):
            a = softplus(alpha_raw)
            b = -a + softplus(beta_raw)
            r = torch.linalg.vector_norm(z - center, dim=1, keepdim=True)
            h = 1 / (a + r)
            log_det = log_det + ((dim - 1) * torch.log(1 + b * h) + torch.log(1 + b * h - b * h**2 * r)).squeeze(1)
            z = z + b * h * (z - center)
        return -0.5 * (z**2).sum(dim=1) - 0.5 * dim * math.log(2 * math.pi) + log_det


class PlainModel(nn.Module):
    """A perceptron with the weights of the project's model, on one graph."""

    def __init__(self, ours: nn.Module, graph: Graph) -> None:
        super().__init__()
        self.features = graph.features
        self.adjacency = adjacency(graph)
        hidden, latent = ours.encoder.hidden, ours.encoder.latent
        self.hidden = nn.Linear(hidden.in_features, hidden.out_features, dtype=self.features.dtype)
        self.latent = nn.Linear(latent.in_features, latent.out_features, dtype=self.features.dtype)
        self.hidden.load_state_dict(hidden.state_dict())
        self.latent.load_state_dict(latent.state_dict())
        self.dropout = nn.Dropout(ours.encoder.dropout)

    def encode(self) -> Tensor:
        return self.latent(self.dropout(torch.relu(self.hidden(self.features))))


class PlainAPPNP(PlainModel):
    def __init__(self, ours: nn.Module, graph: Graph) -> None:
        super().__init__(ours, graph)
        self.operator, self.steps, self.teleport = (
            normalise_symmetrically(self.adjacency),
            ours.propagation.num_steps,
            ours.propagation.teleport,
        )

    def forward(self) -> dict[str, Tensor]:
        return {"log_mean": torch.log_softmax(disperse(self.operator, self.encode(), self.steps, self.teleport), dim=1)}

    def loss(self, output: dict[str, Tensor], nodes: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.nll_loss(output["log_mean"][nodes], labels)

    def measures(self, output: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"tu": -(output["log_mean"].exp() * output["log_mean"]).sum(dim=1)}


class PlainPosteriorNetwork(PlainModel):
    def __init__(self, ours: nn.Module, graph: Graph) -> None:
        super().__init__(ours, graph)
        layers, classes, dim = ours.flow.center.shape
        self.flows = nn.ModuleList(RadialStack(dim, layers).to(self.features.dtype) for _ in range(classes))
        for label, flow in enumerate(self.flows):
            for name, parameter in flow.named_parameters():
                parameter.data.copy_(getattr(ours.flow, name).data[:, label])
        self.log_prior = ours.log_class_prior.to(self.features.dtype)
        self.log_budget, self.entropy_weight = ours.log_budget, ours.entropy_weight

    def evidence(self) -> Tensor:
        z = self.encode()
        log_joint = torch.stack([flow.log_prob(z) for flow in self.flows], dim=1) + self.log_prior
        return torch.exp((log_joint + self.log_budget).clamp(-30, 30))


def uncertain_cross_entropy(alpha: Tensor) -> Tensor:
    return torch.digamma(alpha.sum(dim=1, keepdim=True)) - torch.digamma(alpha)


def dirichlet_entropy(alpha: Tensor) -> Tensor:
    return torch.distributions.Dirichlet(alpha, validate_args=False).entropy()


def dirichlet_measures(alpha: Tensor) -> dict[str, Tensor]:
    total = alpha.sum(dim=1, keepdim=True)
    mean = alpha / total
    tu = -(mean * mean.log()).sum(dim=1)
    au = -(mean * (torch.digamma(alpha + 1) - torch.digamma(total + 1))).sum(dim=1)
    return {"tu": tu, "au": au, "eu": tu - au, "eu_pc": -total.squeeze(1), "eu_so": dirichlet_entropy(alpha)}


class PlainGPN(PlainPosteriorNetwork):
    def __init__(self, ours: nn.Module, graph: Graph) -> None:
        super().__init__(ours, graph)
        self.operator = normalise_symmetrically(self.adjacency)
        self.steps, self.teleport = ours.propagation.num_steps, ours.propagation.teleport

    def forward(self) -> dict[str, Tensor]:
        alpha = 1 + disperse(self.operator, self.evidence(), self.steps, self.teleport)
        return {"alpha": alpha, "log_mean": torch.log(alpha / alpha.sum(dim=1, keepdim=True))}

    def loss(self, output: dict[str, Tensor], nodes: Tensor, labels: Tensor) -> Tensor:
        alpha = output["alpha"][nodes]
        expected = uncertain_cross_entropy(alpha)[torch.arange(len(nodes)), labels]
        return (expected - self.entropy_weight * dirichlet_entropy(alpha)).sum()

    def measures(self, output: dict[str, Tensor]) -> dict[str, Tensor]:
        return dirichlet_measures(output["alpha"])


class PlainLOPGPN(PlainPosteriorNetwork):
    def __init__(self, ours: nn.Module, graph: Graph) -> None:
        super().__init__(ours, graph)
        self.operator = normalise_rows(self.adjacency)
        self.options = [ours.ppr_options[key] for key in ("num_steps", "teleport", "prune_threshold")]

    def forward(self) -> dict[str, Tensor]:
        pi = ppr(self.operator, *self.options)
        alpha = 1 + self.evidence()
        return {"pi": pi, "alpha": alpha, "log_mean": torch.log(pi @ (alpha / alpha.sum(dim=1, keepdim=True)))}

    def loss(self, output: dict[str, Tensor], nodes: Tensor, labels: Tensor) -> Tensor:
        pi, alpha = output["pi"], output["alpha"]
        expected = (pi @ uncertain_cross_entropy(alpha))[nodes, labels]
        entropy = (pi @ dirichlet_entropy(alpha)[:, None]).squeeze(1)[nodes]
        return (expected - self.entropy_weight * entropy).sum()

    def measures(self, output: dict[str, Tensor]) -> dict[str, Tensor]:
        pi = output["pi"]
        single = dirichlet_measures(output["alpha"])
        pooled = {name: (pi @ value[:, None]).squeeze(1) for name, value in single.items()}
        mean = output["log_mean"].exp()
        tu = -(mean * output["log_mean"]).sum(dim=1)
        if pi.is_sparse:
            terms = -pi.values() * pi.values().log()
            spread = torch.zeros(pi.shape[0], dtype=terms.dtype).index_add_(0, pi.indices()[0], terms)
        else:
            spread = -torch.xlogy(pi, pi).sum(dim=1)
        return pooled | {"tu": tu, "eu": tu - pooled["au"], "eu_so": pooled["eu_so"] + spread}


def classification_metrics(log_mean: Tensor, labels: Tensor) -> dict[str, float]:
    """Return the metrics in the first lines of a run's output."""
    mean = log_mean.exp()
    confidence, predicted = mean.max(dim=1)
    correct = (predicted == labels).to(mean.dtype)
    calibration_error = 0.0
    for low in torch.linspace(0, 1, 16)[:-1]:
        inside = (confidence > low) & (confidence <= low + 1 / 15)
        if inside.any():
            gap = (confidence[inside].mean() - correct[inside].mean()).abs()
            calibration_error += (inside.to(mean.dtype).mean() * gap).item()
    return {
        "accuracy": correct.mean().item(),
        "brier": ((mean - nn.functional.one_hot(labels, mean.shape[1])) ** 2).sum(dim=1).mean().item(),
        "ece": calibration_error,
        "nll": nn.functional.nll_loss(log_mean, labels).item(),
    }


PLAIN = {"lop_gpn": PlainLOPGPN, "gpn_sym": PlainGPN, "appnp": PlainAPPNP}


class PlainTraining:
    """Training with Adam; every epoch has a validation, all metrics, a log entry and a checkpoint file."""

    def __init__(self, model: PlainModel, graph: Graph, *, learning_rate: float, folder: Path) -> None:
        import mlflow

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self.model, self.graph, self.folder = model, graph, folder
        self.optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
        self.nodes = {part: graph.nodes(part) for part in (Part.TRAIN, Part.VAL)}
        self.best, self.epochs = float("inf"), 0
        mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
        self.client = mlflow.MlflowClient()
        self.run = self.client.create_run("0").info.run_id

    def run_epoch(self) -> None:
        import mlflow

        model, labels = self.model, self.graph.labels
        model.train()
        self.optimizer.zero_grad()
        train = self.nodes[Part.TRAIN]
        loss = model.loss(model(), train, labels[train])
        loss.backward()
        self.optimizer.step()
        model.eval()
        metrics = {"loss": loss.item()}
        with torch.no_grad():
            output = model()
            measures = model.measures(output)
            for part, nodes in self.nodes.items():
                values = classification_metrics(output["log_mean"][nodes], labels[nodes])
                values |= {name: value[nodes].mean().item() for name, value in measures.items()}
                metrics |= {f"{part.name}/{name}": value for name, value in values.items()}
        self.epochs += 1
        entries = [mlflow.entities.Metric(name, value, 0, self.epochs) for name, value in metrics.items()]
        self.client.log_batch(self.run, metrics=entries)
        torch.save(model.state_dict(), self.folder / "last.ckpt")
        if metrics["VAL/nll"] < self.best:
            self.best = metrics["VAL/nll"]
            torch.save(model.state_dict(), self.folder / "best.ckpt")
