"""Chat: a conversation about images, answered as it was in a dataset. Trained beside puzzles, against forgetting."""

from tasks.chat.reply import ENTRIES, REASONS, chance, diagnose, gold, informative, parse, score, target_of
from tasks.chat.turns import NAME, VERSION, Spec, board, pose, render
from tasks.contract import Task

TASK = Task(
    name=NAME,
    version=VERSION,
    Spec=Spec,
    entries=ENTRIES,
    primary="match",
    invalid_reasons=REASONS,
    board=board,
    pose=pose,
    render=render,
    parse=parse,
    gold=gold,
    score=score,
    chance=chance,
    diagnose=diagnose,
    informative=informative,
    target_of=target_of,
    data_only=True,
)
