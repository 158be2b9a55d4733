"""Whether what was asked for ran where it was asked for."""

from __future__ import annotations

import pytest
from planted import machine, measured, noise

from edgewise.analyze import summary
from edgewise.analyze.evidence import Evidence
from edgewise.core.types import Ran

GPU = "torch:cuda.0:fp32"
BOTH = Ran(("cuda.0", "CPU"), notes=("12 operators on the CPU",))


@pytest.mark.parametrize(
    ("target", "ran", "told"),
    [
        (GPU, BOTH, True),
        (GPU, Ran(("cuda.0",)), False),
        (f"deal({GPU}, ort:cpu:fp32@1)", BOTH, False),
        (f"deal({GPU}, torch:cuda.0:fp16)", BOTH, True),
    ],
)
def test_a_device_that_nobody_asked_for_is_told(target: str, ran: Ran, told: bool) -> None:
    found = measured(target, noise(5e6), scenario="offline" if target.startswith("deal") else "single", ran=ran)
    section = summary.run(Evidence(machines={"m": machine()}, measurements=(found,)))
    assert told == any(finding.code == "fell_back" for finding in section.findings)
