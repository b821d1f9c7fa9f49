"""PRIVATE: exact discrete Laplace noise from a cryptographic keystream; nothing else draws randomness.

No float takes part in a draw. A uniform U in [0, 1) is revealed bit by bit, just far enough to tell on which
side of each cut of a cumulative distribution it lies; the cuts are known to any precision asked for.
"""

import hashlib
import math
import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Self

import mpmath
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from dpcli.privacy.cost import WIDEST_SCALE

Ints = NDArray[np.int64]
Words = NDArray[np.unsignedinteger[Any]]
Cuts = Callable[[Any], list[Any]]  # mpmath context -> increasing irrational numbers in (0, 1)
Widths = tuple[int, int, int]  # bits of U to look at: a word that indexes a table, a second word, then more
_OPEN = np.iinfo(np.int64).min  # stands in a table where one word does not settle the draw


class Keystream:
    """Random words from AES-256 in counter mode. One keystream belongs to one thread; `spawn` for others.

    The counter only moves forward, no two streams share a key (except a seed repeated on purpose), and a
    forked process is refused its parent's stream: no byte is handed out twice.
    """

    def __init__(self, key: bytes, *, private: bool) -> None:
        self.private = private
        self._cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
        self._process = os.getpid()

    @classmethod
    def from_os(cls) -> Self:
        """A stream keyed by the operating system: the one to publish with."""
        return cls(os.urandom(32), private=True)

    @classmethod
    def from_seed(cls, seed: int) -> Self:
        """A reproducible stream for fixtures. NOT PRIVATE: whoever knows the seed can subtract the noise."""
        return cls(hashlib.sha256(f"dpcli noise, seed {seed:d}".encode()).digest(), private=False)

    def spawn(self) -> Self:
        """An independent child, keyed by the next 32 bytes of this stream."""
        return type(self)(self.words(32, np.uint8).tobytes(), private=self.private)

    def words(self, count: int, dtype: type[np.unsignedinteger[Any]]) -> Words:
        """The next `count` unsigned integers of the stream."""
        if os.getpid() != self._process:
            raise RuntimeError("this keystream belongs to the parent process: make one with from_os() here")
        return np.frombuffer(self._cipher.update(bytes(count * np.dtype(dtype).itemsize)), dtype)

    def bits(self, count: int, width: int) -> Words:
        """The next `count` uniform integers of `width` <= 64 bits."""
        kind = np.uint8 if width <= 8 else np.uint16 if width <= 16 else np.uint64
        words, spare = self.words(count, kind), 8 * np.dtype(kind).itemsize - width
        return np.right_shift(words, np.uint8(spare)) if spare else words

    def token(self) -> str:
        """32 hexadecimal digits, to name a release."""
        return self.words(16, np.uint8).tobytes().hex()


def _floors(cuts: Cuts, bits: int) -> list[int]:
    """floor(t·2^bits) for every cut t, with certainty.

    Proof: for g = 128, 256, … the cuts are computed with bits + 2g binary digits. The few roundings behind a
    cut are amplified less than 2^60 times by powers and differences, so its error is below 2^−(bits+g), and
    t·2^(bits+g) lies strictly between s−1 and s+2, s being the computed whole part. If s−1 and s+1, held
    within 0 < t < 1, agree in all but their last g bits, the rest is floor(t·2^bits). If not, g doubles. This
    ends: a cut is a non-constant rational function of some e^(1/n), hence transcendental (Lindemann).
    """
    context, guard = mpmath.mp.clone(), 64  # a context of our own: the global one is shared by all threads
    while True:
        guard *= 2
        context.prec = bits + 2 * guard
        whole = [int(context.ldexp(cut, bits + guard)) for cut in cuts(context)]
        low = [max(s - 1, 0) >> guard for s in whole]
        if low == [min(s + 1, (1 << bits + guard) - 1) >> guard for s in whole]:
            return low


class _Table:
    """Draws values[number of cuts below U], that is, values[i] with probability t_(i+1) − t_i exactly.

    Proof: let u be the bits of U seen so far, an integer of b bits, and c = floor(t·2^b). If c < u then
    t < U; if c > u then t > U; only c = u leaves the cut t undecided. A guide entry is a value only if its
    word leaves no cut undecided; a search settles the draw if the second word leaves none; `_settle` goes on
    until none is left. No comparison rests on a rounded number, and P(more than b bits) <= (cuts)/2^b.
    """

    def __init__(self, cuts: Cuts, values: Sequence[int], widths: Widths) -> None:
        self._cuts, self._values, self._widths = cuts, np.array(values, np.int64), widths
        self._floors = np.array(_floors(cuts, widths[0] + widths[1]), np.uint64)
        undecided = (self._floors >> np.uint64(widths[1])).astype(np.int64)
        self._guide = self._values[np.searchsorted(undecided, np.arange(1 << widths[0]))]
        self._guide[undecided] = _OPEN

    def fill(self, keystream: Keystream, out: Ints) -> Ints:
        """Overwrite `out` with draws; return the places where one word was not enough."""
        first, second, _ = self._widths
        words = keystream.bits(out.size, first)
        self._guide.take(words, out=out, mode="wrap")  # every word is a valid index: nothing wraps
        slow = np.flatnonzero(out == _OPEN)
        seen = words[slow].astype(np.uint64) << np.uint64(second) | keystream.bits(slow.size, second)
        index = np.searchsorted(self._floors, seen)
        for tie in np.flatnonzero(self._floors.take(index, mode="clip") == seen):
            index[tie] = self._settle(keystream, int(seen[tie]))
        out[slow] = self._values[index]
        return slow

    def _settle(self, keystream: Keystream, seen: int) -> int:
        """The number of cuts below U, where `seen`, the first two words of U, leaves some cut undecided."""
        bits, more = self._widths[0] + self._widths[1], self._widths[2]
        while True:
            fresh = int.from_bytes(keystream.words(more // 8, np.uint8).tobytes(), "big")
            seen, bits = seen << more | fresh, bits + more
            floors = _floors(self._cuts, bits)
            if seen not in floors:
                return sum(floor < seen for floor in floors)


class DiscreteLaplace:
    """P(z) = (1−q)/(1+q)·q^|z| on the integers, q = e^(−1/λ), for a rational scale 0 < λ <= 2^40.

    A draw is z = G with probability 1/(1+q), else −1−G, where P(G = g) = (1−q)·q^g. For a large λ, G has
    digits, G = L + 2^b·H, L < 2^b. As −1−G is G with every bit flipped, z = (2^b·H or −1−2^b·H) XOR L.

    Proof: 1/(1+q)·(1−q)·q^g = P(z = g) and q/(1+q)·(1−q)·q^g = P(z = −1−g). As q^G = q^L·(q^(2^b))^H, the
    digits are independent: H is geometric of ratio q^(2^b), and a digit of L that counts 2^p is geometric of
    ratio q^(2^p) among its values. Side and H come from one table, every digit of L from its own.
    """

    def __init__(self, scale: Fraction, *, widths: Widths = (16, 48, 256), chunk: int = 1 << 16) -> None:
        if not isinstance(scale, Fraction):
            raise TypeError(f"a noise scale is a Fraction, not {scale!r}: write Fraction('0.1'), not 0.1")
        if not 0 < scale <= WIDEST_SCALE:
            raise ValueError(f"a noise scale must be above 0 and at most 2^40, not {scale}")
        self.scale, self._chunk = scale, chunk
        low = 0 if scale <= 48 else (math.ceil(scale / 16) - 1).bit_length()  # this is b: λ/2^b <= 16
        kept = math.ceil(23 * scale / 2**low)  # H < kept but for a probability of e^−23
        self._reach = kept << low
        near = range(0, self._reach, 1 << low)
        values = [_OPEN, *(~h for h in reversed(near)), *near, _OPEN]
        self._high = _Table(partial(self._high_cuts, low, kept), values, widths)
        self._low = []
        for place in range(0, low, 8):
            size = 1 << min(8, low - place)
            digits = range(0, size << place, 1 << place)
            self._low.append(_Table(partial(self._low_cuts, place, size), digits, widths))

    def _high_cuts(self, low: int, kept: int, m: Any) -> list[Any]:
        """P(z < 0, H >= k) = q·r^k/(1+q), k = kept … 0, then 1 − r^k/(1+q), k = 1 … kept; r = q^(2^low)."""
        q, r = m.exp(-1 / self.scale), m.exp(-(2**low) / self.scale)
        tails = [r**k / (1 + q) for k in range(kept + 1)]
        return [q * tail for tail in reversed(tails)] + [1 - tail for tail in tails[1:]]

    def _low_cuts(self, place: int, size: int, m: Any) -> list[Any]:
        """P(digit < k) = (1 − r^k)/(1 − r^size) for k = 1 … size − 1; r = q^(2^place)."""
        r = m.exp(-(2**place) / self.scale)
        return [(1 - r**k) / (1 - r**size) for k in range(1, size)]

    def sample(self, keystream: Keystream, count: int) -> Ints:
        """`count` independent draws, in chunks that stay in the processor's cache."""
        out, digit = np.empty(count, np.int64), np.empty(min(count, self._chunk), np.int64)
        for start in range(0, count, self._chunk):
            part = out[start : start + self._chunk]
            self._fill_high(keystream, part)
            for table in self._low:
                table.fill(keystream, digit[: part.size])
                part ^= digit[: part.size]
        return out

    def _fill_high(self, keystream: Keystream, out: Ints) -> None:
        """Overwrite `out` with 2^b·H, or −1 − 2^b·H on the negative side.

        Proof: H is memoryless and independent of the side: given H >= kept, (side, H − kept) has the law of
        (side, H). Draw it afresh and move it outward by kept·2^b < 2^45. Overflow would take 2^18 such events
        in a row, each of probability e^−23; Python's recursion limit raises long before.
        """
        slow = self._high.fill(keystream, out)
        far = slow[out[slow] == _OPEN]
        if far.size:
            again = np.empty(far.size, np.int64)
            self._fill_high(keystream, again)
            out[far] = again + np.where(again < 0, -self._reach, self._reach)


@lru_cache(maxsize=128, typed=True)  # typed, or 2.0 would pass for Fraction(2)
def discrete_laplace(scale: Fraction) -> DiscreteLaplace:
    """The sampler of a scale, its tables built once; threads can share it, each with its own keystream."""
    return DiscreteLaplace(scale)
