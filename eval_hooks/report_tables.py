"""Sections of a report that are tables and charts, as HTML; the words out of records are clipped and escaped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from data_mix.document import escaped
from eval_hooks.intervals import Estimate, beyond_chance
from eval_hooks.percent import percent
from eval_hooks.report_chart import Series, curve
from eval_hooks.report_numbers import Pair, PartNumbers, Reference, places
from eval_hooks.several import NOTE
from tasks import TASKS

MOST_NAME = 80
"""Characters of a short text out of a record."""


def by_task(numbers: Mapping[str, PartNumbers]) -> Iterator[tuple[str, dict[str, PartNumbers]]]:
    """(task, its parts), in the order of the parts."""
    for task in dict.fromkeys(part.summary.task for part in numbers.values()):
        yield task, {name: part for name, part in numbers.items() if part.summary.task == task}


def scores_section(numbers: Mapping[str, PartNumbers]) -> str:
    """Per task a table: the model's scores, and below each part what to read them beside."""
    sections = []
    for task, parts in by_task(numbers):
        primary = TASKS[task].primary
        entries = dict.fromkeys(entry for part in parts.values() for entry in part.scores)
        shown = [entry for entry in entries if not entry.startswith(f"{primary}_")]
        rows = ""
        for name, part in parts.items():
            n = part.summary.n
            cells = [_cell(part.scores.get(entry)) for entry in shown]
            cells.insert(1, "<td></td>")
            cells += [f"<td>{percent(count / n)}</td>" for count in (part.summary.invalid, part.summary.truncated)]
            cells += [f"<td>{part.summary.completion_tokens / n:.0f}</td>", f"<td>{part.summary.counted}</td>"]
            rows += f'<tr class="own"><th scope="row">{escaped(name)}</th>{"".join(cells)}</tr>\n'
            rows += "".join(_reference_row(part, reference, shown) for reference in part.references)
        head = _head("", shown[0], "beyond", *shown[1:], "invalid", "cut", "tokens", "n")
        sections.append(f"<h3>{escaped(task)}</h3>\n{_table(head, rows)}")
    sources = dict.fromkeys(ref.source for part in numbers.values() for ref in part.references if ref.source)
    note = "beyond: the model's score beyond that guesser's. cut: at the token limit. tokens: of an answer, on average."
    note += f" published: {', '.join(sources)}, of other puzzles of the kind." if sources else ""
    return f'<section><h2>Scores</h2>\n{"".join(sections)}<p class="note">{escaped(note)}</p></section>\n'


def _reference_row(part: PartNumbers, reference: Reference, entries: Sequence[str]) -> str:
    means = [reference.means.get(entry) for entry in entries]
    cells = [f"<td>{'-' if mean is None else percent(mean)}</td>" for mean in means]
    chance = reference.means.get(part.summary.primary)
    beyond = None if chance is None else beyond_chance(part.primary.mean, chance)
    cells.insert(
        1, f"<td>{percent(beyond, '+')}</td>" if reference.kind == "guesser" and beyond is not None else "<td></td>"
    )
    name = f"{escaped(reference.name)} <small>{reference.kind}</small>"
    return f'<tr class="ref"><th scope="row">{name}</th>{"".join(cells)}<td colspan="4"></td></tr>\n'


def charts_section(numbers: Mapping[str, PartNumbers]) -> str:
    """Per task a chart of its primary score over the parts, with all references."""
    charts = []
    for task, parts in by_task(numbers):
        primary = TASKS[task].primary
        placed = places(parts)
        ordered = [parts[place.part] for place in placed]
        series = [Series("this model", "run", [part.primary for part in ordered])]
        named = {ref.name: ref.kind for part in ordered for ref in part.references if primary in ref.means}
        for name, kind in sorted(named.items(), key=lambda item: ("guesser", "program", "published").index(item[1])):
            series.append(Series(f"{name} ({kind})", kind, [_mean_of_reference(part, name) for part in ordered]))
        what = f"{primary} of {task} by part: the same numbers as in the table of scores"
        chart = curve([place.part for place in placed], [place.joined for place in placed], series, what)
        charts.append(f"<h3>{escaped(task)}: {escaped(primary)} by part</h3>\n{chart}")
    note = "Lines join parts that differ in one number alone."
    return f'<section><h2>Curve</h2>\n{"".join(charts)}<p class="note">{note}</p></section>\n'


def _mean_of_reference(part: PartNumbers, name: str) -> Estimate | None:
    for reference in part.references:
        mean = reference.means.get(part.summary.primary)
        if reference.name == name and mean is not None:
            return Estimate(mean, mean, mean, 0)
    return None


def breakdown_section(numbers: Mapping[str, PartNumbers]) -> str:
    """Entries named after the primary one: it, told apart; empty where there are none."""
    tables = []
    for task, parts in by_task(numbers):
        primary = TASKS[task].primary
        entries = dict.fromkeys(e for part in parts.values() for e in part.scores if e.startswith(f"{primary}_"))
        if not entries:
            continue
        rows = ""
        for name, part in parts.items():
            guessers = {ref.name: ref.means for ref in part.references if ref.kind == "guesser"}
            cells = "".join(
                _bar(part.scores.get(entry), {guesser: means.get(entry) for guesser, means in guessers.items()})
                for entry in (primary, *entries)
            )
            rows += f'<tr><th scope="row">{escaped(name)}</th>{cells}</tr>\n'
        named = [primary, *(entry.removeprefix(f"{primary}_") for entry in entries)]
        tables.append(f"<h3>{escaped(task)}: {escaped(primary)}</h3>\n{_table(_head('', *named), rows)}")
    note = "Bars: the score, and its interval; upright lines: what guessers earn."
    return f'<section><h2>Told apart</h2>\n{"".join(tables)}<p class="note">{note}</p></section>\n' if tables else ""


def _bar(score: Estimate | None, guessers: Mapping[str, float | None]) -> str:
    if score is None:
        return "<td>-</td>"
    ticks = "".join(
        f'<i class="tick" style="left:{100 * mean:.1f}%" title="{escaped(name)} {percent(mean)}"></i>'
        for name, mean in guessers.items()
        if mean is not None
    )
    low, high = 100 * max(0.0, score.low), 100 * min(1.0, score.high)
    return (
        f"<td>{percent(score.mean)} <small>({interval(score)})</small>"
        f'<div class="bar"><i class="fill" style="width:{100 * score.mean:.1f}%"></i>'
        f'<i class="reach" style="left:{low:.1f}%;width:{high - low:.1f}%"></i>{ticks}</div></td>'
    )


def several_section(numbers: Mapping[str, PartNumbers]) -> str:
    """What several answers to each puzzle come to; empty where there are no such."""
    rows = ""
    for name, part in numbers.items():
        for place, (what, found) in enumerate(part.several.rows() if part.several else ()):
            head = escaped(name) if place == 0 else ""
            reach = f"<small>({interval(found)})</small>"
            cells = f"<td>{escaped(what)}</td><td>{percent(found.mean)} {reach}</td><td>{found.n}</td>"
            rows += f'<tr{_own_class(place == 0)}><th scope="row">{head}</th>{cells}</tr>\n'
    if not rows:
        return ""
    table = _table(_head("", "of several answers to each puzzle", "%", "n"), rows)
    return f'<section><h2>Several answers</h2>\n{table}<p class="note">{escaped(NOTE)}</p></section>\n'


def pairs_section(pairs: Sequence[Pair]) -> str:
    """Parts with the same photos and seeds, each entry of one against the other's; empty where there are none."""
    if not pairs:
        return ""
    rows = ""
    for pair in pairs:
        changed = ", ".join(
            f"{name} {json.dumps(one)} against {json.dumps(other)}" for name, (one, other) in pair.changed.items()
        )
        for entry, found in pair.differences.items():
            first = entry == pair.primary
            name = f"{escaped(pair.base)} against {escaped(pair.twin)}<br><small>{escaped(changed)}</small>"
            difference = percent(found.difference, "+")
            reach = f"{percent(found.low, '+')} to {percent(found.high, '+')}"
            p = "&lt; .001" if found.p < 0.001 else f"{found.p:.3f}"
            rows += (
                f'<tr{_own_class(first)}><th scope="row">{name if first else ""}</th><td>{escaped(entry)}</td>'
                f"<td>{percent(found.one)}</td><td>{percent(found.other)}</td>"
                f"<td>{difference} <small>({reach})</small></td><td>{p}</td><td>{found.n}</td></tr>\n"
            )
    head = _head("", "entry", "first", "second", "difference", "p", "n")
    note = (
        "The same photos with the same seeds, asked twice: the difference of each puzzle to its twin. p: how often "
        "chance alone makes one so large (exact McNemar test for scores of 0 and 1, else sign flips)."
    )
    return f'<section><h2>Twins</h2>\n{_table(head, rows)}<p class="note">{note}</p></section>\n'


def _own_class(own: bool) -> str:
    return ' class="own"' if own else ""


def invalid_section(numbers: Mapping[str, PartNumbers]) -> str:
    """Why answers are invalid, part by part."""
    rows = ""
    for name, part in numbers.items():
        for reason, count in part.summary.invalid_reasons.items():
            n = part.summary.n
            share = count / n
            rows += (
                f'<tr><th scope="row">{escaped(name)}</th><td>{one_line(reason)}</td><td>{count} of {n}</td>'
                f'<td>{percent(share)}<div class="bar"><i class="fill" style="width:{100 * share:.1f}%"></i></div></td>'
                "</tr>\n"
            )
    if not rows:
        return "<section><h2>Invalid answers</h2>\n<p>There are none.</p></section>\n"
    table = _table(_head("", "reason", "answers", "share"), rows)
    truncated = sum(part.summary.truncated for part in numbers.values())
    note = f"{truncated} answers were cut at the token limit." if truncated else "No answer was cut at the token limit."
    return f'<section><h2>Invalid answers</h2>\n{table}<p class="note">{note}</p></section>\n'


def _table(head: str, rows: str) -> str:
    return f'<div class="wide"><table>\n<thead>{head}</thead>\n<tbody>{rows}</tbody></table></div>\n'


def _head(*names: str) -> str:
    return "<tr>" + "".join(f'<th scope="col">{escaped(name)}</th>' for name in names) + "</tr>"


def _cell(score: Estimate | None) -> str:
    if score is None:
        return "<td>-</td>"
    return f"<td>{percent(score.mean)}<br><small>{interval(score)}</small></td>"


def interval(score: Estimate) -> str:
    """In percent."""
    return f"{percent(score.low)} to {percent(score.high)}"


def one_line(text: str) -> str:
    """A short text out of a record, escaped and on one line."""
    return escaped(" ".join(clip(text, MOST_NAME).split()))


def clip_shown(text: str, most_bytes: int) -> str:
    """A text escaped: of it as much as takes so many bytes on the page, and how much is left out."""
    size = 0
    for at, character in enumerate(text):
        size += len(escaped(character).encode())
        if size > most_bytes:
            return f"{escaped(text[:at])} … and {len(text) - at:,} more characters"
    return escaped(text)


def clip(text: str, most: int) -> str:
    """The text's beginning, and how much is left out."""
    return text if len(text) <= most else f"{text[:most]} … and {len(text) - most:,} more characters"
