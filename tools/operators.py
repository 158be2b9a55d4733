"""Write docs/operators.md: which ONNX operators each engine installed here gets right, as the conformance suite finds.

It takes some minutes, and its answers are of these versions on this machine, so it is not part of `make docs`.
"""

from __future__ import annotations

from pathlib import Path

from edgewise.core import registry
from edgewise.engines.conformance import CHECKS, operators
from edgewise.study.conformance import conformance
from edgewise.study.survey import EngineFacts, survey

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operators.md"
NOTE = "<!-- Written by `python tools/operators.py` from what the conformance suite found. -->\n"
INTRO = """# Engines and operators

What each engine does with each operator: **yes** means that every form of it in the conformance suite gives the
answer of the ONNX reference evaluator; a number points to the reason for which a form is refused. A form that an engine
computes wrongly is refused by its engine file, so `wrong` should not appear. Run it yourself:
`edgewise engines check ENGINE`.
"""


def main() -> None:
    facts = {each.name: each for each in survey()[1] if each.version and each.computes}
    found: dict[str, dict[str, str]] = {}
    counts: dict[str, str] = {}
    for name in facts:
        outcomes = list(conformance(name))
        found[name] = operators(outcomes)
        counts[name] = ", ".join(
            f"{sum(o.verdict == verdict for o in outcomes)} {verdict}"
            for verdict in ("pass", "refused", "fail", "skip")
            if any(o.verdict == verdict for o in outcomes)
        )
        print(f"{name}: {counts[name]}", flush=True)
    PAGE.write_text(_page(facts, found, counts), encoding="utf-8")


def _page(facts: dict[str, EngineFacts], found: dict[str, dict[str, str]], counts: dict[str, str]) -> str:
    reasons: dict[str, int] = {}
    rows = []
    for operator in sorted({operator for each in found.values() for operator in each}):
        cells = []
        for name in facts:
            word = found[name].get(operator, "not tried")
            if word not in ("yes", "not tried"):
                kind, _, reason = word.partition(": ")
                number = reasons.setdefault(f"{name}: {reason}", len(reasons) + 1)
                word = f"{kind} [{number}](#{number})"
            cells.append(word)
        rows.append(f"| {operator} | {' | '.join(cells)} |")
    summary = [f"| {name} | {facts[name].version} | {counts[name]} |" for name in facts]
    missing = sorted(set(registry.names("engines")) - set(facts) - {"null"})
    return "\n".join(
        [
            NOTE,
            INTRO,
            f"| engine | version | of {len(CHECKS)} checks |",
            "|---|---|---|",
            *summary,
            "",
            *([f"Not installed where this was written: {', '.join(missing)}.\n"] if missing else []),
            f"| operator | {' | '.join(facts)} |",
            "|---|" + "---|" * len(facts),
            *rows,
            "\n## Reasons\n",
            *(f'<a id="{number}"></a>{number}. {reason}\n' for reason, number in reasons.items()),
        ]
    )


if __name__ == "__main__":
    main()
