"""PRIVATE: the ledger of what each dataset has spent, written before anything is drawn.

A release reserves its epsilon in one durable transaction and gets an :class:`Account` for it. Whatever
happens afterwards, the reservation stays spent: a crash loses budget, never privacy. Sums are exact.

Each debit pays for one publication at most. Proof: a file appears under its name only after
``settle(id, "released")`` has returned for its debit. That call writes durably, and succeeds once: in a
transaction of its own it refuses a debit that is released already, and nothing sets a released one back.
So for a debit that is reserved or failed nothing was ever published, what was drawn for it is gone unseen,
and :meth:`Ledger.resume` may draw for it afresh: whoever resumes it, and however often, one outcome at most
is seen, and its epsilon is in the sum since it was reserved. A run that is resumed by another has lost its
ticket, and can publish nothing any more; so the releases of a parallel group come from one run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from pathlib import Path

from dpcli.data.periods import Period
from dpcli.errors import BudgetError, OutputError
from dpcli.privacy.books import Books, Debit, State, budget_body
from dpcli.privacy.budget import Balance, Budget, composed
from dpcli.privacy.chain import Chain, Clock, utc_now
from dpcli.privacy.entry import Entry
from dpcli.privacy.exact import exact_text
from dpcli.privacy.lock import dataset_lock

__all__ = ["Account", "Balance", "Budget", "Debit", "Entry", "Ledger", "Period", "State"]


class Account:
    """A reserved epsilon, from which the gate takes what each measurement costs."""

    def __init__(self, epsilon: Fraction, ticket: int | None = None) -> None:
        self.epsilon = epsilon
        self.ticket = ticket
        self.spent = Fraction(0)

    def debit(self, epsilon: Fraction) -> None:
        """Take epsilon from what was reserved, or raise ``BudgetError`` and take nothing."""
        if self.spent + epsilon > self.epsilon:
            raise BudgetError(
                f"A measurement would cost epsilon {exact_text(epsilon)}, but of the reserved"
                f" {exact_text(self.epsilon)} only {exact_text(self.epsilon - self.spent)} is left."
            )
        self.spent += epsilon


class Ledger:
    """Debits and budgets by dataset, as a chain of entries in one file."""

    def __init__(self, path: Path, clock: Clock = utc_now) -> None:
        self.path = path
        self._chain = Chain(path, clock)

    def reserve(self, debits: Sequence[Debit], budgets: Sequence[Budget]) -> list[Account]:
        """Debit all releases in one durable transaction, or raise ``BudgetError`` and debit nothing.

        ``budgets`` are the dataset's by the plan. They are recorded where they are new or lower than what is
        recorded for the same period, and every budget that is recorded then must hold.

        Proof: the sum is read and the debits are written in the same transaction, so two runs cannot both
        take the last of a budget; they are on disk before this returns, and nothing is drawn before. Debits
        that compose in parallel carry the number of the first of them, which no other call can have: a
        second run of the same plan adds up. Times do not go backwards, so a period's sum is complete.
        """
        if not debits:
            return []
        dataset = debits[0].dataset
        if any(debit.dataset != dataset or debit.epsilon <= 0 for debit in debits):
            raise ValueError("one reservation is for one dataset, and every epsilon is above 0")
        names = [(d.plan_digest, d.parallel) if d.parallel is not None else k for k, d in enumerate(debits)]
        asked = composed(zip(names, (debit.epsilon for debit in debits), strict=True))
        with self._chain.appending(create=True) as chain:
            books = Books(chain.entries, chain.now, self.path)
            books.check(dataset, asked, budgets)
            for budget in books.lowered(dataset, budgets):
                chain.append("budget", budget_body(dataset, budget))
            known, groups, accounts = set(books.debits), dict[object, int](), list[Account]()
            for debit, name in zip(debits, names, strict=True):
                if debit.release_id in known:
                    raise OutputError(
                        f"The ledger {self.path} has a debit for release {debit.release_id} already. Nothing"
                        " was spent; release again."
                    )
                known.add(debit.release_id)
                group = groups.setdefault(name, chain.next_number)
                entry = chain.append("debit", debit.body(None if debit.parallel is None else group))
                accounts.append(Account(debit.epsilon, entry.number))
        return accounts

    def check(self, dataset: str, asked: Fraction, budgets: Sequence[Budget]) -> None:
        """Raise ``BudgetError`` if a reservation of so much would be refused now."""
        self._books().check(dataset, asked, budgets)

    def settle(
        self, release_id: str, state: State, content: str | None = None, ticket: int | None = None
    ) -> None:
        """Note how a reserved release ended. Its epsilon stays spent in any case.

        "released" is noted before the file appears, with the digest of its ``content``, and once: a second
        time raises ``BudgetError``, and so does a ``ticket`` that is not the last; then nothing may be
        published. A release that was noted so is never noted as failed.
        """
        if state == "reserved":
            raise ValueError("a release ends as released or failed")
        with self._chain.appending(create=False) as chain:
            books = Books(chain.entries, chain.now, self.path)
            debit = self._debit(books, release_id)
            stale = ticket is not None and ticket != books.ticket(release_id)
            if state == "released" and (debit.state == "released" or stale):
                raise BudgetError(_used(debit))
            if debit.state not in ("released", state) and not stale:
                chain.append("settle", {"release_id": release_id, "state": state, "content": content})

    def resumable(self, dataset: str, plan_digest: str) -> list[Debit]:
        """Return the debits of a plan that still pay for a draw, oldest first."""
        books = self._books()
        own = [d for d in books.debits.values() if (d.dataset, d.plan_digest) == (dataset, plan_digest)]
        return [debit for debit in own if books.resumable(debit)]

    def resume(self, release_ids: Mapping[str, str | None] | Sequence[str]) -> list[Account]:
        """Take up reserved or failed releases again; they were paid for, in the period when reserved.

        A mapping says to which file each of them goes now.

        Raises ``BudgetError``, and takes none, if one was released, may have been, or is not known, or if
        one of a parallel group comes without the others. For the proof see above.
        """
        with self._chain.appending(create=False) as chain:
            books = Books(chain.entries, chain.now, self.path)
            debits = [self._debit(books, release_id) for release_id in release_ids]
            for debit in debits:
                group = {other.release_id for other in books.together(debit)}
                if not books.resumable(debit) or not group <= set(release_ids):
                    raise BudgetError(_used(debit))
            files = release_ids if isinstance(release_ids, Mapping) else {}
            bodies = [
                {"release_id": each.release_id, "file": files.get(each.release_id, each.file)}
                for each in debits
            ]
            numbers = [chain.append("resume", body).number for body in bodies]
        return [Account(debit.epsilon, number) for debit, number in zip(debits, numbers, strict=True)]

    def set_budget(self, dataset: str, budget: Budget) -> None:
        """Record another budget for a dataset in place of that for the same period, higher or lower."""
        with self._chain.appending(create=True) as chain:
            Books(chain.entries, chain.now, self.path)  # nothing is added to what cannot be understood
            chain.append("budget", budget_body(dataset, budget))

    def datasets(self) -> list[str]:
        """Return the names of all datasets that have debits or budgets."""
        return self._books().datasets()

    def budgets(self, dataset: str) -> list[Budget]:
        """Return the dataset's recorded budgets: the lifetime's first, one at most for each period."""
        return self._books().budgets(dataset)

    def balances(self, dataset: str, budgets: Sequence[Budget] = ()) -> list[Balance]:
        """Return what is spent of each budget of a dataset, as it would be if a plan had ``budgets``."""
        return self._books().balances(dataset, budgets)

    def spent(self, dataset: str, per: Period | None = None) -> Fraction:
        """Return what a dataset has spent, in all or in the present period by the ledger's own time."""
        return self._books().spent(dataset, per)

    def debits(self, dataset: str | None = None) -> list[Debit]:
        """Return all debits, oldest first, of one dataset or of all."""
        debits = self._books().debits.values()
        return [debit for debit in debits if dataset is None or debit.dataset == dataset]

    def entries(self) -> Iterator[Entry]:
        """Yield all entries, oldest first, when the whole chain was found to fit."""
        yield from self._chain.entries()

    def verify(self) -> Entry | None:
        """Compute the whole chain anew, make sure that all of it is understood, and return the last entry.

        Raises ``OutputError`` naming the first entry that does not fit.
        """
        entries = self._chain.entries()
        Books(entries, self._chain.now(entries), self.path)
        return entries[-1] if entries else None

    def lock(self, dataset: str, timeout: float) -> AbstractContextManager[None]:
        """Hold the dataset's lock, which lies beside the ledger; see :mod:`dpcli.privacy.lock`."""
        return dataset_lock(self.path, dataset, timeout)

    def _books(self) -> Books:
        entries = self._chain.entries()
        return Books(entries, self._chain.now(entries), self.path)

    def _debit(self, books: Books, release_id: str) -> Debit:
        if release_id not in books.debits:
            raise BudgetError(f"The ledger {self.path} has no debit for release {release_id}. Release anew.")
        return books.debits[release_id]


def _used(debit: Debit) -> str:
    why = "was published or may have been"
    if debit.parallel is not None:
        why += f", or others of its parallel group '{debit.parallel}' were"
    return (
        f"By the ledger, release '{debit.release}' ({debit.release_id}) {why}, and its epsilon pays for"
        " nothing more. Release anew, which spends again."
    )
