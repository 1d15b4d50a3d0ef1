"""The sizes of a pretrained model, from its model file, for plans that are made without its config.json."""

from __future__ import annotations

from typing import Any

from models import FAMILIES
from recipes.fields import problem, shown
from recipes.schema import Model


def stated_config(model: Model) -> Any:
    """The config that `model.architecture` states; what it leaves out is as the library has it.

    Raises:
        ValueError: there is none, or it states something that no config of the family has.
    """
    if model.architecture is None:
        allowed = "the sizes of the model, or weights whose config.json is in a folder or in the hub's cache"
        advice = f"do download the model (hf download {model.pretrained}), or set model.architecture"
        raise ValueError(problem("model.architecture", "nothing", allowed, advice))
    config = FAMILIES[model.family].model_class.config_class(
        text_config=dict(model.architecture.text), vision_config=dict(model.architecture.vision)
    )
    plain = FAMILIES[model.family].model_class.config_class()
    unknown = [place for place, _, found in _stated(model, plain) if found is None]
    if unknown:
        told = ("an unknown name", "names of config.json", "do correct the name")
        raise ValueError("\n".join(problem(place, *told) for place in unknown))
    return config


def check_architecture(model: Model, config: Any) -> None:
    """Refuse a model whose config says otherwise than its model file: a plan would be of another model.

    Raises:
        ValueError: they differ.
    """
    problems = [
        problem(place, shown(stated), f"{shown(found)}, as config.json says", "do correct it, or remove it with =null")
        for place, stated, found in _stated(model, config)
        if stated != found
    ]
    if problems:
        raise ValueError("\n".join([*problems, "do set model.architecture=null for a model of other sizes"]))


def _stated(model: Model, config: Any) -> list[tuple[str, Any, Any]]:
    """(its place in the recipe, what the model file states, what a config has) of each size."""
    if model.architecture is None:
        return []
    return [
        (f"model.architecture.{section}.{name}", value, getattr(sizes, name, None))
        for section, sizes in (("text", config.text_config), ("vision", config.vision_config))
        for name, value in getattr(model.architecture, section).items()
    ]
