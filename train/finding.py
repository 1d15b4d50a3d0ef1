"""What the doctor finds, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """One line of the page."""

    level: Literal["ok", "note", "bad"]
    about: str
    found: str
    advice: str = ""


def page(findings: Sequence[Finding]) -> str:
    width = max(len(finding.about) for finding in findings)
    lines = []
    for level, about, found, advice in findings:
        lines.append(f"{level:<4}  {about:<{width}}  {found}")
        if advice:
            lines.append(f"{'':<4}  {'':<{width}}    {advice}")
    return "\n".join(lines)
