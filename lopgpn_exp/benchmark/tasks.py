"""The tasks of the benchmark and their metrics. Which measure counts is declared by the method, not chosen here."""

from __future__ import annotations

from dataclasses import dataclass

from lopgpn_exp.evaluation.metrics import IN_NATS
from lopgpn_exp.evaluation.statistics import CLEAN
from lopgpn_exp.report.names import METRIC_NAMES

BUDGETS = ("random_edges", "dice")  # scenarios of changed edges; their budget follows the name
STRUCTURAL = ("popularity", "locality", "density")


@dataclass(frozen=True)
class TaskMetric:
    """A metric of a task.

    Args:
        path: of the metric, without the measure.
        role: the kind of uncertainty whose declared measure is scored; empty if the metric needs no measure.
        is_lower_better: whether small values are good.
    """

    path: str
    role: str = ""
    is_lower_better: bool = False


@dataclass(frozen=True)
class Task:
    """What methods are compared by, in one scenario.

    Args:
        question: what the task asks, for readers of the page.
        metrics: the first one stands for the task in figures and summaries.
    """

    name: str
    title: str
    question: str
    metrics: tuple[TaskMetric, ...]

    @property
    def heading(self) -> str:
        """The title and the metric that stands for the task: `Calibration (ECE)`."""
        name = METRIC_NAMES[self.metrics[0].path]
        return self.title if name == self.title.lower() else f"{self.title} ({name})"


ACCURACY = TaskMetric("test/accuracy")
ECE = TaskMetric("test/ece", is_lower_better=True)
REJECTION = TaskMetric("test/auarc", role="total")
TASKS = (
    Task("accuracy", "Accuracy", "How many test nodes are classified correctly?", (ACCURACY,)),
    Task(
        "calibration",
        "Calibration",
        "Do predicted probabilities agree with how often predictions are right?",
        (ECE, TaskMetric("test/brier", is_lower_better=True), TaskMetric("test/nll", is_lower_better=True)),
    ),
    Task(
        "misclassification",
        "Misclassification",
        "Does aleatoric uncertainty separate wrong from right predictions?",
        (TaskMetric("error/auroc", role="aleatoric"), TaskMetric("error/aupr", role="aleatoric")),
    ),
    Task(
        "rejection",
        "Rejection",
        "How accurate are the predictions that remain when the most uncertain ones are rejected? The mean over all "
        "shares of rejected predictions.",
        (REJECTION,),
    ),
    Task(
        "ood",
        "OOD detection",
        "Does epistemic uncertainty separate out-of-distribution nodes from the others?",
        (
            TaskMetric("ood/auroc", role="epistemic"),
            TaskMetric("ood/aupr", role="epistemic"),
            TaskMetric("id/accuracy"),
        ),
    ),
    Task(
        "shift",
        "Shift",
        "How good are predictions and uncertainties when edges change, or in another region of the graph?",
        (ACCURACY, ECE, REJECTION, TaskMetric("ood/auroc", role="epistemic")),
    ),
)
TASK_BY_NAME = {task.name: task for task in TASKS}


def find_tasks(scenario: str) -> list[Task]:
    """Return the tasks of a scenario: one for changed graphs, one for OOD scenarios, four for clean runs."""
    if scenario in STRUCTURAL or scenario.rpartition("-")[0] in BUDGETS:
        return [TASK_BY_NAME["shift"]]
    if scenario != CLEAN:
        return [TASK_BY_NAME["ood"]]
    return [task for task in TASKS if task.name not in ("ood", "shift")]


def find_task_metric(path: str) -> TaskMetric:
    """Return the metric of a path; its direction and role are the same in all tasks."""
    return next(metric for task in TASKS for metric in task.metrics if metric.path == path)


def format_value(value: float, metric: str) -> str:
    """Return a value as tables show it: in percent, or in nats with three digits."""
    return f"{value:.3f}" if metric in IN_NATS else f"{100 * value:.1f}"
