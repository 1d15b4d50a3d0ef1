"""Gemma3: every image is squeezed to one square and costs the same number of tokens."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import (
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma3ImageProcessor,
    Gemma3Processor,
    GemmaTokenizer,
)
from transformers.models.gemma3.modeling_gemma3 import Gemma3Model

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

PATCH_PX = 14
POOL = 4
"""Patches along each side of the square that one image token stands for (64 patches to 16 tokens at 896 px)."""
HEAD_DIM = 16
SCRATCH_VOCABULARY = 1280

VISION_TOKENS = ("<start_of_image>", "<end_of_image>", "<image_soft_token>")
SPECIAL_TOKENS = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>", *VISION_TOKENS)

CHAT_TEMPLATE = """\
{%- macro body(content) -%}
{%- if content is string -%}
{{ content }}
{%- else -%}
{%- for part in content -%}
{%- if part.type == 'image' -%}
{{ '<start_of_image>' }}
{%- else -%}
{{ part.text }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
{{ bos_token }}
{%- set turn = namespace(before='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set turn.before = body(message.content) + '\\n\\n' -%}
{%- else -%}
{{ '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' }}
{{- turn.before + body(message.content) + '<end_of_turn>\\n' }}
{%- set turn.before = '' -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<start_of_turn>model\\n' }}
{%- endif -%}"""


def scaled_size(processor: Any, width: int, height: int) -> tuple[int, int]:
    """The same square for every picture."""
    size = processor.image_processor.size
    return size["width"], size["height"]


def image_tokens(processor: Any, width: int, height: int) -> int:
    """Image tokens of any picture: the same number for each."""
    return processor.image_seq_length


def image_bytes(processor: Any, scaled: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """pixel_values, uint8 (images, side, side, 3)."""
    return {"pixel_values": joined([image[None] for image in scaled])}


def pixel_values(processor: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """float32 (images, 3, side, side)."""
    return normalised(processor.image_processor, batch["pixel_values"])


def limit_images(processor: Any, config: Any, image: ImageSize) -> None:
    """Sets the square side in px. Raises ValueError if it is missing or differs from the vision tower's."""
    side_px, built_for = _side_px(image), config.vision_config.image_size
    if side_px != built_for:
        raise ValueError(
            f"got model.image.side_px={side_px}; this model's vision tower allows {built_for} only; "
            f"set model.image.side_px={built_for}"
        )
    if processor.image_seq_length != config.mm_tokens_per_image:
        raise ValueError(
            f"got a processor with {processor.image_seq_length} tokens per image; the model needs "
            f"{config.mm_tokens_per_image}; the model folder lacks its processor_config.json: fetch that file too"
        )
    processor.image_processor.size = {"height": side_px, "width": side_px}
    processor.image_processor.do_pan_and_scan = False


def _side_px(image: ImageSize) -> int:
    if image.side_px is None or image.min_px is not None or image.max_px is not None:
        raise ValueError(
            f"got model.image min_px={image.min_px}, max_px={image.max_px}, side_px={image.side_px}; gemma3 needs "
            "side_px and neither min_px nor max_px; set model.image.side_px"
        )
    return image.side_px


def scratch_processor(corpus: Iterable[str], image: ImageSize) -> Gemma3Processor:
    """Processor with a byte-fallback BPE trained on corpus; every digit is its own token, as in the real one."""
    side_px = _side_px(image)
    require_multiple("model.image.side_px", side_px, PATCH_PX * POOL)
    trained = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    trained.normalizer = normalizers.Replace(" ", "▁")
    # Gemma's own tokenizer splits nothing, so words are kept apart in training only, or a prompt would be one token.
    trained.pre_tokenizer = pre_tokenizers.Split(Regex(r"\p{N}|\n+|▁?\p{L}+|▁?[^▁\s\p{L}\p{N}]+|▁+"), "isolated")
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=SCRATCH_VOCABULARY,
        special_tokens=[*SPECIAL_TOKENS, *byte_tokens],
        initial_alphabet=["▁", "\n", *string.ascii_letters, *string.digits, *string.punctuation],
        show_progress=False,
    )
    trained.train_from_iterator(corpus, trainer)
    vocabulary, merges = vocabulary_and_merges(trained)
    tokenizer = GemmaTokenizer(
        vocab=vocabulary,
        merges=merges,
        model_max_length=131072,
        extra_special_tokens={
            "image_token": "<image_soft_token>",
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
        },
    )
    tokenizer.add_tokens(["<start_of_turn>", "<end_of_turn>"], special_tokens=True)
    images = Gemma3ImageProcessor(
        size={"height": side_px, "width": side_px},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        do_pan_and_scan=False,
    )
    return Gemma3Processor(images, tokenizer, chat_template=CHAT_TEMPLATE, image_seq_length=_tokens(side_px))


def _tokens(side_px: int) -> int:
    return (side_px // (PATCH_PX * POOL)) ** 2


def scratch_config(sizes: Scratch, processor: Gemma3Processor, image: ImageSize) -> Gemma3Config:
    """Config of a small Gemma3; head width 16 in both towers, sliding and full attention in turn."""
    require_multiple("model.scratch.text_hidden", sizes.text_hidden, 2 * HEAD_DIM)
    require_multiple("model.scratch.vision_hidden", sizes.vision_hidden, HEAD_DIM)
    tokenizer, heads, side_px = processor.tokenizer, sizes.text_hidden // HEAD_DIM, _side_px(image)
    layers = ["sliding_attention", "full_attention"] * sizes.text_layers
    return Gemma3Config(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": sizes.text_hidden,
            "intermediate_size": 2 * sizes.text_hidden,
            "num_hidden_layers": sizes.text_layers,
            "num_attention_heads": heads,
            "initializer_range": sizes.text_init_std or 0.02,
            "num_key_value_heads": heads // 2,
            "head_dim": HEAD_DIM,
            "query_pre_attn_scalar": HEAD_DIM,
            "sliding_window": 1024,
            "layer_types": layers[: sizes.text_layers],
            "max_position_embeddings": 32768,
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "bos_token_id": tokenizer.bos_token_id,
        },
        vision_config={
            "hidden_size": sizes.vision_hidden,
            "intermediate_size": 2 * sizes.vision_hidden,
            "num_hidden_layers": sizes.vision_layers,
            "num_attention_heads": sizes.vision_hidden // HEAD_DIM,
            "image_size": side_px,
            "patch_size": PATCH_PX,
            "vision_use_head": False,
        },
        mm_tokens_per_image=_tokens(side_px),
        boi_token_index=token_id(processor, "<start_of_image>"),
        eoi_token_index=token_id(processor, "<end_of_image>"),
        image_token_index=token_id(processor, "<image_soft_token>"),
    )


def vision_tower(config: Any) -> VisionTower:
    """Pooling comes before the projector, which has one matrix."""
    vision = config.vision_config
    layer = 4 * vision.hidden_size**2 + 2 * vision.hidden_size * vision.intermediate_size
    return VisionTower(
        layers=vision.num_hidden_layers,
        width=vision.hidden_size,
        patch_px=vision.patch_size,
        weights_per_patch=vision.num_channels * vision.patch_size**2 * vision.hidden_size
        + vision.num_hidden_layers * layer,
        weights_per_token=vision.hidden_size * config.text_config.hidden_size,
    )


def see(model: Any, patches: int) -> list[torch.Tensor]:
    """(images, image tokens, hidden width)."""
    inner: Any = next(module for module in model.modules() if isinstance(module, Gemma3Model))
    vision = inner.config.vision_config
    images = max(1, patches // (vision.image_size // vision.patch_size) ** 2)
    pixels = torch.empty(images, vision.num_channels, vision.image_size, vision.image_size)
    return [inner.get_image_features(pixels, return_dict=True).pooler_output]


def mask(config: Any, rows: int, length: int) -> dict[str, torch.Tensor]:
    """bool (rows, 1, length, length) for each kind of layer: images are seen in both directions."""
    kinds = sorted(set(config.text_config.layer_types))
    return {kind: torch.empty(rows, 1, length, length, dtype=torch.bool) for kind in kinds}


GEMMA3 = Family(
    name="gemma3",
    model_class=Gemma3ForConditionalGeneration,
    processor_class=Gemma3Processor,
    model_type="gemma3",
    end_of_turn="<end_of_turn>",
    stop_tokens=("<eos>",),
    vision_tokens=VISION_TOKENS,
    placeholder="<start_of_image>",
    one_token_image="\n\n<start_of_image><image_soft_token><end_of_image>\n\n",
    image_token="<image_soft_token>",
    token_types="token_type_ids",
    vision_positions="model.vision_tower.embeddings.position_embedding.weight",
    no_flash={"language": "Flash Attention drops the bidirectional mask over image tokens"},
    scaled_size=scaled_size,
    image_tokens=image_tokens,
    image_bytes=image_bytes,
    pixel_values=pixel_values,
    limit_images=limit_images,
    scratch_processor=scratch_processor,
    scratch_config=scratch_config,
    layers=("Gemma3DecoderLayer", "SiglipEncoderLayer"),
    towers={"projector": r"model\.multi_modal_projector", "vision": r"model\.vision_tower"},
    linears={  # the projector is one bare matrix
        "language": LANGUAGE_LINEARS,
        "vision": Linears(
            r"model\.vision_tower\.encoder\.layers\.\d+\.(?:self_attn|mlp)",
            ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"),
        ),
    },
    vision_tower=vision_tower,
    see=see,
    mask=mask,
)
