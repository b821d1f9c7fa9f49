"""Invent a census of 50,000 people and write it next to this file: ``python sample_data/make_census.py``.

Nothing here is copied from real data: names, numbers and people are made up. Each person is drawn from a
small causal model, in the order age and sex -> district -> education -> marriage -> occupation -> hours ->
income, so the columns correlate the way a real census does. A fixed seed makes every run identical.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]

SEED = 20260630
PEOPLE = 50_000
CENSUS_DAY = np.datetime64("2026-06-30")
TOP_INCOME = 199_999
EDUCATION = ("none", "primary", "secondary", "vocational", "bachelor", "master", "doctorate")


class Job(NamedTuple):
    """An occupation: usual schooling (index in EDUCATION), pay in thousands, women's share, weight."""

    label: str
    level: float
    pay: float
    women: float
    weight: float


# fmt: off
JOBS: dict[str, list[Job]] = {
    "Health": [
        Job("Nurse", 3.7, 43, 0.80, 9), Job("Physician", 5.2, 92, 0.52, 5),
        Job("Dentist", 5.0, 84, 0.52, 1.5), Job("Pharmacist", 5.0, 62, 0.62, 1.5),
        Job("Physiotherapist", 4.0, 44, 0.66, 2), Job("Care worker", 2.3, 29, 0.80, 8),
    ],
    "Teaching and research": [
        Job("Primary teacher", 4.1, 44, 0.76, 6), Job("Secondary teacher", 4.7, 50, 0.58, 6),
        Job("Lecturer", 5.6, 63, 0.48, 2.5), Job("Researcher", 5.7, 60, 0.46, 4),
        Job("Childcare worker", 3.0, 29, 0.84, 5),
    ],
    "Business and finance": [
        Job("Accountant", 4.1, 54, 0.52, 5), Job("Bank clerk", 3.0, 41, 0.56, 3),
        Job("Financial analyst", 4.8, 72, 0.42, 4), Job("Personnel officer", 4.0, 49, 0.66, 3),
        Job("Manager", 4.4, 82, 0.38, 8), Job("Office clerk", 2.6, 34, 0.66, 10),
    ],
    "Technology": [
        Job("Software developer", 4.3, 66, 0.28, 8), Job("Data analyst", 4.6, 60, 0.42, 4),
        Job("Engineer", 4.7, 65, 0.26, 7), Job("System administrator", 3.4, 50, 0.22, 4),
        Job("Laboratory technician", 3.2, 40, 0.56, 3),
    ],
    "Trades and construction": [
        Job("Electrician", 3.0, 42, 0.16, 6), Job("Carpenter", 2.8, 38, 0.16, 5),
        Job("Plumber", 2.9, 41, 0.15, 4), Job("Mechanic", 2.8, 37, 0.16, 6),
        Job("Bricklayer", 1.9, 34, 0.15, 4), Job("Painter", 1.9, 32, 0.22, 4),
    ],
    "Sales and service": [
        Job("Shop assistant", 2.0, 27, 0.62, 12), Job("Cook", 2.2, 28, 0.42, 6),
        Job("Waiter", 1.9, 24, 0.56, 5), Job("Hairdresser", 2.8, 26, 0.80, 3),
        Job("Cleaner", 1.0, 23, 0.70, 9),
    ],
    "Transport and industry": [
        Job("Truck driver", 1.9, 34, 0.15, 7), Job("Bus driver", 2.0, 33, 0.24, 3),
        Job("Warehouse worker", 1.5, 28, 0.32, 8), Job("Machine operator", 2.1, 33, 0.30, 7),
        Job("Assembler", 1.6, 29, 0.42, 5),
    ],
    "Farming and nature": [
        Job("Farmer", 2.6, 36, 0.30, 4), Job("Farm hand", 1.0, 23, 0.36, 4),
        Job("Gardener", 2.0, 28, 0.30, 3), Job("Forester", 2.7, 34, 0.20, 1.5),
        Job("Fisher", 1.5, 29, 0.15, 1),
    ],
}
# fmt: on
LONG_HOURS = ("Physician", "Manager", "Cook", "Truck driver", "Farmer", "Fisher", "Researcher")
OCCUPATIONS: dict[str, list[str]] = {
    **{group: [job.label for job in jobs] for group, jobs in JOBS.items()},
    "Not in work": ["Child", "Student", "Homemaker", "Unemployed", "Retired"],
}

REGIONS: dict[str, dict[str, list[str]]] = {
    "Northmere": {
        "Fernreach": ["Alderwyn", "Brindlemoor", "Cloverby", "Dunmallow"],
        "Frostwick": ["Elmharrow", "Larkenfell", "Pinehollow"],
        "Silverfen": ["Heronsmere", "Mistlethorpe", "Reedhaven"],
    },
    "Eastvale": {
        "Amberdale": ["Applecombe", "Barleyfold", "Honeycross", "Rosewarren"],
        "Larkshire": ["Finchbury", "Meadowick", "Thistledown"],
        "Goldenrye": ["Harvestow", "Oatley Green", "Sunnerby"],
    },
    "Southmarch": {
        "Lumenport": ["Harbourlight", "Lantern Quay", "Old Lumen", "Saltmarket"],
        "Coralstrand": ["Gullwing Bay", "Pebblecove", "Tidemarrow"],
        "Vinemoor": ["Olivegate", "Quincehill", "Vinterra"],
    },
    "Westwold": {
        "Stonebarrow": ["Craghollow", "Greyminster", "Ravensledge", "Slatebeck"],
        "Willowmark": ["Otterbridge", "Swanlea", "Willowhythe"],
        "Hearthland": ["Copperkettle", "Emberlow", "Oakhearth"],
    },
}
REGION_ROWS = [(r, p, d) for r, provinces in REGIONS.items() for p, ds in provinces.items() for d in ds]


def sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


class Draw:
    """Random choices made for everyone at once."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def chance(self, p: Floats | float) -> Bools:
        """True with each person's own probability."""
        return self.rng.random(PEOPLE) < p

    def pick(self, weights: Floats) -> Ints:
        """One column index per person; weights are one row for all or one row per person."""
        edges = np.cumsum(np.broadcast_to(weights, (PEOPLE, weights.shape[-1])), axis=1)
        index: Ints = (edges <= (self.rng.random(PEOPLE) * edges[:, -1])[:, None]).sum(axis=1)
        return index

    def one_of(self, odds: dict[int, float]) -> Ints:
        """One of the given numbers, with the same odds for all."""
        return np.array(list(odds))[self.pick(np.array(list(odds.values())))]

    def spread(self, sigma: float) -> Floats:
        """Lognormal noise with median 1."""
        return np.exp(self.rng.normal(0, sigma, PEOPLE))


def build(seed: int = SEED) -> pd.DataFrame:
    """The whole table, one row per person."""
    draw = Draw(seed)

    ages = np.arange(101)
    bulge = 1 + 0.3 * np.exp(-(((ages - 52) / 13) ** 2)) - 0.1 * np.exp(-((ages / 15) ** 2))
    age = draw.pick(bulge * np.exp(-np.exp((ages - 86) / 8.5)))
    woman = draw.chance(0.49 + 0.2 * sigmoid((age - 80) / 6))

    # Districts follow a Zipf-like law; the eight largest are towns, which draw the young.
    rank = draw.rng.permutation(len(REGION_ROWS))
    town_lure = np.where((age >= 19) & (age < 35), 1.4, 1.0)[:, None]
    district = draw.pick((rank + 1.0) ** -0.9 * np.where(rank < 8, town_lure, 1.0))
    town = rank[district] < 8

    # What one would reach in the end (later generations, and above all their women, go further), and so far.
    talent = draw.rng.normal(0, 1, PEOPLE) - 0.013 * np.clip(age - 35, 0, None) + 0.08 * town
    talent += woman * np.interp(age, [35, 75], [0.15, -0.25])
    goal = np.searchsorted([-2.3, -1.5, -0.4, 0.25, 1.0, 1.9], talent, side="right")
    education = np.minimum(goal, np.searchsorted([12, 17, 20, 22, 24, 27], age, side="right"))

    widowed = np.clip(age - 66, 0, None) * np.where(woman, 0.019, 0.008)
    wed = 0.68 * sigmoid((age - np.where(woman, 29.0, 31.5) - 0.5 * (education - 3)) / 3.5) - widowed
    married = draw.chance(wed) & (age >= 18)

    # Work: who is in work, and in which job, by schooling, sex and place.
    jobs = [job for group in JOBS.values() for job in group]
    labels = np.array([job.label for job in jobs])
    level, pay, share, weight = (np.array([job[i] for job in jobs], dtype=float) for i in range(1, 5))
    rural = np.array([group == "Farming and nature" for group, members in JOBS.items() for _ in members])
    gap = education[:, None] - level
    fit = np.where(gap < -1.6, 0, np.exp(-0.5 * (gap / 0.75) ** 2)) * weight
    fit *= np.where(woman[:, None], share, 1 - share) * np.where(rural & town[:, None], 0.15, 1)
    job = draw.pick(fit)
    studies = draw.chance(np.where(age < 18, 0.9, np.where(goal > education, 0.85, 0.04))) & (age < 32)
    states: dict[str, Bools] = {  # the first that holds
        "Child": age < 6,
        "Student": (age < 16) | studies,
        "Retired": draw.chance(sigmoid((age - 65.3) / 1.5)) & (age >= 55),
        "Homemaker": draw.chance(np.where(woman, 0.12, 0.015)) & married & (age < 75),
        "Unemployed": draw.chance(0.09 - 0.012 * education) & (age < 67),
    }
    works = ~np.any(list(states.values()), axis=0)
    occupation = np.select(list(states.values()), list(states), default=labels[job])

    # Hours: full time unless part time (often wives, and the nearly retired) or long (some jobs).
    full = draw.one_of({36: 0.12, 37: 0.04, 38: 0.37, 39: 0.07, 40: 0.40})
    part = draw.one_of({12: 0.06, 16: 0.12, 20: 0.42, 24: 0.18, 28: 0.08, 32: 0.14})
    overtime = np.clip(42 + draw.rng.exponential(7, PEOPLE), 0, 80).astype(np.int64)
    side_job = draw.one_of({0: 0.62, 6: 0.06, 8: 0.14, 10: 0.06, 12: 0.08, 20: 0.04})
    wife = woman & married & (age >= 27) & (age < 50)
    parttime = draw.chance(0.05 + 0.1 * woman + 0.16 * wife + 0.15 * (age >= 62) + 0.15 * share[job])
    long = draw.chance(0.07 + 0.25 * np.isin(occupation, LONG_HOURS) - 0.03 * woman)
    hours = np.select([parttime, long], [part, overtime], default=full)
    hours = hours + draw.one_of({0: 0.9, 1: 0.05, 2: 0.05}) - draw.one_of({0: 0.9, 1: 0.05, 2: 0.05})
    hours = np.select([works, studies & (age >= 16)], [np.clip(hours, 1, 80), side_job], default=0)

    # Income: pay of the job, schooling, experience, hours, place; or a pension, a benefit, a side job.
    years = np.clip(age - np.array([14, 15, 18, 19, 21, 23, 26])[education], 0, 45)
    log_wage = np.log(1000 * pay[job]) + 0.07 * gap[np.arange(PEOPLE), job] - 0.3 + 0.03 * years
    log_wage += -0.0005 * years**2 - 0.06 * woman + 0.08 * town + 0.95 * np.log(np.maximum(hours, 1) / 38)
    benefit = 9_500 * draw.spread(0.3)
    pension = (12_500 + 3_400 * education) * draw.spread(0.35)
    rent = np.where(draw.chance(0.4), 4_000 * draw.spread(0.8), 0)
    income_of = {"Student": hours * 560 * draw.spread(0.2), "Retired": pension, "Homemaker": rent}
    income_of |= {"Unemployed": benefit, "Child": np.zeros(PEOPLE)}
    wage = np.exp(log_wage) * draw.spread(0.27)
    income = np.select([occupation == state for state in income_of], list(income_of.values()), default=wage)

    # Moving: some still live where they were born; the others' stay grows with age.
    lived = np.maximum(((age + draw.rng.random(PEOPLE)) * 365.2425).astype(np.int64), 7)
    since_1970 = (CENSUS_DAY - np.datetime64("1970-01-01")).astype(int) + 1
    longest = np.minimum(lived, since_1970)
    usual = 365 * np.interp(age, [0, 17, 22, 40, 70, 100], [6, 6, 2, 6, 20, 26])
    stay = -usual * np.log1p(draw.rng.random(PEOPLE) * np.expm1(-longest / usual))
    born_here = draw.chance(0.55 * np.exp(-age / 22)) & (lived < since_1970)
    home_days = np.where(born_here, lived - draw.one_of({1: 0.4, 2: 0.3, 3: 0.2, 5: 0.1}), stay)
    moved_in = CENSUS_DAY - np.minimum(home_days.astype(np.int64), longest - 1).astype("timedelta64[D]")

    return pd.DataFrame(
        {
            "person_id": 100_001 + draw.rng.permutation(PEOPLE),
            "age": age,
            "sex": np.where(woman, "F", "M"),
            "education": np.array(EDUCATION)[education],
            "occupation": occupation,
            "region": np.array([row[-1] for row in REGION_ROWS])[district],
            "hours": hours,
            "income": np.clip(np.rint(income), 0, TOP_INCOME).astype(np.int64),
            "married": married,
            "moved_in": moved_in.astype("datetime64[s]"),
        }
    )


def write(folder: Path, seed: int = SEED) -> None:
    """Write the table (CSV and Parquet) and its two hierarchies into ``folder``."""
    table = build(seed)
    text = table.assign(married=np.where(table["married"], "true", "false"))
    text.to_csv(folder / "census.csv", index=False, date_format="%Y-%m-%d", lineterminator="\n")

    special = {"married": pa.bool_(), "moved_in": pa.date32()}
    special |= dict.fromkeys(("sex", "education", "occupation", "region"), pa.string())
    schema = pa.schema([(name, special.get(name, pa.int64())) for name in table.columns])
    arrow = pa.Table.from_pandas(table, schema=schema, preserve_index=False).replace_schema_metadata(None)
    pq.write_table(arrow, folder / "census.parquet", row_group_size=10_000)

    lines = [f"{group}:\n" + "".join(f"  - {leaf}\n" for leaf in OCCUPATIONS[group]) for group in OCCUPATIONS]
    (folder / "occupation.yaml").write_text("".join(lines), encoding="utf-8", newline="\n")
    with (folder / "region.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("region", "province", "district"), *REGION_ROWS])


if __name__ == "__main__":
    write(Path(__file__).resolve().parent)
