"""Images on their way to a model: scaled bytes until they reach its device, floats only there.

transformers' processors scale an image, make floats of it and cut patches, all on the CPU; for Qwen3-VL that is eight
times the image's bytes, which the rest of the way then carries. Here the same work is cut in two behind the scaling.
Both halves call what the processors call, so the floats are theirs to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torchvision.transforms.v2 import functional
from transformers.image_utils import pil_torch_interpolation_mapping


def scaled_bytes(image_processor: Any, image: np.ndarray, width: int, height: int) -> torch.Tensor:
    """An image as the processor scales it to width x height px.

    Args:
        image: RGB, uint8 (rows, columns, 3); of the wanted size it is not copied.

    Returns:
        uint8 (height, width, 3), contiguous.
    """
    # The colours of a pixel stay together: torch scales that faster than three planes, to the same bytes.
    scaled = functional.resize(
        torch.from_numpy(image).permute(2, 0, 1),
        [height, width],
        interpolation=pil_torch_interpolation_mapping[image_processor.resample],
        antialias=True,
    )
    return scaled.permute(1, 2, 0).contiguous()


def joined(parts: list[torch.Tensor]) -> torch.Tensor:
    """torch.cat, without the copy that it makes of a single tensor: a large sheet is 33 MB, as floats 263 MB."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def normalised(image_processor: Any, images: torch.Tensor) -> torch.Tensor:
    """uint8 (images, height, width, 3) as the float32 (images, 3, height, width) that the processor makes of them."""
    return image_processor.rescale_and_normalize(
        images.permute(0, 3, 1, 2).contiguous(),
        image_processor.do_rescale,
        image_processor.rescale_factor,
        image_processor.do_normalize,
        tuple(image_processor.image_mean),
        tuple(image_processor.image_std),
    )
