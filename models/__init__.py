"""What a model is here: family facts, loading, saving, token arithmetic, generation."""

from models.family import Family
from models.gemma3 import GEMMA3
from models.qwen3_vl import QWEN3_VL

FAMILIES: dict[str, Family] = {family.name: family for family in (QWEN3_VL, GEMMA3)}

__all__ = ["FAMILIES", "Family"]
