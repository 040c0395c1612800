"""A side of which every finished batch is seen on its way: to count it, or to count it differently."""

from collections.abc import Callable, Mapping, Sequence

from evaluator.backend import Array, Ran, Side
from evaluator.outcome import Fault


class SeenSide:
    """Implements ``evaluator.backend.Side`` by another side; ``see`` gets what each batch came to and gives what it counts as."""

    def __init__(self, side: Side, see: Callable[[Ran], Ran]) -> None:
        self.slots, self.facts = side.slots, side.facts
        self._side, self._see = side, see

    def fill(self, slot: int, inputs: Mapping[str, Array], poison: int) -> None:
        """See ``evaluator.backend.Side``."""
        self._side.fill(slot, inputs, poison)

    def run(self, slots: Sequence[int], deadline_s: float) -> Ran | Fault:
        """See ``evaluator.backend.Side``."""
        ran = self._side.run(slots, deadline_s)
        return ran if isinstance(ran, Fault) else self._see(ran)

    def read(self, slot: int) -> Mapping[str, Array]:
        """See ``evaluator.backend.Side``."""
        return self._side.read(slot)

    def audit(self) -> Fault | None:
        """See ``evaluator.backend.Side``."""
        return self._side.audit()

    def close(self) -> None:
        """See ``evaluator.backend.Side``."""
        self._side.close()
