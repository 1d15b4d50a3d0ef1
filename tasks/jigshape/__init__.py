"""JigShape: put the pieces of a photo back in place, by their content and their shape."""

from tasks.contract import Task
from tasks.jigshape.answer import REASONS, gold, informative, parse, write
from tasks.jigshape.baselines import chance
from tasks.jigshape.boxes import boxes
from tasks.jigshape.credit import credit
from tasks.jigshape.degenerate import degenerate, partly_right
from tasks.jigshape.diagnosis import diagnose
from tasks.jigshape.geometry import board
from tasks.jigshape.grammar import grammar
from tasks.jigshape.picture import picture
from tasks.jigshape.pose import NAME, VERSION, pose, target_of
from tasks.jigshape.programs import certify, solve_with_vision, solve_without_vision
from tasks.jigshape.render import render
from tasks.jigshape.score import ENTRIES, score
from tasks.jigshape.spec import Spec, caution, detail
from tasks.jigshape.swaps import unsafe
from tasks.jigshape.vote import vote

TASK = Task(
    name=NAME,
    version=VERSION,
    Spec=Spec,
    entries=ENTRIES,
    primary="pa",
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
    detail=detail,
    target_of=target_of,
    solvers={"vision-free solver": solve_without_vision, "joint solver": solve_with_vision},
    certificate=certify,
    caution=caution,
    grammar=grammar,
    boxes=boxes,
    vote=vote,
    write=write,
    unsafe=unsafe,
    partly_right=partly_right,
    degenerate=degenerate,
    credit=credit,
)
