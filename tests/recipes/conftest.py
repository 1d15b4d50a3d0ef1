"""A small recipe file of its own, so that these tests do not move with the shipped ones."""

from __future__ import annotations

import pytest

from recipes.loader import RecipeError, load_recipe

SMALL = """\
model:
  name: tiny
  family: qwen3_vl
  scratch: {}
  image: {min_px: 1024, max_px: 16777216}
  max_tokens: 4096
data:
  parts:
    2x2: {task: jigshape, spec: {grid: 2}, count: 8}
    4x4: {task: jigshape, spec: {grid: 4}, count: 4}
trainer: {learning_rate: 1e-5}
"""


@pytest.fixture
def small(in_tmp_path):
    """The path of the small recipe, in a folder of its own."""
    file = in_tmp_path / "small.yaml"
    file.write_text(SMALL, encoding="utf-8")
    return file


@pytest.fixture
def problems(small):
    """A function: what the loader says of the small recipe with these overrides."""

    def tell(*overrides: str) -> list[str]:
        with pytest.raises(RecipeError) as error:
            load_recipe([f"recipe={small}", *overrides])
        return error.value.problems

    return tell
