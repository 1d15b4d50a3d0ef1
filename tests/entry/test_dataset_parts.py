"""train/sft.py with parts out of datasets, started for real."""

import json

import datasets
import numpy as np
from PIL import Image

from data_mix.streams import stream
from eval_hooks.records import read_records

SPEC = "{grid: 4, piece_px: 8, tab_ratio: 0.3}"
PLAIN = "{grid: 4, piece_px: 8, tab_ratio: 0.3, shape: false}"


def test_puzzles_pairs_rows_and_conversations_train_together(launch, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    images = [
        Image.fromarray(stream("noise", at).integers(0, 256, (40, 48 + at, 3), dtype=np.uint8)) for at in range(8)
    ]
    answer = json.dumps({str(piece): [piece // 2, piece % 2] for piece in range(4)})
    turns = [{"role": "user", "content": "What is this?"}, {"role": "assistant", "content": "It is noise."}]
    for split in ("train", "held"):
        rows = datasets.Dataset.from_dict(
            {"images": [[image] for image in images], "response": [answer] * 8, "messages": [json.dumps(turns)] * 8}
        )
        rows = rows.cast_column("images", datasets.List(datasets.Image()))
        (tmp_path / split).mkdir()
        rows.to_parquet(tmp_path / split / "rows.parquet")
    rows = "{{task: jigshape, spec: {{grid: 2}}, count: 4, dataset: {{name: {}, columns: {{answer: response}}}}}}"
    chat = "{{task: chat, count: 4, dataset: {{name: {}, columns: {{messages: messages}}}}}}"
    done = launch(
        "train/sft.py", "recipe=mixed_grid", "model=tiny_qwen3_vl", "data.photos.use=reuse", "wandb.mode=disabled",
        "data.parts.8x8=null", "data.parts.12x12=null", "data.parts.16x16=null", "data.parts.4x4.count=4",
        f"data.parts.4x4.spec={SPEC}",
        f"data.parts.plain={{task: jigshape, spec: {PLAIN}, count: 4, paired_with: 4x4}}",
        f"data.parts.rows={rows.format('train')}", f"data.parts.chat={chat.format('train')}",
        f"eval.parts={{rows: {rows.format('held')}, chat: {chat.format('held')}}}",
        "train.effective_batch=4", "train.workers=2", "trainer.max_steps=4",
        "eval.count=0", "eval.final_count=2", "output_dir=run",
    )  # fmt: skip
    for part in ("4x4", "plain", "rows", "chat"):
        assert f"part {part}: 4 examples measured" in done.stderr
    assert "4 rows of train as puzzles of chat; passed over: 0 rows of another kind" in done.stderr
    records = read_records(tmp_path / "run/records/final.jsonl").records
    assert [record.part for record in records] == ["rows", "rows", "chat", "chat"]
    assert "sc" not in records[0].scores
    assert records[2].scores.keys() == {"match", "valid"}
    assert not (tmp_path / "run/pictures").exists()
