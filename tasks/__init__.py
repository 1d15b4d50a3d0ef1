"""What a puzzle is: pose, render, prompt, parse, score. Free of torch."""

from tasks import chat, jigshape, probes, skills
from tasks.contract import Board, Example, Invalid, Message, Photo, Puzzle, Span, Spec, Task

TASKS: dict[str, Task] = {task.name: task for task in (jigshape.TASK, *skills.SKILLS, probes.TASK, chat.TASK)}
"""Every task by its name in a recipe."""

__all__ = ["TASKS", "Board", "Example", "Invalid", "Message", "Photo", "Puzzle", "Span", "Spec", "Task"]
