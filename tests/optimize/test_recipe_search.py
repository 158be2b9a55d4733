"""Recipes one after the other, against made-up networks whose answers are known."""

import re
from collections.abc import Callable

import pytest

from edgewise.optimize.search import DYNAMIC, HALVED, QUANTIZED, Space, Tried, search


def driven(
    surface: Callable[[str], tuple[float, float] | None],
    max_loss: float,
    space: Space,
    known_within: float = 0.0,
    small: Callable[[str], bool] = lambda recipe: True,
    quick: Callable[[float], bool] = lambda ratio: True,
) -> dict[str, Tried]:
    """Everything that was tried; a surface tells latency and loss of a recipe, None where it cannot be made."""
    asking, known = search(space), {}
    recipe = next(asking)
    try:
        while len(known) < 100:
            if recipe not in known:
                found = surface(recipe)
                low = found[0] * (1 - known_within) if found else 0.0
                good = found is not None and found[1] <= max_loss
                soon = quick(found[0] if found else 1.0)
                known[recipe] = Tried(found[0] if found else None, good, low, small(recipe), soon)
            recipe = asking.send(known[recipe])
    except StopIteration:
        return known
    raise AssertionError("no end")


def cost_of(recipe: str, name: str) -> float:
    match = re.search(rf"{name}\(cost=([0-9.]+)", recipe)
    return float(match[1]) if match else 1.0


def ordinary(recipe: str) -> tuple[float, float]:
    prune, lowrank = cost_of(recipe, "prune"), cost_of(recipe, "lowrank")
    ratio = 0.25 if "quantize" in recipe else 1.0
    loss = 0.001 if "correct" in recipe else 0.002 if "quantize" in recipe else 0.0
    return ratio * prune * (0.3 + 0.7 * lowrank), loss + 0.02 * (1 - prune) ** 2 + 0.03 * (1 - lowrank) ** 2


def best(known: dict[str, Tried]) -> tuple[float, str]:
    return min((t.ratio, r) for r, t in known.items() if t.allowed and t.ratio is not None)


def test_finds_nearly_the_best_there_is() -> None:
    known = driven(ordinary, 0.005, Space())
    fine = [c / 100 for c in range(20, 101)]
    least = min(
        ordinary(f"prune(cost={p}) | lowrank(cost={q}) | quantize(correct=bias)")[0]
        for p in fine
        for q in fine
        if ordinary(f"prune(cost={p}) | lowrank(cost={q}) | quantize(correct=bias)")[1] <= 0.005
    )
    assert best(known)[0] <= 1.12 * least
    assert len(known) < 30


def test_a_pass_that_never_helps_is_dropped_soon() -> None:
    def stubborn(recipe: str) -> tuple[float, float]:
        ratio, loss = ordinary(recipe)
        return ratio / (0.3 + 0.7 * cost_of(recipe, "lowrank")), loss

    known = driven(stubborn, 0.005, Space())
    assert len([recipe for recipe in known if "lowrank" in recipe]) <= 2
    assert "prune" in best(known)[1]


def test_layers_stay_in_floats_where_whole_quantization_loses_too_much() -> None:
    def fragile(recipe: str) -> tuple[float, float]:
        ratio, loss = ordinary(recipe)
        return (ratio + 0.05, loss) if "keep=5" in recipe else (ratio, loss + 0.1 * ("quantize" in recipe))

    assert "keep=5" in best(driven(fragile, 0.005, Space()))[1]


def test_what_cannot_be_made_is_left_out() -> None:
    def no_fuse(recipe: str) -> tuple[float, float] | None:
        return None if "fuse" in recipe or "prune" in recipe else ordinary(recipe)

    found = best(driven(no_fuse, 0.005, Space()))[1]
    assert "lowrank" in found
    assert "fuse" not in found


def test_without_room_for_any_loss_the_model_stays() -> None:
    known = driven(lambda recipe: (ordinary(recipe)[0], 1.0 if recipe != "fuse" else 0.0), 0.0, Space())
    assert best(known)[1] == "fuse"


def test_goes_on_in_floats_where_eight_bits_are_no_quicker() -> None:
    def tiny(recipe: str) -> tuple[float, float]:
        ratio, loss = ordinary(recipe)
        return (ratio * 4.4, loss) if "quantize" in recipe else (ratio, loss)

    known = driven(tiny, 0.005, Space())
    assert not any("prune" in recipe and "quantize" in recipe for recipe in known)
    assert "prune" in best(known)[1]


def test_a_search_that_is_ended_early_has_seen_something_of_both() -> None:
    first = list(driven(ordinary, 0.005, Space()))[:5]
    assert any("prune" in recipe for recipe in first) and any("lowrank" in recipe for recipe in first)


def test_what_may_be_quicker_for_all_that_was_measured_is_not_given_up() -> None:
    def noisy(recipe: str) -> tuple[float, float]:
        """At the first cost that is tried, chance hides what it brings."""
        lowrank = cost_of(recipe, "lowrank")
        ratio, loss = ordinary(re.sub(r"lowrank\(cost=[0-9.]+\)", "", recipe))
        return ratio * (1.0 if lowrank == 0.7 else lowrank), loss + 0.002 * (1 - lowrank)

    assert "lowrank" not in best(driven(noisy, 0.005, Space()))[1]
    assert "lowrank" in best(driven(noisy, 0.005, Space(), known_within=0.1))[1]


def test_of_forms_that_were_not_told_apart_the_better_answers_go_on() -> None:
    def noisy(recipe: str) -> tuple[float, float]:
        ratio, loss = ordinary(recipe)
        return (1.06 * ratio if "correct" in recipe else ratio), loss

    for within, tail in ((0.0, "quantize"), (0.1, "quantize(calibrate=mse, correct=bias)")):
        known = driven(noisy, 0.005, Space(), within)
        assert {recipe.split(" | ")[-1] for recipe in known if "prune" in recipe} == {tail}


def test_what_is_too_large_goes_on_shrinking_though_it_becomes_no_quicker() -> None:
    def size(recipe: str) -> float:
        return (0.25 if "quantize" in recipe else 1.0) * cost_of(recipe, "lowrank") * cost_of(recipe, "prune")

    def as_quick(recipe: str) -> tuple[float, float]:
        return 0.25 if "quantize" in recipe else 1.0, ordinary(recipe)[1]

    small = driven(as_quick, 0.02, Space(("lowrank",)), small=lambda recipe: size(recipe) <= 0.15)
    assert any(tried.allowed for tried in small.values())
    assert all("quantize" in recipe for recipe in small if "lowrank" in recipe), "rounding makes it smaller"
    free = driven(as_quick, 0.02, Space(("lowrank",)))
    assert len([recipe for recipe in free if "lowrank" in recipe]) == 1, "nobody asked for less, and it is no quicker"


def test_a_limit_of_time_is_no_reason_to_round_what_becomes_slower_by_it() -> None:
    def without_instructions(recipe: str) -> tuple[float, float]:
        ratio, loss = ordinary(recipe)
        return (ratio * 4.8, loss) if "quantize" in recipe else (ratio, loss)

    known = driven(without_instructions, 0.02, Space(), quick=lambda ratio: ratio <= 0.55)
    assert any(tried.allowed for tried in known.values())
    assert not any("prune" in recipe and "quantize" in recipe for recipe in known)


def test_a_step_below_what_is_too_large_is_found() -> None:
    """Halving ends at 0.6, which is accurate enough, and a finer step is small enough."""

    def steep(recipe: str) -> tuple[float, float]:
        lowrank = cost_of(recipe, "lowrank")
        return 0.25 if "quantize" in recipe else 1.0, 0.1 * (lowrank < 0.57)

    known = driven(steep, 0.01, Space(("lowrank",)), small=lambda recipe: cost_of(recipe, "lowrank") <= 0.59)
    assert [recipe for recipe, tried in known.items() if tried.allowed] == [
        "fuse | lowrank(cost=0.575) | quantize(calibrate=mse, correct=bias)"
    ]


FORMS = Space(quantized=(*QUANTIZED, DYNAMIC), halved=(HALVED,))


@pytest.mark.parametrize(
    ("eight", "dynamic", "sixteen", "chosen"),
    [
        (0.3, 0.5, 0.6, QUANTIZED[-1]),
        (0.6, 0.3, 0.5, DYNAMIC),
        (0.9, 0.8, 0.5, HALVED),
        # As quick as static, and nearer to the answers.
        (0.3, 0.302, 0.9, DYNAMIC),
        (0.9, None, 0.55, HALVED),
        (None, 0.4, None, DYNAMIC),
    ],
)
def test_each_engine_goes_on_with_the_form_that_is_quickest_there(
    eight: float | None, dynamic: float | None, sixteen: float | None, chosen: str
) -> None:
    """What takes so long on an engine; what it refuses is None."""

    def engine(recipe: str) -> tuple[float, float] | None:
        form = dynamic if DYNAMIC in recipe else sixteen if HALVED in recipe else eight if "quantize" in recipe else 1.0
        ratio, loss = ordinary(re.sub(r" \| quantize.*", "", recipe))
        return None if form is None else (ratio * form, loss + 0.001 * ("quantize" in recipe))

    known = driven(engine, 0.005, FORMS)
    assert {recipe.split(" | ")[-1] for recipe in known if "prune" in recipe} == {chosen}
    assert best(known)[1].endswith(chosen)


def test_16_bits_are_no_reason_to_give_up_8() -> None:
    """Whole quantization loses too much, 16 bits nothing; with some layers in floats, 8 bits are quicker than 16."""

    def fragile(recipe: str) -> tuple[float, float]:
        ratio, loss = ordinary(recipe)
        return (2 * ratio if HALVED in recipe else ratio), loss + 0.1 * bool(
            re.search(r"quantize(?!.*(keep|fp16))", recipe)
        )

    assert "keep=2" in best(driven(fragile, 0.005, FORMS))[1]


def test_what_has_to_be_small_goes_on_in_the_form_that_is() -> None:
    """16 bits are quicker here, and too large."""

    def halves(recipe: str) -> tuple[float, float]:
        ratio, loss = ordinary(recipe)
        return (0.5 * ratio, loss) if HALVED in recipe else (ratio, loss)

    known = driven(halves, 0.005, FORMS, small=lambda recipe: "quantize" in recipe and HALVED not in recipe)
    assert all(HALVED not in recipe for recipe in known if "prune" in recipe)
    assert HALVED in best(driven(halves, 0.005, FORMS))[1]
