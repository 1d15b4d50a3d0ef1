"""How a checkpoint is judged: ask it, score the answers, keep records, show them."""
