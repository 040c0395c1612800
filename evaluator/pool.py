"""The secret pool: input sets of a session, their float64 answers, and the exact transforms under which they are shown.

A pool is made from a secret that no candidate has seen. Members are drawn once and kept while memory allows; one that was
dropped is made again from the same secret. What a side gets is a member under a random exact transform, so contents are always
new and always checkable, and the float64 work is paid once per member.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluator.backend import Array
from evaluator.dtypes import element_type
from evaluator.task import Task
from evaluator.task_card import Scenario
from evaluator.tolerance import Tolerance
from evaluator.transforms import IDENTITY, Transform

SHORT_BYTES = 2

Entropy = Callable[[int], bytes]
"""That many secret random bytes, such as ``os.urandom``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One input set with its answers: inputs in their storage dtypes, expected outputs, tolerance per output.

    Expected outputs are float64; on a device those of 16-bit tensors are kept as float32, which is off by less than
    1e-4 of the unit in the last place that every tolerance allows.
    """

    key: str
    scenario: Scenario
    distribution: str
    inputs: Mapping[str, Array]
    expected: Mapping[str, NDArray[np.float64]]
    tolerances: Mapping[str, Tolerance]

    @property
    def size_bytes(self) -> int:
        """Memory of inputs, expected outputs and tolerances, where they live."""
        allowed = (tolerance.row_allowed for tolerance in self.tolerances.values())
        return sum(array.nbytes for array in (*self.inputs.values(), *self.expected.values(), *allowed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A member as a side sees it: ``inputs`` are transformed; outputs must be undone before they are compared."""

    member: Member
    transform: Transform
    inputs: Mapping[str, Array]

    def undo(self, outputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """The outputs as the untransformed member would have given them."""
        return self.transform.undo(outputs)


class Pool:
    """The input sets of one session, as arrays of ``xp`` (numpy or cupy: they live where the backend's sides compare).

    Members take up to ``most_bytes``, on a device no more than a third of its memory. Beyond that those of other scenarios go
    first, the latest of them foremost: evaluations walk through the same scenarios again and again, so what was used last is
    needed last, and of a set a little too large for the memory a part stays. Not thread-safe: one evaluation uses it at a time.
    """

    def __init__(self, task: Task, most_bytes: int, secret: bytes, xp: Any = np) -> None:
        self._task = task
        self._xp = xp
        self._most_bytes = most_bytes
        self._secret = secret
        self._members: dict[str, Member] = {}
        self._peers: dict[str, Mapping[str, Array] | None] = {}
        self._held_bytes = 0

    def draw(self, scenario: Scenario, distribution: str, rng: np.random.Generator, members: int = 1) -> Draw:
        """One of the first ``members`` of the scenario and distribution under a transform, both picked by ``rng``."""
        member = self.member(scenario, distribution, int(rng.integers(members)))
        transform = self._task.transform(scenario.symbols, rng)
        return Draw(member=member, transform=transform, inputs=transform.apply(member.inputs))

    def fresh(self, scenario: Scenario, distribution: str, rng: np.random.Generator) -> Draw:
        """A member that nobody has seen and that isn't kept, untransformed."""
        member = self._make(scenario, distribution, f"{scenario.name}\n{distribution}\nfresh {int(rng.integers(2**62))}")
        return Draw(member=member, transform=IDENTITY, inputs=member.inputs)

    def member(self, scenario: Scenario, distribution: str, index: int) -> Member:
        """The member with that number, from memory or made again from the secret."""
        key = f"{scenario.name}\n{distribution}\n{index}"
        found = self._members.pop(key, None)
        if found is None:
            found = self._make(scenario, distribution, key)
            self._held_bytes += found.size_bytes
        self._members[key] = found
        while self._held_bytes > self._most_bytes and len(self._members) > 1:
            self._drop(self._least_wanted(found))
        return found

    def peer(self, member: Member, make: Callable[[], Mapping[str, Array] | None]) -> Mapping[str, Array] | None:
        """What the baseline gave for a member (None: it couldn't), made at most once while the member is kept."""
        if member.key not in self._members:
            return make()
        if member.key not in self._peers:
            self._peers[member.key] = found = make()
            self._held_bytes += _bytes_of(found)
        return self._peers[member.key]

    @property
    def held_bytes(self) -> int:
        """Memory of all members kept now and of their peers, where they live."""
        return self._held_bytes

    def _least_wanted(self, wanted: Member) -> str:
        others = [member for member in self._members.values() if member is not wanted]
        elsewhere = [member for member in others if member.scenario.name != wanted.scenario.name]
        return elsewhere[-1].key if elsewhere else others[0].key

    def _drop(self, key: str) -> None:
        self._held_bytes -= self._members.pop(key).size_bytes + _bytes_of(self._peers.pop(key, None))

    def _make(self, scenario: Scenario, distribution: str, key: str) -> Member:
        seed = hashlib.sha256(self._secret + key.encode()).digest()
        rng = np.random.default_rng(int.from_bytes(seed))
        inputs = self._task.inputs(scenario.symbols, distribution, rng, self._xp)
        expected = self._task.reference(scenario.symbols, inputs)
        tolerances = self._task.tolerances(scenario.symbols, inputs, expected)
        if self._xp is not np:
            expected = {name: _shortened(array, tolerances[name].dtype) for name, array in expected.items()}
        return Member(
            key=key,
            scenario=scenario,
            distribution=distribution,
            inputs=inputs,
            expected=expected,
            tolerances=tolerances,
        )


def _shortened(expected: Any, dtype: str) -> Any:
    """As float32 where the output has half of its mantissa or less."""
    return expected.astype(np.float32) if element_type(dtype).bytes == SHORT_BYTES else expected


def _bytes_of(outputs: Mapping[str, Array] | None) -> int:
    return sum(array.nbytes for array in (outputs or {}).values())


def random_stream(entropy: Entropy) -> np.random.Generator:
    """A generator seeded with 256 fresh secret bits."""
    return np.random.default_rng(int.from_bytes(entropy(32)))
