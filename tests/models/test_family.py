"""Attention per tower, image token arithmetic and image limits."""

from __future__ import annotations

import pytest
from transformers import Qwen2VLImageProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor

from models import FAMILIES
from recipes.loader import load_recipe
from recipes.schema import Attention, ImageSize
from tasks.jigshape.geometry import image_sizes
from tasks.jigshape.spec import Spec

FLASH = "flash_attention_2"


@pytest.mark.parametrize(
    ("family", "asked", "flash", "language", "vision"),
    [
        ("qwen3_vl", Attention(), True, FLASH, FLASH),
        ("qwen3_vl", Attention(), False, "sdpa", "sdpa"),
        ("qwen3_vl", Attention(language="eager", vision="sdpa"), True, "eager", "sdpa"),
        ("qwen3_vl", Attention(language=FLASH, vision=FLASH), True, FLASH, FLASH),
        ("gemma3", Attention(), True, "sdpa", FLASH),
        ("gemma3", Attention(), False, "sdpa", "sdpa"),
        ("gemma3", Attention(language="eager"), True, "eager", FLASH),
        ("gemma3", Attention(language="sdpa", vision=FLASH), True, "sdpa", FLASH),
    ],
)
def test_each_tower_gets_the_attention_that_it_may_have(family, asked, flash, language, vision):
    resolved, lines = FAMILIES[family].resolve_attention(asked, flash=flash)
    assert resolved == {"": language, "text_config": language, "vision_config": vision}
    assert [line.split(" (")[0] for line in lines] == [
        f"attention, language tower: {language}",
        f"attention, vision tower: {vision}",
    ]


def test_gemma_says_why_its_language_tower_does_not_use_flash_attention():
    _, lines = FAMILIES["gemma3"].resolve_attention(Attention(), flash=True)
    assert "drops the bidirectional mask" in lines[0]


@pytest.mark.parametrize("flash", [True, False])
def test_flash_attention_over_gemmas_language_is_refused_with_the_reason(flash):
    with pytest.raises(ValueError, match=r"bidirectional mask.*set model\.attention\.language=sdpa"):
        FAMILIES["gemma3"].resolve_attention(Attention(language=FLASH), flash=flash)


@pytest.mark.parametrize("tower", ["language", "vision"])
def test_flash_attention_that_cannot_run_here_is_refused_with_what_to_do(tower):
    with pytest.raises(ValueError, match=rf"install flash-attn or set model\.attention\.{tower}=auto"):
        FAMILIES["qwen3_vl"].resolve_attention(Attention(**{tower: FLASH}), flash=False)


def test_towers_of_a_built_model_use_what_was_resolved(model, build):
    asked = model.model_copy(update={"attention": Attention(language="eager", vision="sdpa")})
    config = build(asked).model.config
    assert config.text_config._attn_implementation == "eager"
    assert config.vision_config._attn_implementation == "sdpa"


def test_every_vision_token_is_one_id_of_its_own(loaded):
    ids = loaded.family.vision_token_ids(loaded.processor)
    assert len(set(ids)) == len(loaded.family.vision_tokens)
    assert loaded.processor.tokenizer.convert_ids_to_tokens(ids) == list(loaded.family.vision_tokens)
    assert not set(ids) & set(loaded.family.stop_token_ids(loaded.processor))


@pytest.mark.parametrize(
    ("size", "tokens"), [((724, 744), 529), ((1700, 1720), 2862), ((2500, 2520), 6162), ((3292, 3312), 10712)]
)
def test_published_sheets_cost_the_known_image_tokens_in_qwen(size, tokens):
    family, image = FAMILIES["qwen3_vl"], ImageSize(min_px=65536, max_px=16777216)
    assert family.image_tokens(family.scratch_processor(["text"], image), *size) == tokens


def test_an_image_too_narrow_for_qwen_is_refused_with_its_size(qwen):
    with pytest.raises(ValueError, match=r"got an image of 2010x10 px.*1:200"):
        qwen.family.image_tokens(qwen.processor, 2010, 10)
    assert qwen.family.image_tokens(qwen.processor, 2000, 10) > 0


@pytest.mark.parametrize(
    "image", [ImageSize(), ImageSize(min_px=1024), ImageSize(min_px=2, max_px=1), ImageSize(side_px=112)]
)
def test_qwen_needs_both_areas(image, qwen):
    with pytest.raises(ValueError, match=r"set model\.image\.min_px and model\.image\.max_px"):
        qwen.family.limit_images(qwen.processor, qwen.model.config, image)


@pytest.mark.parametrize("image", [ImageSize(), ImageSize(min_px=1024, side_px=112), ImageSize(side_px=224)])
def test_gemma_needs_the_side_that_its_vision_tower_was_built_for(image, gemma):
    with pytest.raises(ValueError, match=r"set model\.image\.side_px"):
        gemma.family.limit_images(gemma.processor, gemma.model.config, image)


def test_a_processor_made_of_class_defaults_is_refused(qwen):
    defaults = Qwen3VLProcessor(Qwen2VLImageProcessor(), qwen.processor.tokenizer, Qwen3VLVideoProcessor())
    with pytest.raises(ValueError, match=r"preprocessor_config\.json"):
        qwen.family.limit_images(defaults, qwen.model.config, ImageSize(min_px=1024, max_px=16384))


@pytest.mark.parametrize("size", [(40, 90), (500, 300), (64, 64)])
def test_scaled_sizes_are_those_of_the_processors_own_pixels(qwen, picture, size):
    images = qwen.processor.image_processor
    _, rows, columns = images([picture(*size)], return_tensors="pt")["image_grid_thw"][0].tolist()
    assert qwen.family.scaled_size(qwen.processor, *size) == (columns * images.patch_size, rows * images.patch_size)


def test_gemma_scales_every_image_to_its_square(gemma, picture):
    pixels = gemma.processor.image_processor([picture(50, 300)], return_tensors="pt")["pixel_values"]
    assert gemma.family.scaled_size(gemma.processor, 50, 300) == tuple(pixels.shape[:1:-1]) == (112, 112)


@pytest.mark.parametrize("input_", ["sheet", "pieces"])
@pytest.mark.parametrize("grid", [2, 4, 8, 12, 16])
def test_qwens_processor_resamples_nothing_of_an_aligned_layout(grid, input_):
    limits = load_recipe(["recipe=mixed_grid"]).model.image
    family, image = FAMILIES["qwen3_vl"], ImageSize(min_px=1024, max_px=limits.max_px)
    processor = family.scratch_processor(["text"], image)
    for size in set(image_sizes(Spec(grid=grid, layout="aligned", input=input_))):
        assert family.scaled_size(processor, *size) == size
        assert family.image_tokens(processor, *size) == size[0] * size[1] // 32**2
