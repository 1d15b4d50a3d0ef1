"""Sub-skills of JigShape: one question about a shuffled sheet, for curricula and diagnosis."""

from tasks.contract import Task
from tasks.skills import piece_cell, piece_edges, piece_kind, piece_right, pieces_fit

SKILLS: tuple[Task, ...] = tuple(skill.TASK for skill in (piece_edges, piece_kind, piece_cell, pieces_fit, piece_right))
