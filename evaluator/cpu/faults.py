"""What went wrong in a candidate's process, as a verdict with one helpful message.

The record comes from the candidate's process, so it is evidence against the candidate only: nothing in it can make a
verdict better.
"""

import signal
import struct
from dataclasses import dataclass

from evaluator.cpu.layout import Hit, Layout
from evaluator.cpu.memory import Damage
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.plan.resolved import Resolved

RECORD = struct.Struct("<2IQ2IQ2i2Q2I16s")
READY, DONE, SIGNAL, FLOAT_CONTROL = 1, 2, 3, 4
CLOCK_READS = {b"\x0f\x31": "rdtsc", b"\x0f\x01\xf9": "rdtscp", b"\x0f\x33": "rdpmc"}
ADVICE = "Check bounds where the shape is no multiple of a tile."
GENERAL_PROTECTION = 128  # si_code SI_KERNEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One message of the host process, as in host/protocol.h."""

    kind: int
    sequence: int
    thread: int
    launch: int
    task: int
    signal: int
    code: int
    address: int
    instruction: int
    wrote: bool
    detail: int
    bytes: bytes


def unpack(data: bytes) -> Record:
    """The record in ``data`` (80 bytes)."""
    fields = RECORD.unpack(data)[1:]
    kind, sequence, thread, launch, task, number, code, address, instruction, wrote, detail, code_bytes = fields
    return Record(
        kind=kind,
        sequence=sequence,
        thread=thread,
        launch=launch,
        task=task,
        signal=number,
        code=code,
        address=address,
        instruction=instruction,
        wrote=bool(wrote),
        detail=detail,
        bytes=code_bytes,
    )


def is_done(data: bytes, sequence: int) -> bool:
    """True if ``data`` is the record that ends the command of that number."""
    if len(data) != RECORD.size:
        return False
    record = unpack(data)
    return record.kind == DONE and record.sequence == sequence


def fault(verdict: Verdict, message: str, resolved: Resolved, detail: str = "") -> Fault:
    """A fault of one scenario."""
    return Fault(verdict=verdict, stage=Stage.CHECK, message=message, detail=detail, scenario=resolved.scenario)


def explain_record(data: bytes, layout: Layout, resolved: Resolved) -> Fault:
    """The verdict on a message that isn't READY or the expected DONE."""
    if len(data) != RECORD.size:
        text = "The process sent a broken report; a kernel has nothing to report, remove what writes to pipes."
        return fault(Verdict.SANDBOX, text, resolved)
    record = unpack(data)
    launches = resolved.launches
    kernel = launches[record.launch].kernel if record.launch < len(launches) else "?"
    where = f"{kernel}, task {record.task}"
    if record.kind == FLOAT_CONTROL:
        state = f"floating-point control state (MXCSR {record.detail:#06x})"
        text = f"{where} changed the {state}; leave rounding and flush modes alone."
        return fault(Verdict.SANDBOX, text, resolved)
    if record.kind != SIGNAL:
        text = (
            f"The process reported out of turn (kind {record.kind}); a kernel has nothing to report, remove what writes to pipes."
        )
        return fault(Verdict.SANDBOX, text, resolved)
    if record.signal == signal.SIGSYS:
        text = f"{where} made system call {record.detail}; a kernel may make none, it computes from its arguments only."
        return fault(Verdict.SANDBOX, text, resolved)
    if record.signal == signal.SIGSEGV:
        return _explain_access(record, where, layout, resolved)
    names = {
        signal.SIGILL: "reached an instruction that does not exist (abort, __builtin_trap, or a missing return)",
        signal.SIGFPE: "divided an integer by zero or overflowed a division",
        signal.SIGBUS: "made an impossible memory access",
        signal.SIGTRAP: "hit a breakpoint",
    }
    text = names.get(signal.Signals(record.signal) if record.signal in set(signal.Signals) else signal.SIGTRAP, "stopped")
    return fault(Verdict.CRASH, f"{where} {text}.", resolved)


def _explain_access(record: Record, where: str, layout: Layout, resolved: Resolved) -> Fault:
    if record.code == GENERAL_PROTECTION:
        for code, name in CLOCK_READS.items():
            if record.bytes.startswith(code):
                text = f"{where} read a clock ({name}); time is taken outside, remove it."
                return fault(Verdict.SANDBOX, text, resolved)
        text = f"{where} used a misaligned or non-canonical address, or a privileged instruction."
        return fault(Verdict.CRASH, text, resolved, f"instruction bytes {record.bytes.hex()}")
    did = "wrote" if record.wrote else "read"
    hit = layout.locate(record.address)
    if hit is None:
        text = f"{where} {did} at address {record.address:#x}, which belongs to no buffer. Check the index arithmetic."
        return fault(Verdict.CRASH, text, resolved)
    launch = resolved.launches[record.launch] if record.launch < len(resolved.launches) else None
    names = [argument.name for argument in launch.args] if launch is not None else []
    index = names.index(hit.region.name) if hit.region.name in names else None
    return _explain_hit(hit, did, where, resolved, "" if index is None else f", args[{index}]")


def _explain_hit(hit: Hit, did: str, where: str, resolved: Resolved, argument: str) -> Fault:
    """``argument`` tells which argument of the launch the region is, where it is one: a shifted list shows by it."""
    region = hit.region
    if region.kind == "stack":
        text = f"{where} overflowed its stack; a worker has 1 MiB. Use smaller local arrays or a workspace."
        return fault(Verdict.CRASH, text, resolved)
    if region.kind == "arguments":
        passed = region.bytes // 8
        if did == "wrote":
            text = f"{where} wrote into its argument array; it is read-only."
            return fault(Verdict.OUT_OF_BOUNDS, text, resolved)
        index = passed + hit.past_bytes // 8 if not hit.before_bytes else -(-hit.before_bytes // 8) * -1
        text = f"{where} reads args[{index}], but the plan passes {passed} arguments. Make the plan's args and the kernel agree."
        return fault(Verdict.LAUNCH_ERROR, text, resolved)
    if region.kind == "scalars":
        text = f"{where} {did} at a scalar argument as if it were a tensor. Make the plan's args and the kernel agree."
        return fault(Verdict.LAUNCH_ERROR, text, resolved)
    if hit.inside:
        if region.kind == "input":
            name = f"{region.name!r}{argument}"
            text = f"{where} wrote into the input {name}; inputs are read-only. Write to an output or a workspace."
            return fault(Verdict.INPUT_MUTATED, text, resolved)
        text = f"{where} {did} where it may not, in or near {region.kind} {region.name!r}."
        return fault(Verdict.OUT_OF_BOUNDS, text, resolved)
    distance = _distance(hit.before_bytes, hit.past_bytes)
    text = f"{where} {did} {distance} of {region.name!r} ({region.bytes} bytes){argument}. {ADVICE}"
    return fault(Verdict.OUT_OF_BOUNDS, text, resolved)


def _distance(before_bytes: int, past_bytes: int) -> str:
    if before_bytes:
        return f"{before_bytes} bytes before the start"
    return f"{past_bytes} bytes past the end" if past_bytes else "right past the end"


def explain_end(status: int, resolved: Resolved) -> Fault:
    """The verdict on a process that ended without a record and without our doing."""
    if status == -signal.SIGKILL:
        text = "The candidate's process was killed from outside (out of memory?). Evaluate it again."
        return fault(Verdict.HARNESS_FAULT, text, resolved)
    if status == -signal.SIGSYS:
        text = "The kernel made a forbidden system call; it may make none, it computes from its arguments only."
        return fault(Verdict.SANDBOX, text, resolved)
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    text = f"The candidate's process ended by itself ({how}). Look for a smashed stack or a jump through a bad pointer."
    return fault(Verdict.CRASH, text, resolved)


def explain_damage(damage: Damage, resolved: Resolved) -> Fault:
    """The verdict on memory that isn't as honest executions leave it."""
    name = damage.block.buffer.name
    if damage.what == "input":
        text = f"The input {name!r} changed while the candidate ran; inputs are read-only."
        return fault(Verdict.INPUT_MUTATED, text, resolved)
    if damage.what == "reset":
        text = (
            f"The workspace {name!r} is declared self_resetting but isn't zero after the last launch (first at byte "
            f"{damage.distance_bytes}). Reset it in the kernel, or drop self_resetting."
        )
        return fault(Verdict.STALE_OUTPUT, text, resolved)
    before = damage.what == "before"
    distance = _distance(damage.distance_bytes if before else 0, 0 if before else damage.distance_bytes)
    text = f"A task wrote {distance} of {name!r}. {ADVICE}"
    return fault(Verdict.OUT_OF_BOUNDS, text, resolved)
