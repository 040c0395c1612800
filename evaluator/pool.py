"""The secret pool: input sets of a session, their float64 answers, and the exact transforms under which they are shown.

A pool is made from a secret that no candidate has seen. Members are drawn once and kept while memory allows; one that was
dropped is made again from the same secret. What a side gets is a member under a random exact transform, so contents are always
new and always checkable, and the float64 work is paid once per member.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluator.backend import Array
from evaluator.task import Task
from evaluator.task_card import Scenario
from evaluator.tolerance import Tolerance
from evaluator.transforms import IDENTITY, Transform

Entropy = Callable[[int], bytes]
"""That many secret random bytes, such as ``os.urandom``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One input set with its answers: inputs in their storage dtypes, expected outputs in float64, tolerance per output."""

    key: str
    scenario: Scenario
    distribution: str
    inputs: Mapping[str, Array]
    expected: Mapping[str, NDArray[np.float64]]
    tolerances: Mapping[str, Tolerance]

    @property
    def size_bytes(self) -> int:
        """Memory of inputs and expected outputs, where they live."""
        return sum(array.nbytes for array in (*self.inputs.values(), *self.expected.values()))


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

    Not thread-safe: one evaluation uses it at a time.
    """

    def __init__(self, task: Task, most_bytes: int, secret: bytes, xp: Any = np) -> None:
        self._task = task
        self._xp = xp
        self._most_bytes = most_bytes
        self._secret = secret
        self._members: OrderedDict[str, Member] = OrderedDict()
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
            oldest_key, oldest = self._members.popitem(last=False)
            self._peers.pop(oldest_key, None)
            self._held_bytes -= oldest.size_bytes
        return found

    def peer(self, member: Member, make: Callable[[], Mapping[str, Array] | None]) -> Mapping[str, Array] | None:
        """What the baseline gave for a member (None: it couldn't), made at most once while the member is kept."""
        if member.key not in self._peers:
            self._peers[member.key] = make()
        return self._peers[member.key]

    @property
    def held_bytes(self) -> int:
        """Memory of all members kept now, where they live."""
        return self._held_bytes

    def _make(self, scenario: Scenario, distribution: str, key: str) -> Member:
        seed = hashlib.sha256(self._secret + key.encode()).digest()
        rng = np.random.default_rng(int.from_bytes(seed))
        inputs = self._task.inputs(scenario.symbols, distribution, rng, self._xp)
        expected = self._task.reference(scenario.symbols, inputs)
        return Member(
            key=key,
            scenario=scenario,
            distribution=distribution,
            inputs=inputs,
            expected=expected,
            tolerances=self._task.tolerances(scenario.symbols, inputs, expected),
        )


def random_stream(entropy: Entropy) -> np.random.Generator:
    """A generator seeded with 256 fresh secret bits."""
    return np.random.default_rng(int.from_bytes(entropy(32)))
