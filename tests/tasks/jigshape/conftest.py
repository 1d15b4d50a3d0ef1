"""An independent, plain reading of the rules: loops and json only, slow and easy to check by eye."""

from __future__ import annotations

import json

import pytest


def spoken(text: str) -> str | None:
    """What is said outside <think> blocks, None if one is never closed."""
    said, thinking, position = "", False, 0
    while position < len(text):
        if text.startswith("<think>", position):
            thinking, position = True, position + len("<think>")
        elif text.startswith("</think>", position):
            if not thinking:
                said = ""
            thinking, position = False, position + len("</think>")
        else:
            stop = text.find("<", position + 1)
            stop = len(text) if stop < 0 else stop
            if not thinking:
                said += text[position:stop]
            position = stop
    return None if thinking else said


def _openings(text: str) -> list[int]:
    return [i for i, char in enumerate(text) if char == "{" and text[i + 1 :].lstrip(" \t\n\r")[:1] in ('"', "}")]


_DECODER = json.JSONDecoder(
    object_pairs_hook=lambda pairs: ("object", pairs),
    parse_int=lambda digits: int(digits) if digits.isdigit() and len(digits) < 9 else -1,
)


def read(text: str, grid: int) -> list[list[int]] | None:
    """Cells by id of a strictly valid completion, else None."""
    said = spoken(text)
    if said is None or not (openings := _openings(said)):
        return None
    try:
        (_, pairs), end = _DECODER.raw_decode(said, openings[0])
    except (ValueError, RecursionError):
        return None
    if any(opening >= end for opening in openings):
        return None
    if sorted(key for key, _ in pairs) != sorted(str(i) for i in range(grid**2)):
        return None
    allowed = [[row, column] for row in range(grid) for column in range(grid)]
    cells = [cell for _, cell in sorted(pairs, key=lambda pair: int(pair[0]))]
    for cell in cells:
        if type(cell) is not list or any(type(number) is not int for number in cell) or cell not in allowed:
            return None
        allowed.remove(cell)
    return cells


def read_rows(text: str, grid: int) -> list[list[int]] | None:
    """Cells by id of a strictly valid completion of rows of ids, else None."""
    said = spoken(text)
    if said is None:
        return None
    openings = [i for i, char in enumerate(said) if char == "[" and said[i + 1 :].lstrip(" \t\n\r")[:1] == "["]
    if not openings:
        return None
    try:
        rows, end = _DECODER.raw_decode(said, openings[0])
    except (ValueError, RecursionError):
        return None
    if any(opening >= end for opening in openings):
        return None
    if len(rows) != grid or any(type(row) is not list or len(row) != grid for row in rows):
        return None
    ids = [index for row in rows for index in row]
    if any(type(index) is not int for index in ids) or sorted(ids) != list(range(grid**2)):
        return None
    return [list(divmod(ids.index(index), grid)) for index in range(grid**2)]


def score(cells: list[list[int]], target: dict) -> dict[str, float]:
    """Every entry of a valid answer, counted one by one."""
    grid, truth = target["grid"], target["cells"]
    count = grid**2
    right = [cells[i] == truth[i] for i in range(count)]
    at = {tuple(cell): i for i, cell in enumerate(cells)}
    true_at = {tuple(cell): i for i, cell in enumerate(truth)}

    def pairs(by_cell):  # (id, id, direction) of every internal edge
        found = []
        for row in range(grid):
            for column in range(grid):
                if column + 1 < grid:
                    found.append((by_cell[row, column], by_cell[row, column + 1], "across"))
                if row + 1 < grid:
                    found.append((by_cell[row, column], by_cell[row + 1, column], "down"))
        return found

    given, true = pairs(at), pairs(true_at)
    edges = 2 * grid * (grid - 1)
    fits = 0
    for first, second, direction in given:
        own, other = (1, 3) if direction == "across" else (2, 0)
        edge, facing = target["signatures"][first][own], target["signatures"][second][other]
        fits += {edge, facing} == {1, -1}
    kinds = {"pa_corner": [], "pa_border": [], "pa_interior": []}
    for i, (row, column) in enumerate(truth):
        outer = (row in (0, grid - 1)) + (column in (0, grid - 1))
        kinds[("pa_interior", "pa_border", "pa_corner")[outer]].append(right[i])
    result = {
        "pa": sum(right) / count,
        "em": float(all(right)),
        "aa": len({frozenset(p[:2]) for p in given} & {frozenset(p[:2]) for p in true}) / edges,
        "aa_oriented": len(set(given) & set(true)) / edges,
        "valid": 1.0,
        "pa_lenient": sum(right) / count,
    }
    if target["shape"]:
        result["sc"] = fits / edges
    return result | {name: sum(hits) / len(hits) for name, hits in kinds.items() if hits}


@pytest.fixture(scope="session")
def reference_read():
    return read


@pytest.fixture(scope="session")
def reference_read_rows():
    return read_rows


@pytest.fixture(scope="session")
def reference_score():
    return score


@pytest.fixture(scope="session")
def pose(make_photo):
    """pose(grid, seed, **spec) -> Puzzle, on a photo that is never drawn."""
    from tasks.jigshape import TASK

    photo = make_photo(8, 8)
    return lambda grid, seed=0, **fields: TASK.pose(TASK.Spec(grid=grid, **fields), photo, seed)
