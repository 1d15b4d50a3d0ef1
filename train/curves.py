"""A GRPO run's curves over its steps, or one curve of several runs, as one page for a person.

    python -m train.curves run=runs/grpo_curriculum [out=FILE.html]
    python -m train.curves runs=runs/seed0,runs/seed1,runs/seed2 [key=primary/3x3] [out=FILE.html]

It reads the log in the newest checkpoint of each run. The page is one file, without scripts, and asks nothing of a
network.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transformers.trainer import TRAINER_STATE_NAME

from data_mix.curriculum_chart import shares_chart
from data_mix.document import escaped, sealed_document
from data_mix.phases import Phase
from eval_hooks import report_chart
from eval_hooks.run_files import checkpoints
from recipes.command import CommandLine, run_command
from recipes.fields import did_you_mean, problem, shown

USAGE = """\
usage: python -m train.curves run=DIR [out=FILE.html]
       python -m train.curves runs=DIR,DIR,... [key=KEY,KEY,...] [out=FILE.html]
  run, runs   folders of runs that have a checkpoint: one run with all its curves, or several beside each other
  key         names in the log to draw, such as primary/3x3 or loss; default: all that a GRPO run is watched by, and of
              several runs reward and primary scores
  out         where the page is written; default: curves.html in the folder of the first run"""

_OWN = ("run", "runs", "key", "out")
_MOST_POINTS = 150
"""Of a line; more log entries than that are drawn as means of so many in a row."""
_COLORS = 7
_KINDS = ("", "guesser", "published")
"""Classes of the chart's style that draw a line whole, dashed and dotted: for more lines than colours."""
_LEFT, _RIGHT, _TOP, _WIDTH, _HEIGHT, _BELOW = 52, 14, 10, 400, 170, 36
_STYLE = """
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 1rem 2rem }
.panels h2 { margin: 1rem 0 .5rem; font-size: 1.05rem; border: 0 }
.shares svg { max-width: 100%; height: auto }
"""

Log = Sequence[Mapping[str, Any]]
Points = Sequence[tuple[float, float]]
"""(step, value), by step."""


class Panel(NamedTuple):
    """Keys of the log that are drawn together."""

    title: str
    unit: str
    keys: tuple[str, ...]
    """Whole, or a start that ends with / and stands for all that begin with it."""


PANELS = (
    Panel("Reward, and its parts before weights", "mean per completion", ("reward", "rewards/")),
    Panel("Primary score", "mean per completion, 0 to 1", ("primary/",)),
    Panel("Groups that teach", "share of groups whose rewards differ", ("teaching/",)),
    Panel("Spread", "standard deviation of rewards in a group", ("spread/",)),
    Panel("KL and entropy", "nats per token", ("kl", "entropy")),
    Panel("Invalid or cut", "share of completions", ("invalid/", "completions/clipped_ratio")),
    Panel("Length", "tokens per completion", ("completions/mean_length",)),
)
_COMPARED = ("reward", "primary/")


def read_log(run: Path) -> Log:
    """The log entries of training steps, from the run's newest complete checkpoint.

    Raises:
        ValueError: there is no checkpoint, or it holds no log.
    """
    found = list(checkpoints(run).values())
    advice = "do name the output_dir of a run that has saved one"
    if not found:
        raise ValueError(problem("run", f"{run} without a complete checkpoint", "the folder of a run", advice))
    try:
        log = json.loads((found[-1] / TRAINER_STATE_NAME).read_text(encoding="utf-8"))["log_history"]
        entries = [entry for entry in log if entry["step"] and entry.keys() & {"reward", "loss"}]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        got = f"{found[-1]} without a log that can be read ({type(error).__name__})"
        raise ValueError(problem("run", got, f"a checkpoint with {TRAINER_STATE_NAME}", advice)) from error
    if not entries:
        raise ValueError(problem("run", f"{found[-1]} with an empty log", "logged steps", "do wait for the next one"))
    return entries


def points(log: Log, key: str) -> Points:
    """Of the entries that have a finite value; where they are many, the means of equal numbers of them in a row."""
    found = [
        (float(entry["step"]), float(entry[key]))
        for entry in log
        if isinstance(entry.get(key), int | float) and math.isfinite(entry[key])
    ]
    n = math.ceil(len(found) / _MOST_POINTS)
    return [
        (sum(step for step, _ in some) / len(some), sum(value for _, value in some) / len(some))
        for some in (found[at : at + n] for at in range(0, len(found), n or 1))
    ]


def keys_of(logs: Sequence[Log], wanted: Sequence[str]) -> list[str]:
    """The logs' keys with numbers that are wanted, see `Panel.keys`; standard deviations of entries are left out."""
    known = {key: None for log in logs for entry in log for key in entry if key not in ("step", "epoch")}
    named = [
        key
        for want in wanted
        for key in sorted(known)
        if key == want or (want.endswith("/") and key.startswith(want) and not key.endswith("/std"))
    ]
    return [key for key in dict.fromkeys(named) if any(points(log, key) for log in logs)]


def chart(lines: Mapping[str, Points], unit: str, last: float) -> str:
    """Lines over steps as SVG with a legend, in the looks of `eval_hooks.report_chart`.

    Args:
        lines: {name: points}; each has some.
        last: step at which the axis ends.
    """
    every = [point for line in lines.values() for point in line]
    ticks = _ticks(min(0.0, *(value for _, value in every)), max(value for _, value in every))
    low, high = ticks[0], ticks[-1]

    def x(step: float) -> float:
        return _LEFT + _WIDTH * step / last

    def y(value: float) -> float:
        return _TOP + _HEIGHT * (high - value) / (high - low)

    rules = "".join(
        f'<line class="rule" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.6g}</text>'
        for tick in ticks
    )
    steps = [tick for tick in _ticks(0.0, last) if tick <= last]
    under = "".join(
        f'<text x="{x(step):.1f}" y="{_TOP + _HEIGHT + 16}" text-anchor="middle">{step:.6g}</text>' for step in steps
    )
    under += f'<text x="{_LEFT + _WIDTH / 2}" y="{_TOP + _HEIGHT + 31}" text-anchor="middle">step</text>'
    drawn, legend = [], []
    for at, (name, line) in enumerate(lines.items()):
        kind = f"{_KINDS[at // _COLORS % len(_KINDS)]} c{at % _COLORS}".strip()
        path = "".join(f"{'L' if i else 'M'}{x(step):.1f} {y(value):.1f}" for i, (step, value) in enumerate(line))
        dot = f"h.01M{x(line[0][0]):.1f} {y(line[0][1]):.1f}" if len(line) == 1 else ""
        told = escaped(f"{name}: {line[-1][1]:.4g} at step {line[-1][0]:.6g}")
        drawn.append(f'<g class="{kind}"><path class="line" stroke-linecap="round" d="{path}{dot}"/>'
                     f"<title>{told}</title></g>")  # fmt: skip
        legend.append(
            f'<li class="{kind}"><svg width="30" height="12" viewBox="-15 -6 30 12" aria-hidden="true">'
            f'<path class="line" d="M-15 0H15"/></svg><span>{escaped(name)}</span></li>'
        )
    width, height = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + _BELOW
    what = escaped(f"{', '.join(lines)} over {last:.6g} steps; {unit}")
    return (
        f'<p class="note">{escaped(unit)}</p>\n<svg class="chart" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{what}">{rules}{under}{"".join(drawn)}</svg>\n<ul class="legend">{"".join(legend)}</ul>\n'
    )


def shares(log: Log) -> str:
    """The parts' shares of the steps, as SVG; nothing where the log has none."""
    parts = [key.removeprefix("share/") for key in keys_of([log], ["share/"])]
    phases: list[Phase] = []
    for entry in log:
        now = {part: entry.get(f"share/{part}") or 0.0 for part in parts}
        if sum(now.values()) > 0 and (not phases or now != phases[-1].shares):
            phases.append(Phase(entry["step"] - 1 if phases else 0, "", now))
    return shares_chart(phases, parts, log[-1]["step"]) if phases else ""


def page(logs: Mapping[str, Log], keys: Sequence[str]) -> str:
    """The page of one run, or of several by name.

    Args:
        keys: to draw, see `Panel.keys`; all panels without.

    Raises:
        ValueError: a key that no log has, or nothing to draw.
    """
    several = len(logs) > 1
    for key in keys:
        if not keys_of([*logs.values()], [key]):
            known = sorted({name for log in logs.values() for entry in log for name in entry})
            raise ValueError(problem("key", shown(key), ", ".join(known), did_you_mean(key, known)))
    wanted = keys_of([*logs.values()], keys or _COMPARED)
    panels = [Panel(key, _unit(key), (key,)) for key in wanted] if several or keys else PANELS
    last = max(1, *(entry["step"] for log in logs.values() for entry in log))
    body = [
        f"<section>\n<h2>{escaped(panel.title)}</h2>\n{chart(lines, panel.unit, last)}</section>\n"
        for panel in panels
        if (lines := dict(_lines(logs, panel)))
    ]
    if not body:
        raise ValueError(problem("run", "a log without rewards", "the folder of a GRPO run", "do name keys, key=loss"))
    drawn = f'<div class="panels">\n{"".join(body)}</div>\n'
    if not several and not keys and (stacked := shares(next(iter(logs.values())))):
        drawn += f'<h2>Shares of the parts</h2>\n<div class="shares">{stacked}</div>\n'
    note = f"A line has at most {_MOST_POINTS} points; of a longer log they are means of log entries in a row."
    title = f"Curves of {', '.join(logs)}"
    return sealed_document(title, f'<p class="note">{note}</p>\n{drawn}', style=report_chart.STYLE + _STYLE)


def _lines(logs: Mapping[str, Log], panel: Panel) -> Iterator[tuple[str, Points]]:
    for name, log in logs.items():
        for key in keys_of([log], panel.keys):
            yield name if len(logs) > 1 else key, points(log, key)


def _unit(key: str) -> str:
    """What the panel that has the key says."""
    return next((panel.unit for panel in PANELS if any(_stands_for(want, key) for want in panel.keys)), "as logged")


def _stands_for(want: str, key: str) -> bool:
    return key == want or (want.endswith("/") and key.startswith(want))


def _ticks(low: float, high: float) -> list[float]:
    """Three to seven round values that enclose both."""
    high = high if high > low else low + (abs(low) or 1.0)
    span = high - low
    size = 10 ** math.floor(math.log10(span / 4))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= span / 5)
    return [n * step for n in range(math.floor(low / step), math.ceil(high / step - 1e-9) + 1)]


def draw(argv: Sequence[str]) -> str:
    """Write the page, and say where it is."""
    line = CommandLine(argv, _OWN)
    run, several = line.text("run"), line.text("runs")
    if (run is None) == (several is None):
        got = "neither run nor runs" if run is None else "both run and runs"
        line.problems.append(problem("run", got, "one of them", "do write run=DIR, or runs=DIR,DIR"))
    folders = [Path(run)] if run else [Path(name) for name in (several or "").split(",") if name]
    if several and not folders:
        line.problems.append(problem("runs", shown(several), "folders of runs", "do write runs=DIR,DIR"))
    line.without_recipe()
    keys = [key for key in (line.text("key") or "").split(",") if key]
    out = Path(line.text("out") or folders[0] / "curves.html")
    names = [folder.name for folder in folders]
    named = names if len(set(names)) == len(names) else [str(folder) for folder in folders]
    text = page({name: read_log(folder) for name, folder in zip(named, folders, strict=True)}, keys)
    out.write_text(text, encoding="utf-8")
    return f"written: {out}"


def main(argv: Sequence[str]) -> int:
    return run_command(argv, USAGE, draw)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
