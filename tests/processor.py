"""What the processor under the tests computes rightly: models are quantized for it, as `edgewise` itself does."""

from __future__ import annotations

from edgewise.optimize.quantize.options import saturates
from edgewise.system.machine import machine

# Where sums of 8-bit products saturate, ONNX Runtime is off with 8-bit weights by up to a third of the answers.
VNNI = not saturates(machine())
