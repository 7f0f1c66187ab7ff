"""The choice of a method: sentences, a table in the terminal, and an HTML page with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.text import Text

from lopgpn_exp.evaluation.choice import (
    ACCURACY,
    CALIBRATION,
    CRITERIA,
    REJECTION,
    Choice,
    Estimate,
    GraphEffect,
    MethodScores,
    Step,
)
from lopgpn_exp.report.charts import STYLE, Chart, chart_row, span
from lopgpn_exp.report.console import Console, new_table, print_table
from lopgpn_exp.report.document import Block, Bullets, Heading, Paragraph, Table, render_page
from lopgpn_exp.report.names import model_colors

COLUMNS = {ACCURACY: "accuracy", REJECTION: "AUARC", CALIBRATION: "ECE ↓"}
TITLES = {ACCURACY: "Accuracy", REJECTION: "Rejection (AUARC)", CALIBRATION: "Calibration error (ECE)"}
WORSE = {ACCURACY: "less accurate", REJECTION: "worse at rejection", CALIBRATION: "less calibrated"}
SIGNIFICANTLY = {+1: "Significantly lower", -1: "Significantly higher"}
KEY = (
    "Percent with 95 % intervals over held-back validation nodes; NLL in nats. AUARC: mean accuracy when the most "
    "uncertain nodes are rejected, by the method's total uncertainty. Seconds and MB: per training. ↓: lower is better."
)
HONESTY = (
    "The best of several methods looks a little better than it is, and intervals do not include the variation between "
    "trainings. Test nodes played no part: what the recommended run measures on them is unbiased."
)


@dataclass(frozen=True)
class ChoiceReport:
    """What is reported about a choice.

    Args:
        graph_sentence: what is known about the edges themselves, such as their homophily.
        reasons: what each method is for.
        skipped: methods that are not compared, with the reason.
        command: the command that trains the chosen method.
    """

    choice: Choice
    graph_sentence: str
    reasons: Mapping[str, str]
    skipped: Mapping[str, str]
    command: str

    @property
    def sentences(self) -> list[str]:
        """The advice in plain words."""
        return [
            *_describe_winner(self.choice),
            *(text for step in self.choice.steps if (text := _describe_step(step, self.choice))),
            _describe_end(self.choice),
            *([_describe_effect(self.choice.graph_effect)] if self.choice.graph_effect else []),
            *([self.graph_sentence] if self.graph_sentence else []),
            *(f"Not compared: {name} ({reason})." for name, reason in self.skipped.items()),
        ]


def _describe_winner(choice: Choice) -> Iterator[str]:
    method = choice.by_name[choice.winner]
    yield (
        f"Use {method.name}: {_percent(method.estimate(ACCURACY))} of {method.nodes:,} held-back validation nodes are "
        f"correct, ECE {_percent(method.estimate(CALIBRATION))}, AUARC {_percent(method.estimate(REJECTION))}; "
        f"{method.seconds:.1f} s and {method.peak_mb:,.0f} MB per training."
    )


def _describe_step(step: Step, choice: Choice) -> str:
    if not step.worse and not step.tied:
        return ""  # a single method is left
    best = choice.by_name[step.best].estimate(step.criterion)
    texts = [f"{TITLES[step.criterion]}: {step.best} is best with {100 * best.value:.1f} %."]
    for label, others in ((SIGNIFICANTLY[CRITERIA[step.criterion]], step.worse), ("Not separated from it", step.tied)):
        if others:
            texts.append(f"{label}: {', '.join(f'{name} {_points(other)}' for name, other in others.items())}.")
    return " ".join(texts)


def _describe_end(choice: Choice) -> str:
    if len(choice.methods) == 1:
        return f"Only {choice.winner} was trained: there is nothing to compare it with."
    if len(choice.remaining) == 1:
        return f"{choice.winner} is the only method that no criterion rules out."
    names = ", ".join(choice.remaining)
    return f"These nodes do not separate {names}: {choice.winner} is the simplest of them."


def _describe_effect(effect: GraphEffect) -> str:
    words = {"helps": "The graph helps", "hurts": "The graph does harm", "unclear": "The graph has no clear effect"}
    return (
        f"{words[effect.verdict]}: {effect.with_edges}, which uses the edges, against {effect.without_edges}, which "
        f"does not: {_points(effect.difference)} of accuracy."
    )


def _percent(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.1f} % [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def _points(difference: Estimate) -> str:
    values = [100 * value for value in (difference.value, difference.low, difference.high)]
    digits = 1 if min(map(abs, values)) >= 0.05 else 2  # a significant difference should not end at 0.0
    value, low, high = (f"{value:+.{digits}f}" for value in values)
    return f"{value} points [{low}, {high}]"


def _head() -> list[str]:
    return ["method", "nodes", *COLUMNS.values(), "NLL ↓", "Brier ↓", "seconds", "MB", "verdict"]


def _cells(method: MethodScores, choice: Choice) -> list[str]:
    return [
        method.name,
        f"{method.nodes:,}",
        *(_percent(method.estimate(criterion)).replace(" %", "") for criterion in COLUMNS),
        f"{method.means['test/nll']:.3f}",
        f"{100 * method.means['test/brier']:.1f}",
        f"{method.seconds:.1f}",
        f"{method.peak_mb:,.0f}",
        find_verdict(method.name, choice),
    ]


def find_verdict(name: str, choice: Choice) -> str:
    """Return what the rule says about a method."""
    if name == choice.winner:
        return "use this"
    return next((WORSE[step.criterion] for step in choice.steps if name in step.worse), "not separated, less simple")


def print_choice(report: ChoiceReport) -> None:
    """Print the table and the sentences."""
    table = new_table(_head(), left=("method", "verdict"))
    for method in report.choice.methods:
        style = "bold" if method.name == report.choice.winner else ""
        table.add_row(*(Text(cell, style) for cell in _cells(method, report.choice)))
    console = Console(soft_wrap=True)
    console.print()
    print_table(table)
    console.print(Text(f" {KEY}", style="dim"))
    console.print()
    for sentence in report.sentences:
        console.print(f"- {sentence}")
    console.print(Text(f"  {HONESTY}", style="dim"))


def choice_page(report: ChoiceReport, *, title: str) -> str:
    """Return a self-contained HTML page."""
    choice = report.choice
    blocks: list[Block] = [
        Heading(1, title),
        Bullets(report.sentences),
        Paragraph(f"Train it: `{report.command}`"),
        Paragraph(HONESTY),
        Heading(2, "Comparison"),
        Table(_head(), [_cells(method, choice) for method in choice.methods]),
        Paragraph(KEY),
    ]
    reasons = Bullets([f"**{name}** {reason}" for name, reason in report.reasons.items()])
    methods: list[Block] = [Heading(2, "Methods"), reasons]
    charts = chart_row(_draw_intervals(choice, criterion) for criterion in COLUMNS)
    body = [*(block.html() for block in blocks), charts, *(block.html() for block in methods)]
    return render_page(title, "\n".join(body), style=STYLE)


def _draw_intervals(choice: Choice, criterion: str) -> str:
    """Draw one row per method: its score with the 95 % interval. The chosen method is filled."""
    estimates = {method.name: method.estimate(criterion) for method in choice.methods}
    ends = [100 * end for estimate in estimates.values() for end in (estimate.low, estimate.high)]
    chart = Chart(
        "choice",
        TITLES[criterion],
        x=span(ends),
        y=(float(len(estimates)), 0.0),
        x_label="percent",
        size=(380, 70 + 24 * len(estimates)),
        y_ticks={row + 0.5: name for row, name in enumerate(estimates)},
        left=100.0,
    )
    colors = model_colors(estimates)
    for row, (name, estimate) in enumerate(estimates.items()):
        interval = (100 * estimate.low, 100 * estimate.high)
        text = f"{name}: {_percent(estimate)}"
        is_winner = name == choice.winner
        chart.dot(100 * estimate.value, row + 0.5, colors[name], text, x_interval=interval, filled=is_winner)
    return chart.svg()


def to_rows(choice: Choice) -> list[dict[str, object]]:
    """Return one record per method, as plain values for JSON; differences are from the chosen method."""
    winner = choice.by_name[choice.winner]
    return [
        {
            "method": method.name,
            "verdict": find_verdict(method.name, choice),
            "nodes": method.nodes,
            **{name: _to_json(method.estimate(name)) for name in CRITERIA},
            "difference": {name: _to_json(method.compare(winner, name)) for name in CRITERIA},
            **{metric.removeprefix("test/"): value for metric, value in method.means.items()},
            "seconds": method.seconds,
            "peak_rss_mb": method.peak_mb,
        }
        for method in choice.methods
    ]


def _to_json(estimate: Estimate) -> dict[str, float]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}
