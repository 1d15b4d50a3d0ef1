"""The dataset card: what an export holds, for people and for `datasets.load_dataset`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from data_mix.export.plan import Plan
from data_mix.export.rows import FEATURES, read_columns
from recipes.strict_yaml import dump_yaml


@dataclass(frozen=True)
class Held:
    """What the finished shards hold."""

    rows: dict[str, int]
    """By part."""
    ambiguous: dict[str, int]
    """Rows with more than one right answer, by part."""
    num_bytes: int
    """Of all shards."""

    @property
    def share_ambiguous(self) -> float:
        return sum(self.ambiguous.values()) / sum(self.rows.values())


def held(folder: Path, plan: Plan) -> Held:
    """Count what is in the shards, images left alone."""
    rows, ambiguous = dict.fromkeys(plan.counts, 0), dict.fromkeys(plan.counts, 0)
    num_bytes = 0
    for shard in plan.shards:
        found = read_columns(folder / shard.file, ["part", "ambiguous"])
        num_bytes += (folder / shard.file).stat().st_size
        for part, unsure in zip(found["part"], found["ambiguous"], strict=True):
            rows[part] += 1
            ambiguous[part] += unsure
    return Held(rows, ambiguous, num_bytes)


def card(name: str, plan: Plan, found: Held) -> str:
    """README.md of an export of the recipe `name`."""
    header = {
        "configs": [
            {"config_name": "default", "data_files": [{"split": plan.split, "path": f"data/{plan.split}-*.parquet"}]}
        ],
        "dataset_info": {"features": FEATURES._to_yaml_list()},
        "tags": ["image", "text"],
    }
    lines = ["| part | task | rows | ambiguous |", "|---|---|---|---|"]
    for part, count in found.rows.items():
        task = plan.recipe["parts"][part]["task"]
        lines.append(f"| {part} | {task} | {count} | {_percent(found.ambiguous[part] / count)} |")
    return _CARD.format(
        header=yaml.safe_dump(header, sort_keys=False).strip(),
        name=name,
        split=plan.split,
        rows=sum(found.rows.values()),
        megabytes=f"{found.num_bytes / 1e6:.1f}",
        parts="\n".join(lines),
        ambiguous=_percent(found.share_ambiguous),
        recipe=dump_yaml(plan.recipe).strip(),
        versions=", ".join(
            [
                *(f"task {each}" for each in _pairs(plan.versions["tasks"])),
                *_pairs(plan.versions["packages"]),
            ]
        ),
    )


def _pairs(versions: Mapping[str, object]) -> list[str]:
    return [f"{name} {version}" for name, version in versions.items()]


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


_CARD = """\
---
{header}
---

# {name}, {split}

Visual puzzles whose answers can be checked, made by jigshape-train: {rows} rows, {megabytes} MB.

{parts}

An example is ambiguous where another answer is as right as the stored one, as far as the task's quick check sees; of
all rows {ambiguous} are.

## Columns
| column | holds |
|---|---|
| `key` | names the puzzle: equal key, equal bytes |
| `task`, `version` | the task and the version of its prompt, reading and scores |
| `part`, `split`, `index` | the recipe's part, the photos' split, the place within the part |
| `photo_id` | digest of the photo's file (@ a crop's left, top, right, bottom); null where nothing is cut |
| `seed` | draws the puzzle |
| `spec` | JSON: the kind of puzzle |
| `messages` | JSON: the turns, `{{"type": "image"}}` where each image stands |
| `images` | in the order of their places, lossless |
| `target` | JSON: all that a scorer needs |
| `answer` | the reference answer as text |
| `signatures` | JSON: the edges [top, right, bottom, left] of each piece by id, or null |
| `ambiguous` | see above |

## Made from
```yaml
{recipe}
```
Versions: {versions}. The photos are pinned by their digests in manifest.json of the exported folder.

## Rights of the photos
To be filled in by who publishes this: where the photos are from, who made them and under which licence.
"""
