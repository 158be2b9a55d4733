"""The records every stage meets through: frozen, raw, units in the names, missing is None.

Text forms of Target, Placement, Scenario and Recipe are in `core.text`; `str(record)` gives them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Literal

from .chart import Chart
from .energy import Energy
from .errors import EdgewiseError, InputError, WorkerCrashed

Level = Literal["note", "caution", "problem"]
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8")
PLACEMENT_KINDS = ("single", "deal", "split", "stages", "branches", "select")
# Placements that work on several frames at once.
STREAMS = ("deal", "stages")
# Placements that cut a graph between its operators; every part is a model of its own.
PIECEWISE = ("stages", "branches")
# Options of a placement as a whole: they stand with its first target, and no engine knows them.
PLACEMENT_OPTIONS = ("split", "shares", "cover", "workers", "gate")
SCENARIO_KINDS = ("single", "concurrent", "server", "offline")
CONTENTION_KINDS = ("compute", "memory", "cache")
INPUT_KINDS = ("noise", "white")
# The speed of a shared machine comes in phases of a tenth of a second: this is some twenty of them.
DEFAULT_MIN_S = 2.0


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output of a model. A dimension is a number, a name (symbolic), or None (unknown)."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True, slots=True)
class Preprocess:
    """How an image becomes a model's input. An image is 8 bits, RGB; its values are divided by `divide` first.

    The shorter side is brought to `resize`, the middle of `crop` is cut out; `squash` resizes to `crop` at once,
    whatever the proportions. 0 leaves the size alone. Mean and deviation are those of the channels in `order`. Class 0
    of the data is output `label_offset` of the model.
    """

    resize: int = 0
    crop: int = 0
    squash: bool = False
    interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear"
    divide: float = 255.0
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    order: Literal["rgb", "bgr"] = "rgb"
    layout: Literal["nchw", "nhwc"] = "nchw"
    label_offset: int = 0

    def __str__(self) -> str:
        from .preprocess import preprocess_text

        return preprocess_text(self)


@dataclass(frozen=True, slots=True)
class Model:
    """`preprocess` and `data` (the built-in data it was trained for) are what the file itself says of them."""

    digest: str
    path: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    precision: str = "fp32"
    recipe: str | None = None
    parent: str | None = None
    label: str = ""
    preprocess: Preprocess | None = None
    data: str | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """Cores of one kind: big or LITTLE, performance or efficiency."""

    name: str
    cores: tuple[int, ...]
    capacity: int | None = None
    max_hz: int | None = None
    threads_per_core: int = 1


@dataclass(frozen=True, slots=True)
class Device:
    """A processor as one engine sees it."""

    name: str
    kind: str
    label: str = ""
    cores: tuple[int, ...] = ()
    memory_bytes: int | None = None
    precisions: tuple[str, ...] = ("fp32",)
    # A composite device (OpenVINO's AUTO, MULTI, HETERO) only repeats others: it runs when asked for, not by default.
    composite: bool = False
    # A GPU imitated by the CPU (a software Vulkan driver): what it shows is that things work, not how fast they are.
    emulated: bool = False


@dataclass(frozen=True, slots=True)
class Cache:
    level: int
    kind: str
    size_bytes: int
    shared_by: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Accelerator:
    kind: str
    label: str
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    id: str
    label: str
    system: str
    cpu: str
    isa: tuple[str, ...]
    clusters: tuple[Cluster, ...]
    caches: tuple[Cache, ...] = ()
    memory_bytes: int | None = None
    governor: str | None = None
    virtual: bool = False
    accelerators: tuple[Accelerator, ...] = ()

    @property
    def cores(self) -> tuple[int, ...]:
        return tuple(sorted(core for cluster in self.clusters for core in cluster.cores))


@dataclass(frozen=True, slots=True)
class Target:
    """An engine on a device, with precision and threads."""

    engine: str
    device: str | None = None
    precision: str | None = None
    threads: int | None = None
    cores: tuple[int, ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.precision is not None and self.precision not in PRECISIONS:
            raise InputError(f"unknown precision {self.precision!r}; known: {', '.join(PRECISIONS)}")
        if self.threads is not None and self.threads < 1:
            raise InputError(f"a target needs at least one thread, found @{self.threads}")
        if len(set(self.cores)) != len(self.cores):
            raise InputError(f"a core is named twice in #{'+'.join(map(str, self.cores))}")

    def option(self, name: str) -> str | None:
        return dict(self.options).get(name)

    def __str__(self) -> str:
        from .text import target_text

        return target_text(self)


@dataclass(frozen=True, slots=True)
class Part:
    target: Target
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """A model laid over targets; the digest of a cut too large for text is `cut`."""

    kind: str
    parts: tuple[Part, ...]
    cut: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in PLACEMENT_KINDS:
            raise InputError(f"unknown placement {self.kind!r}; known: {', '.join(PLACEMENT_KINDS)}")
        # Models that are chosen between may all be on one target.
        if not self.parts or (self.kind != "select" and (self.kind == "single") != (len(self.parts) == 1)):
            raise InputError(f"a {self.kind} placement over {len(self.parts)} target(s) makes no sense")

    @classmethod
    def single(cls, target: Target) -> Placement:
        return cls("single", (Part(target),))

    @property
    def targets(self) -> tuple[Target, ...]:
        return tuple(part.target for part in self.parts)

    @property
    def alone(self) -> tuple[Target, ...]:
        """Its targets, each as it would be asked for by itself."""
        return tuple(
            replace(target, options=tuple(pair for pair in target.options if pair[0] not in PLACEMENT_OPTIONS))
            for target in self.targets
        )

    def __str__(self) -> str:
        from .text import placement_text

        return placement_text(self)


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """The passes applied to a model, in order."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        from .text import recipe_text

        return recipe_text(self)


@dataclass(frozen=True, slots=True)
class Contention:
    """`n` competing processes of one kind, on `cores` where given."""

    kind: str
    n: int
    cores: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in CONTENTION_KINDS:
            raise InputError(f"unknown contention {self.kind!r}; known: {', '.join(CONTENTION_KINDS)}")
        if self.n < 1:
            raise InputError(f"contention needs at least one process, found {self.n}")

    def __str__(self) -> str:
        from .text import contention_text

        return contention_text(self)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The load. Both minima must be met; either maximum ends it; between them the interval's width decides.

    `warmup` None means: until the series is steady. `width` is the relative width the 95 % interval of the
    median should reach; 0 means: run to the maximum. `input` is what the model is fed: seeded noise, or a white image.
    """

    kind: str = "single"
    batch: int = 1
    n: int = 1
    rate_hz: float | None = None
    warmup: int | None = None
    min_runs: int = 64
    max_runs: int | None = None
    min_s: float = DEFAULT_MIN_S
    max_s: float = 10.0
    width: float = 0.05
    contention: Contention | None = None
    cooldown_s: float = 0.0
    seed: int = 0
    input: str = "noise"

    def __post_init__(self) -> None:
        if self.kind not in SCENARIO_KINDS:
            raise InputError(f"unknown scenario {self.kind!r}; known: {', '.join(SCENARIO_KINDS)}")
        if self.input not in INPUT_KINDS:
            raise InputError(f"unknown input {self.input!r}; known: {', '.join(INPUT_KINDS)}")
        if min(self.batch, self.n, self.min_runs, 1 if self.max_runs is None else self.max_runs) < 1:
            raise InputError(f"batch, n, min_runs and max_runs must be at least 1 in scenario {self.kind!r}")
        if self.cooldown_s < 0:
            raise InputError(f"cooldown_s cannot be negative, found {self.cooldown_s}")
        if (self.kind == "server") != (self.rate_hz is not None):
            raise InputError("a server scenario has a rate_hz and no other has one", "--scenario 'server(rate_hz=100)'")
        if self.rate_hz is not None and not 0 < self.rate_hz <= 1e6:
            raise InputError(f"rate_hz must be between 0 and 1e6, found {self.rate_hz}")
        if self.n > 1 and self.kind not in ("concurrent", "server"):
            raise InputError(f"n={self.n} needs the scenario concurrent or server, found {self.kind!r}")
        if self.max_runs is not None and self.max_runs < self.min_runs:
            object.__setattr__(self, "min_runs", self.max_runs)
        if self.max_s < self.min_s == DEFAULT_MIN_S:
            object.__setattr__(self, "min_s", self.max_s)
        if not 0 <= self.min_s <= self.max_s:
            raise InputError(f"min_s ({self.min_s}) must lie between 0 and max_s ({self.max_s})")
        if not 0 <= self.width < 1:
            raise InputError(f"width is a fraction such as 0.05, found {self.width}")

    def with_batch(self, batch: int) -> Scenario:
        return replace(self, batch=batch)

    def __str__(self) -> str:
        from .text import scenario_text

        return scenario_text(self)


@dataclass(frozen=True, slots=True)
class Task:
    """Subject (a model's or a plan's digest), placement and scenario: the key of a result."""

    subject: str
    placement: Placement
    scenario: Scenario

    @property
    def digest(self) -> str:
        text = "\n".join((self.subject, str(self.placement), str(self.scenario)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Ran:
    """What the engine itself reports to have run: on which devices, how many operators in which precision.

    `expected_ns` is what a placement over several targets expected a frame to take when it chose how to divide it.
    """

    devices: tuple[str, ...] = ()
    precisions: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()
    expected_ns: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a target does with one operator of a model."""

    node: str
    operator: str
    verdict: Literal["supported", "falls back", "rejected", "wrong"]
    device: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far outputs are from the reference's, over all outputs together; raw sums, so ratios are derived.

    `max_abs` over `reference_max`, `rms` over `reference_rms`; `nonfinite` counts what only one side has finite.
    """

    max_abs: float
    reference_max: float
    rms: float
    reference_rms: float
    nonfinite: int
    elements: int

    @property
    def error(self) -> float:
        """Root mean square error relative to the reference's root mean square."""
        if self.nonfinite:
            return float("inf")
        if self.reference_rms == 0:
            return 0.0 if self.rms == 0 else float("inf")
        return self.rms / self.reference_rms


@dataclass(frozen=True, slots=True)
class Start:
    """One worker process: what it cost to get going, and what it turned out to be running.

    `load_ns` is for one copy of the model; `peak_bytes` up to and with the first run. The worker sat on `cores`;
    foreign CPU time in its rounds is counted over all `cpus` of the machine.
    """

    started_ns: int
    load_ns: int
    first_ns: int
    baseline_bytes: int | None
    ran: Ran
    agreement: Agreement | None = None
    peak_bytes: int | None = None
    cores: tuple[int, ...] = ()
    cpus: int | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """The unit of interleaving and of loss. `started_ns` is wall time since the epoch; all else is monotonic.

    Of a dealt stream, a sample is the delay of a frame: from when it and all before it were begun until it came out.
    `shares` are the frames each target worked on; empty where all work on every frame.
    """

    start: int
    warmup: bool
    started_ns: int
    elapsed_ns: int
    samples_ns: tuple[int, ...]
    cpu_ns: int | None = None
    foreign_ns: int | None = None
    stolen_ns: int | None = None
    clock_hz: int | None = None
    temperature_mc: int | None = None
    cache_misses: int | None = None
    peak_bytes: int | None = None
    late_ns: int | None = None
    shares: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Measurement:
    task: Task
    machine: str
    versions: tuple[tuple[str, str], ...]
    inputs: str
    starts: tuple[Start, ...]
    rounds: tuple[Round, ...]
    complete: bool = True
    label: str = ""
    energies: tuple[Energy, ...] = ()

    @property
    def measured(self) -> tuple[Round, ...]:
        return tuple(round for round in self.rounds if not round.warmup)

    @property
    def samples_ns(self) -> tuple[int, ...]:
        return tuple(sample for round in self.measured for sample in round.samples_ns)

    @property
    def peak_bytes(self) -> int | None:
        peaks = [start.peak_bytes for start in self.starts] + [round.peak_bytes for round in self.rounds]
        return max((peak for peak in peaks if peak is not None), default=None)


@dataclass(frozen=True, slots=True)
class Failure:
    task: Task
    machine: str
    stage: str
    error: str
    message: str
    hint: str | None = None
    stderr: str = ""
    label: str = ""

    @classmethod
    def of(cls, error: EdgewiseError, task: Task, machine: str, stage: str, label: str) -> Failure:
        stderr = error.stderr if isinstance(error, WorkerCrashed) else ""
        return cls(task, machine, stage, type(error).__name__, error.message, error.hint, stderr, label)


Result = Measurement | Failure
Scalar = int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class Finding:
    """What a result has to say for itself. Its sentence and remedy are made in `report`."""

    code: str
    level: Level
    about: str
    values: tuple[tuple[str, Scalar], ...] = ()

    def __getitem__(self, name: str) -> Scalar:
        return dict(self.values)[name]


@dataclass(frozen=True, slots=True)
class Column:
    """A table heading; `unit` tells `report.format` how to draw the raw values below it.

    Where there is not room for all, the columns with the largest `spare` are left out first; 0 is never left out.
    """

    name: str
    unit: str = "text"
    spare: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[object, ...], ...]
    findings: tuple[Finding, ...] = field(default=())
    charts: tuple[Chart, ...] = field(default=())
