"""Which questions a call still has to ask."""

import pytest

from eval_hooks.journal import Journal
from eval_hooks.protocol import GREEDY
from eval_hooks.records import Giver
from eval_hooks.run import left_to_ask, parse_request


def test_two_parts_that_ask_the_same_puzzle_are_refused_by_name(mixture_of, recipe_of, tmp_path):
    spec = recipe_of().data.parts["2x2"].spec
    twin = f"data.parts.twin={{task: jigshape, count: 4, spec: {spec}, paired_with: 2x2}}"
    with pytest.raises(ValueError, match=r"eval\.parts: got puzzle .* in part 2x2 and again in twin"):
        left_to_ask(Journal(tmp_path / "out.jsonl", 0), mixture_of(2, twin), GREEDY, Giver("m", None, "greedy", "eval"))


@pytest.mark.parametrize(
    "url", ["localhost:8000/v1", "http://[::1/v1", "http://", "http://me:secret@host/v1", "http://h/v1?k=secret"]
)
def test_an_address_that_cannot_be_asked_is_refused_at_once_and_not_shown(url):
    words = ["recipe=quickstart", f"endpoint={url}", "endpoint_model=m"]
    with pytest.raises(ValueError, match="endpoint: got no such address") as refused:
        parse_request(words)
    assert "secret" not in str(refused.value)
