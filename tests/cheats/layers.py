"""What an attack is, and the layers of the harness that catch one."""

from dataclasses import dataclass
from enum import StrEnum


class Layer(StrEnum):
    """What of the harness catches an attack."""

    FORMAT = "a candidate has no place for it"
    SCREEN = "the plan is judged before anything is compiled"
    COMPILER = "compiling happens in a sandbox with limits"
    LOG = "logs are data: foreign text and controls are cut"
    GATE = "the compiled file is judged"
    SEAL = "the process may not do it"
    FENCE = "memory ends where a buffer ends, or canaries tell"
    READ_ONLY = "inputs can't be written, or a checksum tells"
    POISON = "outputs and workspaces are poisoned before each execution"
    REPEAT = "the same inputs give the same bits"
    COMPARE = "every element is compared with the reference"
    DISTRIBUTIONS = "inputs break shortcuts, stress is blended into ordinary data"
    TIMED = "every timed execution has new contents and is compared"
    HIDDEN = "a final has shapes and secrets that nobody knows"
    DEADLINE = "the process is killed in time"
    LAUNCH = "the driver's answer to each launch is read"
    FLUSH = "the cache is flushed before each timed execution, outside the clock"
    APART = "expected outputs and the baseline live in other processes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack: what stands for it on the GPU and on the CPU, and the layers in the order in which they meet it.

    ``without_first`` names tests that show the next layer catching it with the first one off. ``harmless``: nothing need be
    caught, because nothing is gained; the forms show that.
    """

    what: str
    layers: tuple[Layer, ...]
    cuda: tuple[str, ...] = ()
    cpu: tuple[str, ...] = ()
    shown_by: tuple[str, ...] = ()
    without_first: tuple[str, ...] = ()
    harmless: bool = False
