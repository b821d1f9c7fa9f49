"""The guarantee of a release in words: who is protected, from what, by how much, and what is assumed.

The sentences answer the questions that NIST SP 800-226 asks of a differential privacy claim.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp

from dpcli.privacy.exact import exact_text
from dpcli.release.metadata import Metadata

NOT_PRIVATE = "NOT PRIVATE: made with a known seed, for fixtures; anyone can recompute and remove the noise."


def sentences(metadata: Metadata) -> list[str]:
    """Return the guarantee that follows from a release's own description."""
    privacy, rows = metadata.privacy, metadata.privacy.rows_per_person
    epsilon, norm = exact_text(privacy.epsilon), exact_text(metadata.strategy.norm)
    scale = exact_text(metadata.noise.scale)
    power = f"e^{epsilon}" if "/" not in epsilon else f"e^({epsilon})"
    weighted = metadata.strategy.largest_weight > 1
    kept = (
        "stored as drawn" if not metadata.strategy.inner else "the counts are worked out from what was drawn"
    )
    steps = "" if not metadata.steps else ", then thresholded, which makes them biased"
    whose = "one person's row" if rows == 1 else f"one person's rows (at most {rows})"
    number = "rows"
    person = (
        f"One row is taken as one person. That nobody has more than {rows} row{'s' * (rows > 1)} in the table"
        " is assumed, not checked."
    )
    if privacy.unit is not None:
        whose, number = "all of one person's rows", "people"
        person = (
            f"One person is whoever shares a value of column {privacy.unit!r}. Of each person at most {rows}"
            f" row{'s' * (rows > 1)} count{'s' * (rows == 1)}, chosen by a keyed hash that looks at that"
            " person's rows alone. That nobody has several values, and that no two people share one, is"
            " assumed, not checked."
        )
    change = (
        f"{whose} being in the table or not"
        if privacy.neighbors == "add-remove"
        else f"{whose} having other values (the number of {number} is not protected)"
    )
    words = [
        f"Pure differential privacy with epsilon = {epsilon}, {privacy.neighbors} neighbours: {change}"
        f" changes the probability of any content of this file by a factor of at most {power} ="
        f" {_power(privacy.epsilon)}.",
        person,
        f"Noise: exact discrete Laplace of scale {scale}{', times its weight,' if weighted else ','} drawn"
        " independently for every coefficient of the strategy, also where the count is zero;"
        f" {kept}{steps}, neither rounded nor clamped.",
        f"Epsilon can be recomputed: the strategy's largest column norm is {norm}, times"
        f" {1 if privacy.neighbors == 'add-remove' else 2} for {privacy.neighbors}, times {rows} row"
        f"{'s' * (rows > 1)} a person, divided by the scale {scale}.",
        "The attributes, their ranges and their labels are taken as public; they come from the plan, not from"
        " the table.",
        "Other releases about the same people add to epsilon; the curator's ledger adds them up, this file"
        " does not.",
    ]
    if metadata.regions is not None:
        second = exact_text(metadata.regions.scale)
        factor = f"{1 if privacy.neighbors == 'add-remove' else 2} for {privacy.neighbors}"
        words[3] += (
            f" To this come the counts of {metadata.regions.number:,} regions, each cell being in one, with"
            f" noise of scale {second}: norm 1, times {factor}, times {rows}, divided by {second}. The"
            " regions were worked out from the noisy cells alone."
        )
    if privacy.parallel is not None:
        bound = f" At most {rows} rows of a person count in all of them together." if privacy.unit else ""
        words.append(
            f"It is one of the group {privacy.parallel!r} of releases that were made at once and count"
            f" different rows: together they cost the largest epsilon among them, not the sum.{bound}"
        )
    if metadata.where is not None:
        words.insert(2, f"Only rows that satisfy a public condition are counted: {metadata.where}.")
    return (
        words
        if metadata.private
        else [NOT_PRIVATE, *(f"Were its noise secret: {line}" for line in words[:1])]
    )


def _power(epsilon: Fraction) -> str:
    return f"{exp(epsilon):.4g}" if epsilon < 700 else "more than 10^300"
