"""Qwen3-VL: an image costs tokens by its size, and positions have three axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    Qwen2Tokenizer,
    Qwen2VLImageProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel

from models.family import (
    LANGUAGE_LINEARS,
    Family,
    Linears,
    VisionTower,
    require_multiple,
    token_id,
    vocabulary_and_merges,
)
from models.pixels import joined, normalised
from recipes.schema import ImageSize, Scratch

PATCH_PX = 16
MERGE = 2
HEAD_DIM = 16
SCRATCH_VOCABULARY = 1024

MERGERS = r"model\.visual\.(?:merger|deepstack_merger_list\.\d+)"
"""From the vision tower's output and from its deepstack levels into the language model."""

VISION_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *VISION_TOKENS)

CHAT_TEMPLATE = """\
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string -%}
{{ message.content }}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' -%}
{{ '<|vision_start|><|image_pad|><|vision_end|>' }}
{%- else -%}
{{ part.text }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{ '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- endif -%}"""


def scaled_size(processor: Any, width: int, height: int) -> tuple[int, int]:
    """A width x height px picture is scaled to whole merged patches, and into the limits on its area."""
    images = processor.image_processor
    longer, shorter = max(width, height), min(width, height)
    if longer > 200 * shorter:
        raise ValueError(
            f"got an image of {width}x{height} px; Qwen3-VL allows sides up to 1:200; pad it or cut it into pieces"
        )
    scaled_height, scaled_width = smart_resize(
        height,
        width,
        factor=_token_px(images),
        min_pixels=images.size["shortest_edge"],
        max_pixels=images.size["longest_edge"],
    )
    return scaled_width, scaled_height


def image_tokens(processor: Any, width: int, height: int) -> int:
    """Image tokens of a width x height px picture: its size after the processor's own scaling, in merged patches."""
    scaled_width, scaled_height = scaled_size(processor, width, height)
    side = _token_px(processor.image_processor)
    return (scaled_height // side) * (scaled_width // side)


def _token_px(images: Any) -> int:
    """Side of a merged patch."""
    return images.patch_size * images.merge_size


def image_bytes(processor: Any, scaled: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """pixel_values, uint8 (patches, 3 * patch area), and image_grid_thw, (images, 3).

    An image has as many rows as patches, but they are its bytes line by line: patches are cut where floats are made.
    """
    side = processor.image_processor.patch_size
    return {
        "pixel_values": joined([image.view(-1, 3 * side**2) for image in scaled]),
        "image_grid_thw": torch.tensor([[1, image.shape[0] // side, image.shape[1] // side] for image in scaled]),
    }


def pixel_values(processor: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """float32 (patches, 3 * frames of a patch * patch area), each image's patches in the order of its image tokens."""
    images = processor.image_processor
    side = images.patch_size
    patches, start = [], 0
    for (_, rows, columns), alike in groupby(batch["image_grid_thw"].tolist()):
        stop = start + rows * columns * len(list(alike))
        pixels = batch["pixel_values"][start:stop].view(-1, rows * side, columns * side, 3)
        cut, _, _ = images.patchify(normalised(images, pixels), side, images.merge_size, images.temporal_patch_size)
        patches.append(cut.flatten(0, 1))
        start = stop
    return joined(patches)


def limit_images(processor: Any, config: Any, image: ImageSize) -> None:
    """Sets the smallest and largest area in px. Raises ValueError for missing limits or foreign patch sizes."""
    processor.image_processor.size = _size(image)
    images, vision = processor.image_processor, config.vision_config
    got = (images.patch_size, images.merge_size, images.temporal_patch_size)
    needed = (vision.patch_size, vision.spatial_merge_size, vision.temporal_patch_size)
    if got != needed:
        raise ValueError(
            f"got an image processor with (patch, merge, temporal patch) {got}; the model needs {needed}; the model "
            "folder lacks its preprocessor_config.json, so class defaults were used: fetch that file too"
        )


def _size(image: ImageSize) -> dict[str, int]:
    """The area limits under the processor's own names, which speak of edges."""
    if image.min_px is None or image.max_px is None or image.side_px is not None or image.min_px > image.max_px:
        raise ValueError(
            f"got model.image min_px={image.min_px}, max_px={image.max_px}, side_px={image.side_px}; qwen3_vl needs "
            "min_px <= max_px (areas in px) and no side_px; set model.image.min_px and model.image.max_px"
        )
    return {"shortest_edge": image.min_px, "longest_edge": image.max_px}


def scratch_processor(corpus: Iterable[str], image: ImageSize) -> Qwen3VLProcessor:
    """Processor with a byte-level BPE trained on corpus; every digit is its own token, as in the real one."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=SCRATCH_VOCABULARY, initial_alphabet=alphabet, show_progress=False)
    trained.train_from_iterator(corpus, trainer)
    vocabulary, merges = vocabulary_and_merges(trained)
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary,
        merges=merges,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token=None,  # type: ignore[arg-type]
        model_max_length=262144,
    )
    tokenizer.add_tokens(list(SPECIAL_TOKENS), special_tokens=True)
    images = Qwen2VLImageProcessor(
        patch_size=PATCH_PX,
        temporal_patch_size=2,
        merge_size=MERGE,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        size=_size(image),
    )
    videos = Qwen3VLVideoProcessor(patch_size=PATCH_PX, temporal_patch_size=2, merge_size=MERGE)
    return Qwen3VLProcessor(images, tokenizer, videos, chat_template=CHAT_TEMPLATE)


def scratch_config(sizes: Scratch, processor: Qwen3VLProcessor, image: ImageSize) -> Qwen3VLConfig:
    """Config of a small Qwen3-VL; head width 16 in both towers, two query heads per key head."""
    require_multiple("model.scratch.text_hidden", sizes.text_hidden, 2 * HEAD_DIM)
    require_multiple("model.scratch.vision_hidden", sizes.vision_hidden, HEAD_DIM)
    tokenizer, heads = processor.tokenizer, sizes.text_hidden // HEAD_DIM
    rope = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [4, 2, 2], "mrope_interleaved": True}
    return Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": sizes.text_hidden,
            "intermediate_size": 2 * sizes.text_hidden,
            "num_hidden_layers": sizes.text_layers,
            "num_attention_heads": heads,
            "initializer_range": sizes.text_init_std or 0.02,
            "num_key_value_heads": heads // 2,
            "head_dim": HEAD_DIM,
            "max_position_embeddings": 32768,
            "rope_parameters": rope,
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
        },
        vision_config={
            "depth": sizes.vision_layers,
            "hidden_size": sizes.vision_hidden,
            "num_heads": sizes.vision_hidden // HEAD_DIM,
            "intermediate_size": 2 * sizes.vision_hidden,
            "patch_size": PATCH_PX,
            "spatial_merge_size": MERGE,
            "out_hidden_size": sizes.text_hidden,
            "num_position_embeddings": 2304,
            "deepstack_visual_indexes": sorted({0, sizes.vision_layers - 1})[: sizes.text_layers],
        },
        image_token_id=token_id(processor, "<|image_pad|>"),
        video_token_id=token_id(processor, "<|video_pad|>"),
        vision_start_token_id=token_id(processor, "<|vision_start|>"),
        vision_end_token_id=token_id(processor, "<|vision_end|>"),
        tie_word_embeddings=False,
    )


def vision_tower(config: Any) -> VisionTower:
    """Every patch attends to all of its image in every layer; one merger for the output and one per deepstack level."""
    vision = config.vision_config
    embedding = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2 * vision.hidden_size
    layer = 4 * vision.hidden_size**2 + 2 * vision.hidden_size * vision.intermediate_size
    merged = vision.hidden_size * vision.spatial_merge_size**2
    mergers = 1 + len(vision.deepstack_visual_indexes)
    return VisionTower(
        layers=vision.depth,
        width=vision.hidden_size,
        patch_px=vision.patch_size,
        weights_per_patch=embedding + vision.depth * layer,
        weights_per_token=mergers * merged * (merged + vision.out_hidden_size),
    )


def see(model: Any, patches: int) -> list[torch.Tensor]:
    """The merged output and one for each deepstack level, each (patches / 4, hidden width)."""
    visual: Any = _inner(model).visual
    patch = visual.config.in_channels * visual.config.temporal_patch_size * visual.config.patch_size**2
    seen = visual(
        torch.empty(patches, patch),
        grid_thw=None,  # what the tower would compute from it follows
        interp_indices=torch.empty(patches, 4, dtype=torch.long),
        interp_weights=torch.empty(patches, 4),
        position_ids=torch.empty(patches, 2, dtype=torch.long),
        cu_seqlens=np.array([0, patches]),  # the tower reads these values, which a tensor without any does not have
        max_seqlen=patches,
    )
    return [seen.pooler_output, *seen.deepstack_features]


def no_mask(config: Any, rows: int, length: int) -> None:
    """Causal attention needs none."""


def _inner(model: Any) -> Any:
    """The model without its head, in an adapter too."""
    return next(module for module in model.modules() if isinstance(module, Qwen3VLModel))


def positions(model: Any, encoded: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Of one encoded example: a row that counts its tokens, then the model's own three (time, height, width)."""
    ids = encoded["input_ids"]  # (1, L)
    axes, _ = _inner(model).get_rope_index(
        ids, mm_token_type_ids=encoded["mm_token_type_ids"], image_grid_thw=encoded.get("image_grid_thw")
    )
    return torch.cat([torch.arange(ids.shape[1]).expand(1, 1, -1), axes])  # (4, 1, L)


QWEN3_VL = Family(
    name="qwen3_vl",
    model_class=Qwen3VLForConditionalGeneration,
    processor_class=Qwen3VLProcessor,
    model_type="qwen3_vl",
    end_of_turn="<|im_end|>",
    stop_tokens=("<|endoftext|>",),
    vision_tokens=VISION_TOKENS,
    placeholder="<|image_pad|>",
    one_token_image="<|image_pad|>",
    image_token="<|image_pad|>",
    token_types="mm_token_type_ids",
    vision_positions="model.visual.pos_embed.weight",
    no_flash={},
    scaled_size=scaled_size,
    image_tokens=image_tokens,
    image_bytes=image_bytes,
    pixel_values=pixel_values,
    limit_images=limit_images,
    scratch_processor=scratch_processor,
    scratch_config=scratch_config,
    layers=("Qwen3VLTextDecoderLayer", "Qwen3VLVisionBlock"),
    towers={"projector": MERGERS, "vision": r"model\.visual"},
    linears={
        "language": LANGUAGE_LINEARS,
        "vision": Linears(r"model\.visual\.blocks\.\d+\.(?:attn|mlp)", ("qkv", "proj", "linear_fc1", "linear_fc2")),
        "projector": Linears(MERGERS, ("linear_fc1", "linear_fc2")),
    },
    vision_tower=vision_tower,
    see=see,
    mask=no_mask,
    positions=positions,
)
