"""What a task says of the smallest things on its images."""

from tasks import TASKS
from tasks.contract import Detail


def test_the_squares_that_pieces_lie_on_are_told_of_jigsaws_and_of_questions_about_them():
    def told(name, **sheet):
        task = TASKS[name]
        spec = {"grid": 4, "piece_px": 20, **sheet}
        return task.detail(task.Spec.model_validate(spec if name == "jigshape" else {"puzzle": spec}))

    for name in ("jigshape", "piece_kind"):
        assert told(name, tab_ratio=0.3) == Detail(16, 20.0, 3.0, None)
        assert told(name, tab_ratio=0.3, layout="aligned", token_px=28) == Detail(16, 20.0, 3.0, 28)
