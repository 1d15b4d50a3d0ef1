"""Models from the hub, from a folder, from scratch, and back from a checkpoint. Nothing is matched by halves."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import init_empty_weights
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from peft.utils import ModulesToSaveWrapper
from safetensors import safe_open
from safetensors.torch import load_file
from transformers.core_model_loading import revert_weight_conversion
from transformers.utils import is_flash_attn_2_available

from models import FAMILIES, Family
from models.architecture import check_architecture
from models.scratch import build_scratch, scratch_processor
from models.sharded import fill
from recipes.schema import Model

logger = logging.getLogger(__name__)

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
WEIGHTS = "model.safetensors"
WEIGHTS_INDEX = "model.safetensors.index.json"


class CheckpointError(ValueError):
    """Weights or files that are missing, or do not belong to the model they are loaded into."""


@dataclass(frozen=True)
class Encoder:
    """What turns conversations into tokens. `max_tokens` is the recipe's longest sequence."""

    processor: Any
    family: Family
    max_tokens: int


@dataclass(frozen=True)
class Loaded(Encoder):
    """A model and what is needed to talk to it."""

    model: Any


def load_encoder(model: Model, *, local: bool = False) -> Encoder:
    """The processor of a recipe's model as `load_model` sets it up, without the weights.

    `local`: only look where no network is needed. Raises ValueError if the image limits do not fit, CheckpointError if
    the processor's files cannot be had.
    """
    family = FAMILIES[model.family]
    if model.scratch is not None:
        processor, _ = scratch_processor(model)
    else:
        name = _pretrained_name(model)
        config = read_config(family, name, model.revision, local=local)
        check_architecture(model, config)
        processor = _limited_processor(family, name, model.revision, config, model, local=local)
    return Encoder(processor, family, model.max_tokens)


def load_model(
    model: Model,
    *,
    seed: int,
    dtype: torch.dtype,
    flash: bool = True,
    empty: bool = False,
    log: Callable[[str], None] = logger.info,
) -> Loaded:
    """The model of a recipe, on the CPU, its parameters in dtype.

    `seed` decides the weights of a scratch model. `flash` says whether Flash Attention may be used, which computes in
    16 bits only. `empty` reads no weights: the parameters are on the meta device, but a scratch model's are built.
    `log` gets one line per tower about its attention. Raises ValueError if attention or image limits do not fit,
    CheckpointError if weights cannot be had or do not match.
    """
    family = FAMILIES[model.family]
    attention, lines = family.resolve_attention(model.attention, flash=flash and is_flash_attn_2_available())
    if model.scratch is not None:
        built, processor = build_scratch(model, seed)
        built.set_attn_implementation(attention)
        for parameter in built.parameters():  # not .to(dtype): it would round the rotary frequencies, too
            parameter.data = parameter.data.to(dtype)
    else:
        name = _pretrained_name(model)
        config = read_config(family, name, model.revision)
        check_architecture(model, config)
        if empty:
            with init_empty_weights():
                built = family.model_class._from_config(config, dtype=dtype, attn_implementation=attention)
            built.tie_weights()  # each parameter has become one of its own
        else:
            built = _pretrained(family, name, model.revision, attention, dtype)
        processor = _limited_processor(family, name, model.revision, built.config, model)
    for line in lines:
        log(line)
    return Loaded(processor, family, model.max_tokens, built)


def load_checkpoint(
    folder: str | Path,
    model: Model,
    *,
    seed: int,
    dtype: torch.dtype,
    log: Callable[[str], None] = logger.info,
) -> Loaded:
    """A checkpoint folder, ready to answer: full weights, or a LoRA adapter on the base that `model` names.

    `model` and `seed` are those of the run that wrote it: a scratch base is built again from them. Raises
    CheckpointError if a file is missing or any weight is missing, left over or of another shape.
    """
    folder = Path(folder)
    if (folder / ADAPTER_CONFIG).is_file():
        base = load_model(model, seed=seed, dtype=dtype, flash=dtype != torch.float32, log=log)
        _check_vocabulary(folder, base)
        adapted = with_adapter(base.model, LoraConfig.from_pretrained(str(folder)))
        _load_adapter(adapted, folder)
        return replace(base, model=adapted.eval())
    family = FAMILIES[model.family]
    _weight_files(folder)
    flash = dtype != torch.float32 and is_flash_attn_2_available()
    attention, lines = family.resolve_attention(model.attention, flash=flash)
    built = _pretrained(family, str(folder), None, attention, dtype)
    processor = _limited_processor(family, str(folder), None, built.config, model)
    for line in lines:
        log(line)
    return Loaded(processor, family, model.max_tokens, built.eval())


def is_adapter(folder: str | Path) -> bool:
    """Whether a checkpoint is an adapter, or else full weights.

    Raises:
        CheckpointError: it is neither.
    """
    if (Path(folder) / ADAPTER_CONFIG).is_file():
        return True
    _weight_files(Path(folder))
    return False


def with_adapter(model: Any, config: LoraConfig) -> PeftModel:
    """The model, changed in place, inside a new adapter, all of whose weights are float32."""
    adapted = get_peft_model(model, config, autocast_adapter_dtype=True)
    for module in adapted.modules():
        if isinstance(module, ModulesToSaveWrapper):  # peft leaves modules that are trained whole as they were
            module.modules_to_save.float()
    return adapted


def merged_weight(layer: Any, dtype: torch.dtype) -> torch.Tensor:
    """A new weight: that of a layer's base with what its adapters have learnt, computed in float32, rounded once."""
    learnt = sum(layer.get_delta_weight(adapter) for adapter in layer.active_adapters)
    return (layer.get_base_layer().weight.float() + learnt).to(dtype)


@torch.no_grad()
def load_weights_into(model: Any, folder: str | Path) -> None:
    """Copies the weights of a checkpoint folder into a model in place: full weights, or into a PeftModel its adapter.

    The model may be sharded; each process then keeps its slices of what it reads.

    Files in the hub's key style (which Gemma3's save_pretrained writes) and in the model's own are both read. Raises
    CheckpointError, with the model untouched, if any weight is missing, left over or of another shape.
    """
    folder = Path(folder)
    if (folder / ADAPTER_CONFIG).is_file():
        _load_adapter(model, folder)
        return
    files = _weight_files(folder)
    shapes = {}
    for file in files:
        with safe_open(file, framework="pt") as stored:
            shapes.update({name: tuple(stored.get_slice(name).get_shape()) for name in stored.keys()})  # noqa: SIM118
    own = model.state_dict(keep_vars=True)  # the parameters themselves: a tied one is the same under both its names
    # The reverted dict holds the same tensors under the names that save_pretrained gives them.
    targets = own if shapes.keys() <= own.keys() else revert_weight_conversion(model, own)
    stored_in = {id(targets[name]) for name in shapes if name in targets}
    _require_match(
        folder,
        missing=[name for name, tensor in targets.items() if name not in shapes and id(tensor) not in stored_in],
        unexpected=[name for name in shapes if name not in targets],
        mismatched=[name for name, shape in shapes.items() if name in targets and targets[name].shape != shape],
    )
    for file in files:
        with safe_open(file, framework="pt") as stored:
            for name in stored.keys():  # noqa: SIM118
                fill(targets[name], stored.get_tensor(name))


def _pretrained_name(model: Model) -> str:
    if model.pretrained is None:
        raise ValueError(f"got model {model.name} with neither pretrained nor scratch; give exactly one of them")
    return model.pretrained


def read_config(family: Family, name: str, revision: str | None, *, local: bool = False) -> Any:
    """The config of a model of this family, in a folder or on the hub; `local`: or in the hub's cache, without network.

    Raises CheckpointError if it cannot be had, or is of another family.
    """
    try:
        config = family.model_class.config_class.from_pretrained(name, revision=revision, local_files_only=local)
    except OSError as error:
        raise _unavailable(name, error) from error
    if config.model_type != family.model_type:
        raise CheckpointError(
            f"got a {config.model_type} model in {name}; model.family={family.name} needs {family.model_type}; "
            "set model= to the model file of that family"
        )
    return config


def _pretrained(family: Family, name: str, revision: str | None, attention: dict[str, str], dtype: torch.dtype) -> Any:
    read_config(family, name, revision)
    try:
        built, info = family.model_class.from_pretrained(
            name,
            revision=revision,
            dtype=dtype,
            attn_implementation=attention,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # so that they are reported with the rest below, not loaded
            trust_remote_code=False,
            output_loading_info=True,
        )
    except OSError as error:
        raise _unavailable(name, error) from error
    _require_match(name, info["missing_keys"], info["unexpected_keys"], [key for key, *_ in info["mismatched_keys"]])
    return built


def _processor(family: Family, name: str, revision: str | None, *, local: bool = False) -> Any:
    try:
        return family.processor_class.from_pretrained(
            name, revision=revision, trust_remote_code=False, local_files_only=local
        )
    except OSError as error:
        raise _unavailable(name, error) from error


def _limited_processor(
    family: Family, name: str, revision: str | None, config: Any, model: Model, *, local: bool = False
) -> Any:
    processor = _processor(family, name, revision, local=local)
    family.limit_images(processor, config, model.image)
    return processor


def _unavailable(name: str, error: OSError) -> CheckpointError:
    first_line = str(error).strip().partition("\n")[0]
    return CheckpointError(
        f"got model {name!r}, which could not be read ({first_line}); allowed are a folder that holds config.json, "
        "*.safetensors and the processor's files, or a hub name; for a hub name run `hf auth login` if its licence "
        f"asks for it and `hf download {name}` on a machine with network, and unset HF_HUB_OFFLINE if it is not "
        "downloaded yet; for a folder set model.pretrained=/path/to/it"
    )


def _weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / WEIGHTS_INDEX).is_file():
        names = sorted(set(json.loads((folder / WEIGHTS_INDEX).read_text())["weight_map"].values()))
        absent = [name for name in names if not (folder / name).is_file()]
        if absent:
            raise CheckpointError(f"got {folder} without {', '.join(absent)}; use a complete checkpoint")
        return [folder / name for name in names]
    raise CheckpointError(
        f"got {folder}; allowed is a folder that holds {WEIGHTS}, {WEIGHTS_INDEX} or {ADAPTER_CONFIG}; "
        "give the folder of one checkpoint, such as runs/NAME/checkpoint-100"
    )


def _load_adapter(model: Any, folder: Path) -> None:
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise CheckpointError(f"got {folder} without {ADAPTER_WEIGHTS}; use a complete checkpoint")
    stored = load_file(folder / ADAPTER_WEIGHTS)
    own = get_peft_model_state_dict(model)
    _require_match(
        folder,
        missing=own.keys() - stored.keys(),
        unexpected=stored.keys() - own.keys(),
        mismatched=[name for name in own.keys() & stored.keys() if own[name].shape != stored[name].shape],
    )
    with torch.no_grad():
        for name, value in stored.items():
            fill(own[name], value)  # own holds the parameters' memory


def _check_vocabulary(folder: Path, base: Loaded) -> None:
    """An adapter fits its own base only; for one from scratch the tokenizer tells whether it is the same."""
    if not (folder / "tokenizer.json").is_file():
        return
    saved = _processor(base.family, str(folder), None).tokenizer.get_vocab()
    if saved != base.processor.tokenizer.get_vocab():
        raise CheckpointError(
            f"got {folder}, an adapter trained with another vocabulary than the base model has now (prompts have "
            "changed since, or model= names another base); use the code and the recipe that it was trained with"
        )


def _require_match(
    source: str | Path, missing: Iterable[str], unexpected: Iterable[str], mismatched: Iterable[str]
) -> None:
    kinds = {"missing": missing, "unexpected": unexpected, "of another shape": mismatched}
    problems = [_counted(kind, sorted(names)) for kind, names in kinds.items() if names]
    if problems:
        raise CheckpointError(
            f"got weights in {source} that do not match the model: {'; '.join(problems)}; every weight must match; "
            "use a complete checkpoint of this model and family"
        )


def _counted(kind: str, names: list[str]) -> str:
    more = ", ..." if len(names) > 3 else ""
    return f"{len(names)} {kind} ({', '.join(names[:3])}{more})"
