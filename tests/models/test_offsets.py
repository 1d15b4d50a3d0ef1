"""Where each token of a text was written."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.load import load_model
from models.offsets import token_starts
from models.tokens import answer_encoding
from recipes.loader import load_recipe


@pytest.fixture(scope="module", params=["tiny_qwen3_vl", "tiny_gemma3"])
def loaded(request):
    return load_model(load_recipe(["recipe=quickstart", f"model={request.param}"]).model, seed=0, dtype=torch.float32)


@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet=st.sampled_from('[],0123456789 "x\né漢😀'), min_size=1, max_size=40))
def test_tokens_start_where_their_characters_do(loaded, text):
    ids, spans = answer_encoding(loaded, text)
    starts = token_starts(loaded.processor.tokenizer, ids)
    assert len(starts) == len(ids)
    assert starts[0] == 0
    decoded = loaded.processor.tokenizer.decode(ids[:-1], clean_up_tokenization_spaces=False)
    assert starts[-1] == len(decoded)  # the end of turn comes after all
    if decoded == text:
        whole = [at for at, (start, _) in enumerate(spans) if start < len(text) and text[start].isascii()]
        assert [starts[at] for at in whole] == [spans[at][0] for at in whole]
