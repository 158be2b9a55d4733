"""What is said about optimized models."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number


def _optimized(v: Values) -> str:
    text = (
        f"{v['recipe']} takes {format.cell(v['ratio'], 'ratio')} "
        f"[{format.cell(v['low'], 'ratio')}, {format.cell(v['high'], 'ratio')}] of the time"
    )
    if v["weights"] is not None:
        text += f" and {format.cell(v['weights'], 'ratio')} of the weights' bytes"
    if v["loss"] is not None:
        where = "images nothing was decided on" if v["held"] else "images decisions rest on"
        loss = 100 * number(v["loss"])
        most = 100 * number(v["loss_high"])
        sure = f"at 95 % ({v['images']} {where})"
        if round(loss, 2) >= 0:
            text += f", and loses {abs(loss):.2f} points of top-1, at most {most:.2f} {sure}"
        elif most > 0:
            text += f", and gains {-loss:.2f} points of top-1, losing at most {most:.2f} {sure}"
        else:
            text += f", and gains {-loss:.2f} points of top-1, at least {-most:.2f} {sure}"
    return text


def _brought(v: Values) -> str:
    text = f"{v['step']}: {format.cell(v['ratio'], 'ratio')} of the time before it"
    if v["weights"] is not None:
        text += f", {format.cell(v['weights'], 'ratio')} of the bytes"
    if v["loss"] is not None:
        loss = 100 * number(v["loss"])
        # Rounded, so that no less than nothing is lost.
        text += f", {-loss:.2f} points gained" if round(loss, 2) < 0 else f", {abs(loss):.2f} points lost"
    return text


def _not_optimized(v: Values) -> str:
    text = (
        f"none of {v['tried']} recipes is quicker and known to lose no more than {100 * number(v['max_loss']):g} points"
    )
    bounds = (("max_weight_bytes", "bytes", "of weights"), ("max_memory_bytes", "bytes", "of memory"))
    limits = [f"{format.cell(v[key], unit)} {what}" for key, unit, what in bounds if v.get(key) is not None]
    if v.get("max_p50_ns") is not None:
        limits.append(format.cell(v["max_p50_ns"], "ns"))
    return f"{text} within {', '.join(limits)}" if limits else text


SENTENCES: Sentences = {
    "calibrated_on_noise": (
        lambda v: "8 bits were fitted to made-up inputs: on real ones answers may be far off",
        "--data FOLDER, which may be images without labels",
    ),
    "layers_unseen": (lambda v: f"which layers mind being quantized is not known: {v['reason']}", None),
    "optimized": (_optimized, None),
    "not_optimized": (
        _not_optimized,
        "allow more with --max-loss, or give it more images: intervals become narrower",
    ),
    "nothing_gains": (
        lambda v: (
            f"nothing helps here: of {v['tried']} recipes none makes it quicker beyond chance, or smaller and "
            "not slower; as it is, it is the best there is"
        ),
        "other engines and thread counts may be quicker: edgewise tune MODEL",
    ),
    "recipe_refused": (lambda v: f"{v['reason']}", None),
    "search_ended": (lambda v: f"{v['reason']}", "the same command again goes on where it was"),
    "step_brought": (_brought, None),
    "step_brought_nothing": (lambda v: f"{_brought(v)}: it brings nothing here", None),
}
