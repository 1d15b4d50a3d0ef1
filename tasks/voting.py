"""One answer out of several, for tasks whose answers are right or wrong as a whole."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any


def majority(answers: Sequence[Any], spec: Any) -> Any:
    """The answer that was given most often; of several such, the one that was given first.

    answers: at least one.
    """
    written = [json.dumps(answer) for answer in answers]
    most = Counter(written).most_common(1)[0][0]  # among equals the first that was counted
    return answers[written.index(most)]
