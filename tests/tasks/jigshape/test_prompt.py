import pytest


def words(puzzle):
    return "\n".join(part.get("text", "<image>") for message in puzzle.messages for part in message["content"])


@pytest.mark.parametrize("shape", [True, False])
@pytest.mark.parametrize("grid", [2, 4, 32])
def test_the_full_wording_carries_the_task_whole(pose, grid, shape):
    puzzle = pose(grid, shape=shape)
    text = words(puzzle)
    assert [message["role"] for message in puzzle.messages] == ["system", "user"]
    for fact in (
        f"{grid**2} pieces", f"{grid} rows", f"0 to {grid**2 - 1}", f"0 to {grid - 1}", "RANDOM", "NOTHING", "top-left",
        "ONE JSON object", "never rotated",
    ):  # fmt: skip
        assert fact in text


def test_without_shape_nothing_is_said_about_edges(pose):
    plain = words(pose(4, shape=False)).lower()
    for word in ("tab", "blank", "flat", "hollow", "bump", "edge", "border"):
        assert word not in plain
        assert word in words(pose(4)).lower()
    assert "rectangle" in plain


def test_labels_are_only_promised_where_they_are_printed(pose):
    assert "above it" in words(pose(4))
    assert "above it" not in words(pose(4, label="none"))


@pytest.mark.parametrize("grid", [2, 16, 32])
def test_the_brief_wording_is_one_short_message(pose, grid):
    puzzle = pose(grid, wording="brief")
    assert [message["role"] for message in puzzle.messages] == ["user"]
    assert len(words(puzzle)) < 120
    assert f"{grid}x{grid}" in words(puzzle)
