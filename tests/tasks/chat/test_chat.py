import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import TASKS
from tasks.contract import Invalid

CHAT = TASKS["chat"]
SPEC = CHAT.Spec()


@given(st.text())
def test_a_reply_with_words_is_its_own_answer_and_scores_one(text):
    answer = CHAT.parse(text, SPEC)
    if not text.strip():
        assert answer == Invalid("empty")
        assert answer.reason in CHAT.invalid_reasons
        return
    target = json.loads(json.dumps(CHAT.target_of(answer, SPEC)))
    assert CHAT.gold(target) == text.strip()
    assert CHAT.parse(CHAT.gold(target), SPEC) == answer
    assert CHAT.score(answer, target) == {"match": 1.0, "valid": 1.0}
    assert CHAT.informative(CHAT.gold(target)) == [(0, len(answer))]


@pytest.mark.parametrize(
    ("text", "match"),
    [("a  b\n\tc", 1.0), (" a b c ", 1.0), ("abc", 0.0), ("a b", 0.0), ("a b c d", 0.0), ("A b c", 0.0)],
)
def test_only_the_blanks_between_words_may_differ(text, match):
    assert CHAT.score(CHAT.parse(text, SPEC), {"text": "a b c"}) == {"match": match, "valid": 1.0}


def test_an_empty_reply_is_invalid_and_scores_zero():
    empty = CHAT.parse(" \n", SPEC)
    assert CHAT.score(empty, {"text": "a"}) == {"match": 0.0, "valid": 0.0}
    assert CHAT.diagnose(empty, {"text": "a"}) == {"reason": "empty"}
    assert CHAT.diagnose("b", {"text": "a"}) == {"reason": None}


def test_guessing_earns_nothing():
    assert CHAT.chance(SPEC)["random"][CHAT.primary] == 0
    assert list(CHAT.chance(SPEC)["random"]) == list(CHAT.entries)


def test_nothing_is_posed_or_drawn():
    assert CHAT.data_only
    assert CHAT.board(SPEC) is None
    with pytest.raises(ValueError, match="only out of a dataset"):
        CHAT.pose(SPEC, None, 0)
    with pytest.raises(ValueError, match="only out of a dataset"):
        CHAT.render(None, None)
