"""From penalties to a full board: join sure pairs to blocks, lay the blocks, fill the gaps, anneal what is unsure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tasks.jigshape.annealing import anneal, recut
from tasks.jigshape.penalties import EMPTY, STEPS, TIE, UNFIT, Penalties

ALMOST_BEST = TIE + 0.14
"""Pairs are joined up to this penalty: they cost at most 15 % more than their best rival."""
TIED = 0.02
"""Pairs this near to TIE are not joined: among equal pieces, as of a black sky, every other choice is as good."""
ROUNDS = 4
"""How often what is still unsure is annealed. Puzzles that are sure at once need none."""


def assemble_board(judge: Penalties, seed: int = 0) -> np.ndarray:
    """The cheapest board found, int (N, N) of ids. Equal arguments, equal board.

    The scheme is Gallagher's (CVPR 2012): a tree of best pairs under the constraint that nothing collides.
    """
    framed = bool(judge.cells.any())  # flat sides say where the border is
    rng = np.random.default_rng(seed)
    board = _lay(judge, _join(judge))
    _fill(judge, board)
    if not framed:
        board = recut(judge, board)
    cost = judge.of_board(board)
    for _ in range(ROUNDS):
        unsure = judge.unsure(board)
        if not unsure.any():
            break
        trial = anneal(judge, board, grown(unsure), rng)
        if not framed:
            trial = recut(judge, trial)
        if (new := judge.of_board(trial)) <= cost:
            board, cost = trial, new
    return board


class _Block:
    """Pieces whose relative cells are decided: `at` gives them by (row, column) in the block's own frame."""

    def __init__(self, piece: int, allowed: np.ndarray) -> None:
        rows, columns = np.nonzero(allowed)
        if len(rows) == 0:  # misread edges fit no cell: it may lie anywhere
            rows, columns = np.indices(allowed.shape).reshape(2, -1)
        self.at = {(0, 0): piece}
        self.rows = (int(rows.min()), int(rows.max()))
        """First and last row of the board where (0, 0) may lie."""
        self.columns = (int(columns.min()), int(columns.max()))


def _join(judge: Penalties) -> list[_Block]:
    """Blocks, largest first: sure pairs are joined, surest first, wherever nothing collides and all edges fit."""
    blocks = [_Block(piece, allowed) for piece, allowed in enumerate(judge.cells == 0)]
    home = [(block, 0, 0) for block in blocks]
    for first, second, down in _sure_pairs(judge):
        one, row, column = home[first]
        other, other_row, other_column = home[second]
        if one is other:
            continue
        shift = (row + down - other_row, column + (1 - down) - other_column)  # from other's frame to one's
        if len(one.at) < len(other.at):
            one, other, shift = other, one, (-shift[0], -shift[1])
        rows = _common(one.rows, other.rows, shift[0])
        columns = _common(one.columns, other.columns, shift[1])
        moved = {(r + shift[0], c + shift[1]): piece for (r, c), piece in other.at.items()}
        if rows[0] > rows[1] or columns[0] > columns[1] or not _fits(judge, one.at, moved):
            continue
        one.at |= moved
        one.rows, one.columns = rows, columns
        for (r, c), piece in moved.items():
            home[piece] = (one, r, c)
    unique = {id(block): block for block, _, _ in home}
    return sorted(unique.values(), key=lambda block: -len(block.at))


def _common(one: tuple[int, int], other: tuple[int, int], shift: int) -> tuple[int, int]:
    return max(one[0], other[0] - shift), min(one[1], other[1] - shift)


def _sure_pairs(judge: Penalties) -> Iterator[tuple[int, int, int]]:
    """(id, id, 1 if the second is below, 0 if it is to the right), surest first."""
    both = np.stack([judge.across, judge.down])
    down, first, second = np.nonzero((both < ALMOST_BEST) & (np.abs(both - TIE) > TIED))
    order = np.argsort(both[down, first, second], kind="stable")
    yield from zip(first[order].tolist(), second[order].tolist(), down[order].tolist(), strict=True)


def _fits(judge: Penalties, laid: dict[tuple[int, int], int], moved: dict[tuple[int, int], int]) -> bool:
    for (row, column), piece in moved.items():
        if (row, column) in laid:
            return False
        for step in STEPS:
            other = laid.get((row + step[0], column + step[1]))
            if other is not None and judge.beside(piece, other, step) >= UNFIT:
                return False
    return True


def _lay(judge: Penalties, blocks: list[_Block]) -> np.ndarray:
    """A board with the blocks of two and more pieces, each where it costs least; those that find no room are left
    out. (N, N) with EMPTY cells."""
    grid = judge.grid
    board = np.full((grid, grid), EMPTY)
    for block in blocks:
        if len(block.at) == 1:
            break
        own_rows, own_columns = np.array(list(block.at)).T
        pieces = np.array(list(block.at.values()))
        costs = judge.of_pieces(board, pieces)  # (n, N, N)
        best = None
        for row in range(block.rows[0], block.rows[1] + 1):
            for column in range(block.columns[0], block.columns[1] + 1):
                rows, columns = own_rows + row, own_columns + column
                if (board[rows, columns] != EMPTY).any():
                    continue
                off_centre = abs(rows.mean() - (grid - 1) / 2) + abs(columns.mean() - (grid - 1) / 2)
                rank = (costs[np.arange(len(pieces)), rows, columns].sum(), off_centre)
                if best is None or rank < best[0]:
                    best = (rank, rows, columns)
        if best is not None:
            board[best[1], best[2]] = pieces
    return board


def _fill(judge: Penalties, board: np.ndarray) -> None:
    """Lay the loose pieces one by one, the best first, on the empty cells with most neighbours; writes the board."""
    loose = np.setdiff1d(np.arange(board.size), board)
    while len(loose):
        laid = np.pad(board != EMPTY, 1).astype(int)
        known = laid[:-2, 1:-1] + laid[2:, 1:-1] + laid[1:-1, :-2] + laid[1:-1, 2:]
        known[board != EMPTY] = -1
        rows, columns = np.nonzero(known == known.max())
        costs = judge.of_pieces(board, loose)[:, rows, columns]
        piece, cell = np.unravel_index(costs.argmin(), costs.shape)
        board[rows[cell], columns[cell]] = loose[piece]
        loose = np.delete(loose, piece)


def grown(cells: np.ndarray) -> np.ndarray:
    """The cells and their neighbours."""
    framed = np.pad(cells, 1)
    return cells | framed[:-2, 1:-1] | framed[2:, 1:-1] | framed[1:-1, :-2] | framed[1:-1, 2:]
