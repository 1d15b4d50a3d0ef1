"""Spatial probes: small questions about where things lie in a picture. For now grid_missing."""

from tasks.contract import Task
from tasks.probes.answer import REASONS, gold, grammar, informative, parse, write
from tasks.probes.drawing import NAME, VERSION, picture, pose, render
from tasks.probes.score import ENTRIES, chance, diagnose, score
from tasks.probes.spec import Spec, board
from tasks.voting import majority

TASK = Task(
    name=NAME,
    version=VERSION,
    Spec=Spec,
    entries=ENTRIES,
    primary="correct",
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
    picture=picture,
    grammar=grammar,
    vote=majority,
    write=write,
)
