"""What is left of a core's caches where another model ran: little.

A model that is run over and over finds itself there. In a chooser another one ran before it most of the time, and some
pages of its weights have to be fetched again: a small one takes half as long again. Rather than with each of the others
in turn, candidates are run after memory was read that is more than a core keeps for itself, and less than what cores
share: where others' weights fill that, too, it is not seen.
"""

from __future__ import annotations

import numpy as np

_BYTES = 4 << 20


class Others:
    """In the place of other models."""

    def __init__(self) -> None:
        self._memory = np.ones(_BYTES // 8)

    def run(self) -> None:
        self._memory.sum()
