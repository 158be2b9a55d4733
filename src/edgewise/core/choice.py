"""What choosing a model for each input is about: the candidates, what was chosen, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from .types import Target


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model on a target. `run_ns` is one inference of one image, `prepare_ns` what making an image its input takes;
    `energy_uj` is None where nothing measured it."""

    label: str
    model: str
    target: Target
    preprocess: str
    run_ns: float
    prepare_ns: float
    memory_bytes: int | None = None
    energy_uj: float | None = None

    @property
    def name(self) -> str:
        return f"{self.label} on {self.target}"

    def cost(self, objective: str) -> float:
        """Of one image: `time` in nanoseconds without preparing, `energy` in microjoules, `memory` in bytes."""
        found = {"time": self.run_ns, "energy": self.energy_uj, "memory": self.memory_bytes}[objective]
        if found is None:
            raise ValueError(f"the {objective} of {self.name} was not measured")
        return float(found)
