"""train/sft.py as a user starts it, but it also says what its processes hold, and can take images away.

The environment variable TEXT_ONLY, if set, makes a conversation without an image of every puzzle of odd number.
"""

import os
import sys
from dataclasses import replace

import torch
from torch.distributed.tensor import DTensor

from train import sft
from train.batches import Collator
from train.script import run

if os.environ.get("TEXT_ONLY"):
    encode = Collator.encode

    def without_images(self, posed, images):
        if posed.index % 2 == 0:
            return encode(self, posed, images)
        messages = [
            {**message, "content": [part for part in message["content"] if part["type"] == "text"]}
            for message in posed.puzzle.messages
        ]
        return encode(self, replace(posed, puzzle=replace(posed.puzzle, messages=messages)), [])

    Collator.encode = without_images

prepared = sft.prepare(sys.argv[1:])
parameters = list(prepared.trainer.model.parameters())
shared = {
    "fsdp2": sum(isinstance(parameter, DTensor) for parameter in parameters),
    "zero3": sum(hasattr(parameter, "ds_tensor") for parameter in parameters),
}
print(f"of {len(parameters)} parameters are shared: {shared}", flush=True)
status = run(*prepared)
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
sys.exit(status)
