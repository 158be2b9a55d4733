"""Text forms: `parse_x(str(x)) == x`.

target     engine[:device][:precision][@threads][#core+core]["{"key=value,..."}"]
placement  target | kind([n*]target[=share], ..., [cut=@digest])      n of them, each on the cores after the last one's
recipe     step[(key=value, ...)] | ...
scenario   kind[(field=value, ...)]            only what differs from the default is written
contention n*kind[#core+core]
duration   [n"h"][n"min"][n"s"]                read only
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import fields, replace

from .errors import InputError
from .types import (
    PLACEMENT_KINDS,
    PRECISIONS,
    Contention,
    Part,
    Placement,
    Recipe,
    Scenario,
    Step,
    Target,
)

_DEVICE = r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)?"
_TARGET = re.compile(
    r"(?P<engine>[a-z][a-z0-9_]*)"
    rf"(?::(?P<device>{_DEVICE}(?:\({_DEVICE}(?:\+{_DEVICE})*\))?))?"
    r"(?::(?P<precision>[a-z0-9]+))?"
    r"(?:@(?P<threads>[0-9]{1,9}))?"
    r"(?:#(?P<cores>[0-9]{1,9}(?:\+[0-9]{1,9})*))?"
    r"(?:\{(?P<options>[^{}]*)\})?"
)
_TARGET_FORM = "engine:device:precision@threads#core+core{option=value}, such as ort:cpu:fp32@2"
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
# Parts alike on successive cores are written as one from so many on, and no more at once than can be read.
_FOLDED, _MOST = 3, 999


def split_outside(text: str, separator: str) -> Iterator[str]:
    """Pieces of `text` between separators that no bracket encloses."""
    depth, begin = 0, 0
    for i, char in enumerate(text):
        if char in "({":
            depth += 1
        elif char in ")}":
            depth -= 1
        elif char == separator and depth == 0:
            yield text[begin:i].strip()
            begin = i + 1
    yield text[begin:].strip()


def _call(text: str, what: str) -> tuple[str, list[str]]:
    """`name(a, b)` or `name`: the name and the pieces between the brackets."""
    match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
    if not match:
        raise InputError(f"{text!r} is not a {what}; expected name or name(key=value, ...)")
    inner = match[2]
    return match[1], [] if inner is None or not inner.strip() else list(split_outside(inner, ","))


def _pairs(pieces: list[str], what: str) -> list[tuple[str, str]]:
    pairs = []
    for piece in pieces:
        key, equals, value = piece.partition("=")
        key, value = key.strip(), value.strip()
        if not equals or not _WORD.fullmatch(key) or not value:
            raise InputError(f"{piece!r} in {what} is not key=value")
        pairs.append((key, value))
    if len({key for key, _ in pairs}) != len(pairs):
        raise InputError(f"a key appears twice in {what}: {', '.join(pieces)}")
    return pairs


def parse_call(text: str, what: str) -> tuple[str, list[tuple[str, str]]]:
    """`name(key=value, ...)` or `name`: the name and its pairs."""
    name, pieces = _call(text, what)
    return name, _pairs(pieces, f"{what} {name!r}")


def _cores(text: str | None) -> tuple[int, ...]:
    return tuple(int(core) for core in text.split("+")) if text else ()


def parse_target(text: str) -> Target:
    match = _TARGET.fullmatch(text.strip())
    if not match:
        raise InputError(f"{text!r} is not a target; expected {_TARGET_FORM}", "edgewise devices")
    device, precision = match["device"], match["precision"]
    if precision is None and device in PRECISIONS:
        device, precision = None, device
    options = match["options"]
    pairs = _pairs([p for p in split_outside(options, ",") if p], f"the options of {text!r}") if options else []
    return Target(
        engine=match["engine"],
        device=device,
        precision=precision,
        threads=int(match["threads"]) if match["threads"] else None,
        cores=_cores(match["cores"]),
        options=tuple(sorted(pairs)),
    )


def target_text(target: Target) -> str:
    text = target.engine
    if target.device:
        text += f":{target.device}"
    if target.precision:
        text += f":{target.precision}"
    if target.threads:
        text += f"@{target.threads}"
    if target.cores:
        text += "#" + "+".join(map(str, target.cores))
    if target.options:
        text += "{" + ",".join(f"{key}={value}" for key, value in target.options) + "}"
    return text


def _number(value: float) -> str:
    return repr(int(value)) if float(value).is_integer() else repr(value)


def _parse_number(text: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise InputError(f"{text!r} is not a number in {what}") from None
    if not math.isfinite(number):
        raise InputError(f"{text!r} is not a finite number in {what}")
    return number


def parse_placement(text: str) -> Placement:
    head = re.match(r"\s*([a-z]+)\s*\(", text)
    if not head or head[1] not in PLACEMENT_KINDS[1:]:
        return Placement.single(parse_target(text))
    kind, pieces = _call(text, "placement")
    parts: list[Part] = []
    cut = None
    for piece in pieces:
        if piece.startswith("cut=@"):
            cut = piece.removeprefix("cut=@")
            if not re.fullmatch(r"[0-9a-f]{6,64}", cut):
                raise InputError(f"{piece!r} does not name a cut; expected cut=@ and a hexadecimal digest")
            continue
        count = re.match(r"([0-9]{1,3})\s*\*\s*", piece)
        *rest, last = split_outside(piece[count.end() :] if count else piece, "=")
        share = _parse_number(last, f"the share of {piece!r}") if rest else None
        part = Part(parse_target("=".join(rest) if rest else last), share)
        parts += [_beside(part, place) for place in range(int(count[1]) if count else 1)]
    return Placement(kind, tuple(parts), cut)


def _beside(part: Part, place: int) -> Part:
    """The part that comes `place` after this one: the same on as many cores, which follow its own."""
    cores = part.target.cores
    return replace(part, target=replace(part.target, cores=tuple(core + place * len(cores) for core in cores)))


def placement_text(placement: Placement) -> str:
    if placement.kind == "single":
        return str(placement.parts[0].target)
    pieces, left = list[str](), placement.parts
    while left:
        first, count = left[0], 1
        while first.target.cores and count < min(len(left), _MOST) and left[count] == _beside(first, count):
            count += 1
        # Two are as easily read one by one.
        count = count if count >= _FOLDED else 1
        share = "" if first.share is None else f"={_number(first.share)}"
        pieces.append(f"{count}*{first.target}{share}" if count > 1 else f"{first.target}{share}")
        left = left[count:]
    if placement.cut:
        pieces.append(f"cut=@{placement.cut}")
    return f"{placement.kind}({', '.join(pieces)})"


def parse_recipe(text: str) -> Recipe:
    steps = []
    for piece in split_outside(text, "|"):
        name, pairs = parse_call(piece, "recipe step")
        steps.append(Step(name, tuple(pairs)))
    return Recipe(tuple(steps))


def recipe_text(recipe: Recipe) -> str:
    def step(s: Step) -> str:
        options = ", ".join(f"{key}={value}" for key, value in s.options)
        return f"{s.name}({options})" if options else s.name

    return " | ".join(map(step, recipe.steps))


def parse_contention(text: str) -> Contention:
    match = re.fullmatch(r"(?:([0-9]{1,9})\*)?([a-z]+)(?:#([0-9]{1,9}(?:\+[0-9]{1,9})*))?", text.strip())
    if not match:
        raise InputError(f"{text!r} is not a contention; expected such as 2*compute or 1*memory#0")
    return Contention(match[2], int(match[1] or 1), _cores(match[3]))


def contention_text(contention: Contention) -> str:
    pinned = "#" + "+".join(map(str, contention.cores)) if contention.cores else ""
    return f"{contention.n}*{contention.kind}{pinned}"


_DURATION = re.compile(r"(?:(?P<h>[0-9.]{1,9})h)?(?:(?P<min>[0-9.]{1,9})min)?(?:(?P<s>[0-9.]{1,9})s)?")
_DURATION_S = {"h": 3600.0, "min": 60.0, "s": 1.0}


def parse_duration(text: str) -> float:
    """Seconds: `90s`, `20min`, `1h30min`."""
    match = _DURATION.fullmatch(text.strip().replace(" ", ""))
    try:
        found = sum(float(match[unit] or 0) * scale for unit, scale in _DURATION_S.items()) if match else 0.0
    except ValueError:
        found = 0.0
    if found <= 0:
        raise InputError(f"{text!r} is not a time; expected such as 90s, 20min or 1h30min")
    return found


_INTEGERS = {"batch", "n", "warmup", "min_runs", "max_runs", "seed"}
_SCENARIO_FIELDS = {f.name: f for f in fields(Scenario) if f.name != "kind"}


def parse_scenario(text: str) -> Scenario:
    kind, pairs = parse_call(text, "scenario")
    values: dict[str, object] = {}
    for key, value in pairs:
        if key not in _SCENARIO_FIELDS:
            raise InputError(f"a scenario has no {key!r}; it has {', '.join(_SCENARIO_FIELDS)}")
        if key == "contention":
            values[key] = parse_contention(value)
        elif key == "input":
            values[key] = value
        elif key in _INTEGERS:
            if not re.fullmatch(r"[0-9]{1,18}", value):
                raise InputError(f"{key} is a whole number, found {value!r}")
            values[key] = int(value)
        else:
            values[key] = _parse_number(value, f"{key} of scenario {kind!r}")
    return Scenario(kind, **values)  # type: ignore[arg-type]


def scenario_text(scenario: Scenario) -> str:
    written = []
    for name, spec in _SCENARIO_FIELDS.items():
        value = getattr(scenario, name)
        if value != spec.default:
            written.append(f"{name}={_number(value) if isinstance(value, float) else value}")
    return f"{scenario.kind}({', '.join(written)})" if written else scenario.kind
