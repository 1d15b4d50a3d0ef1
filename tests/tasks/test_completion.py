import pytest

from tasks.completion import spoken


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5", "5"),
        ("", ""),
        ("<think>4</think>5", "5"),
        ("4</think>5", "5"),
        ("a<think>4</think>b<think>6</think>c", "abc"),
        ("<think>a<think>b</think>c</think>d", "d"),
        ("</think></think>x", "x"),
        ("<think>5", None),
        ("<think>4</think>5<think>", None),
        ("<thinking>5", "<thinking>5"),
    ],
)
def test_only_what_is_said_outside_reasoning_counts(text, said):
    assert spoken(text) == said
