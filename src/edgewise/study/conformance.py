"""The conformance suite on one engine, in a worker: a crash costs the check it happened in, and the rest goes on."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..core.errors import EngineFailure
from ..core.records import from_json, to_json
from ..engines.conformance import CHECKS, Outcome, check
from ..measure import isolate

_TIMEOUT_S = 300.0


def conformance(engine: str, device: str | None = None) -> Iterator[Outcome]:
    """Outcomes in the order of the checks."""
    done = 0
    while done < len(CHECKS):
        with tempfile.TemporaryDirectory() as scratch:
            journal = Path(scratch) / "outcomes.jsonl"
            crash: EngineFailure | None = None
            try:
                isolate.call(
                    "edgewise.study.conformance:write_outcomes",
                    timeout_s=_TIMEOUT_S,
                    engine_name=engine,
                    device=device,
                    scratch=scratch,
                    journal=str(journal),
                    first=done,
                )
            except EngineFailure as error:
                crash = error
            lines = journal.read_text().splitlines() if journal.exists() else []
            for line in lines:
                yield from_json(Outcome, json.loads(line))
            done += len(lines)
            if crash is None:
                return
            if done < len(CHECKS):
                yield Outcome(CHECKS[done].name, "fail", crash.message)
                done += 1


def write_outcomes(engine_name: str, device: str | None, scratch: str, journal: str, first: int) -> None:
    """Worker side: each outcome is on disk before the next check begins."""
    with open(journal, "a", encoding="utf-8") as file:
        for outcome in check(engine_name, device=device, scratch=Path(scratch), first=first):
            file.write(json.dumps(to_json(outcome)) + "\n")
            file.flush()
