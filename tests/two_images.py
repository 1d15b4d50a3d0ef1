"""A dataset of puzzles with one image, and with two of other sizes."""

import json
from pathlib import Path

import datasets
import numpy as np
from PIL import Image

from data_mix.streams import stream


def save(folder: Path) -> Path:
    """Four 2x2 puzzles of noise, two of each kind; the part of a recipe that reads them is `part`."""
    noise = [
        Image.fromarray(stream("noise", at).integers(0, 256, (40 + 32 * at, 48, 3), dtype=np.uint8)) for at in range(4)
    ]
    answer = json.dumps({str(piece): [piece // 2, piece % 2] for piece in range(4)})
    rows = [
        {"images": images, "response": answer, "messages": json.dumps([{"role": "user", "content": content}])}
        for images in ([noise[0]], noise[:2], noise[1:3], [noise[3]])
        for content in [[*[{"type": "image"}] * len(images), {"type": "text", "text": "Where is each piece?"}]]
    ]
    made = datasets.Dataset.from_list(rows).cast_column("images", datasets.List(datasets.Image()))
    made.to_parquet(folder / "rows.parquet")
    return folder


def part(folder: Path) -> str:
    """As an override, of a part by the name of rows."""
    columns = "{answer: response, messages: messages}"
    dataset = f"{{name: '{folder}', columns: {columns}}}"
    return f"data.parts.rows={{task: jigshape, spec: {{grid: 2}}, count: 4, dataset: {dataset}}}"
