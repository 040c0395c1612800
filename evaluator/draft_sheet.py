"""Guesses what each parameter of a kernel stands for, and writes the plan that says so."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from evaluator.plan.model import DEVICE_FACTS
from evaluator.plan.names import identifier_problem
from evaluator.signatures import Function, Parameter
from evaluator.task_card import TaskCard, TensorSpec
from population.candidate import Language

_DTYPES = {"float": "fp32", "__half": "fp16", "half": "fp16", "__nv_bfloat16": "bf16", "nv_bfloat16": "bf16"}
_INTEGERS = ("int", "int32_t", "uint32_t", "std::int32_t", "std::uint32_t")
_WIDE_INTEGERS = (
    "long",
    "long long",
    "long int",
    "size_t",
    "std::size_t",
    "int64_t",
    "std::int64_t",
    "uint64_t",
    "bool",
    "short",
)
_FLOATS = ("float", "double", "half", "__half", "__nv_bfloat16")
_ALIASES: Mapping[str, tuple[str, ...]] = {
    "b": ("batch", "batchsize", "nbatch", "bs"),
    "h": ("heads", "nheads", "numheads", "nh", "hq"),
    "hkv": ("kvheads", "numkvheads", "nkvheads", "headskv", "numheadskv", "hk"),
    "sq": ("seqlen", "seqlenq", "seqlength", "seq", "n", "s", "t", "lq", "nq", "qlen"),
    "sk": ("seqlenk", "seqlenkv", "skv", "lk", "nk", "nkv", "kvlen", "klen"),
    "d": ("headdim", "dim", "hdim", "dhead", "dh"),
    "causal": ("iscausal",),
    "out": ("o", "output", "result"),
    "lse": ("l", "softmaxlse", "logsumexp"),
    "scale": ("softmaxscale", "smscale", "scaling"),
}


@dataclass(slots=True, kw_only=True)
class Sheet:
    """A plan in the making: one call of ``add`` for each kernel, then ``plan``. Remarks are appended for the person."""

    card: TaskCard
    language: Language
    remarks: list[str]
    workspaces: list[str] = field(default_factory=list)
    maps: list[str] = field(default_factory=list)
    scalars: list[str] = field(default_factory=list)
    launches: list[str] = field(default_factory=list)
    dtypes: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    given: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.taken = {*self.card.symbols, *self.card.scalars, *DEVICE_FACTS, *(tensor.name for tensor in self.card.tensors)}

    def add(self, function: Function) -> None:
        """Add a launch of the kernel."""
        name = function.name
        if identifier_problem(name) is not None or name in self.taken:
            name = self.fresh(f"{name}_kernel")
            self.remarks.append(f"a plan can't use the kernel name {function.name}; rename it to {name} in the source")
        self.taken.add(name)
        lines = ["[[launch]]", f'kernel = "{name}"', f"grid = {self.grid()}  # check: blocks in x, y, z that cover the output"]
        if self.language is Language.CUDA:
            bounds = function.numbers_of("__launch_bounds__")
            threads = bounds[0] if bounds and 1 <= bounds[0] <= 1024 else 128
            lines.append(f"block = [{threads}]  # check: threads in x, y, z")
            if cluster := function.numbers_of("__cluster_dims__"):
                lines.append(f"cluster = {list(cluster[:3])}")
            lines.append("shared = 0  # check: bytes of dynamic shared memory, 0 if the kernel has no extern __shared__ array")
        self.launches.append("\n".join([*lines, "args = [", *self.arguments(function.parameters), "]"]))

    def grid(self) -> str:
        """A grid over the first output: tiles of its second axis, then the axes between, then the first."""
        output = next((tensor for tensor in self.card.tensors if tensor.role == "output"), self.card.tensors[0])
        axes = list(output.shape[:-1]) or list(output.shape)
        if len(axes) > 1:
            axes = [axes[1], *axes[2:], axes[0]]
        return "[" + ", ".join([f'"ceil_div({axes[0]}, 64)"', *(f'"{axis}"' for axis in axes[1:3])]) + "]"

    def arguments(self, parameters: tuple[Parameter, ...]) -> list[str]:
        """The lines of ``args``, one a parameter, doubtful ones marked."""
        named: dict[str, str] = {}
        for parameter in parameters:
            tensor = self.tensor_called(parameter.name) if parameter.pointer else None
            if tensor is not None and tensor.name not in named.values():
                named[parameter.name] = tensor.name
        rest = [tensor for tensor in self.card.tensors if tensor.name not in named.values()]
        lines = []
        for parameter in parameters:
            if parameter.pointer:
                name, sure = self.pointer(parameter, named, rest)
            else:
                name, sure = self.by_value(parameter, rest)
            if name:
                lines.append(f'    "{name}",  # {"" if sure else "check: "}{_comment(parameter.text)}')
        if lines:
            return lines
        tensors = [tensor.name for tensor in self.card.tensors]
        integers = [symbol for symbol in self.card.symbols if symbol != "dtype"]
        self.given.update(tensors, integers)
        return [f'    "{name}",  # check: its place' for name in (*tensors, *self.card.scalars, *integers)]

    def tensor_called(self, name: str) -> TensorSpec | None:
        """The tensor that a name means by itself."""
        wanted = _matching(name, (tensor.name for tensor in self.card.tensors))
        return next((tensor for tensor in self.card.tensors if tensor.name == wanted), None)

    def pointer(self, parameter: Parameter, named: Mapping[str, str], rest: list[TensorSpec]) -> tuple[str, bool]:
        """The tensor of a pointer by name, else the next input (const) or output, else a new workspace; whether that is sure."""
        name = named.get(parameter.name)
        if name is None:
            role = "input" if parameter.const else "output"
            next_one = next((tensor for tensor in rest if tensor.role == role), None)
            if next_one is None:
                return self.workspace(parameter), False
            rest.remove(next_one)
            name = next_one.name
        self.given.add(name)
        spec = next(tensor for tensor in self.card.tensors if tensor.name == name)
        if spec.dtype == "dtype" and parameter.type in _DTYPES:
            self.dtypes.add(_DTYPES[parameter.type])
        return name, parameter.name.lower() == name

    def workspace(self, parameter: Parameter) -> str:
        """A new workspace for a pointer that no tensor of the task is left for."""
        name = self.fresh(parameter.name)
        dtype = "int32" if parameter.type in _INTEGERS else "float32"
        self.workspaces.append(f'{name} = {{ dtype = "{dtype}", shape = [1] }}  # check: scratch memory, its dtype and size')
        return name

    def by_value(self, parameter: Parameter, rest: list[TensorSpec]) -> tuple[str, bool]:
        """The symbol, float argument or tensor map of a parameter passed by value; "" where nothing can be passed."""
        if parameter.type in _FLOATS:
            return self.float_argument(parameter)
        if parameter.type in (*_INTEGERS, *_WIDE_INTEGERS):
            if parameter.type in _WIDE_INTEGERS:
                self.remarks.append(f"integers are passed as int32; declare `{_comment(parameter.text)}` as int")
            symbol = _matching(parameter.name, (symbol for symbol in self.card.symbols if symbol != "dtype"))
            if symbol is not None:
                self.given.add(symbol)
                return symbol, parameter.name.lower() == symbol
            name = self.fresh(parameter.name)
            self.scalars.append(f'{name} = 1  # check: write its value, such as "sq * d"')
            return name, False
        if self.language is Language.CUDA and "map" in parameter.type.lower():
            return self.tensor_map(parameter, rest), False
        self.remarks.append(f"`{_comment(parameter.text)}` can't be passed; take tensors, int32 and float32 arguments instead")
        return "", False

    def float_argument(self, parameter: Parameter) -> tuple[str, bool]:
        """The task's float argument of this name, or its first; "" where it has none."""
        if parameter.type != "float":
            self.remarks.append(f"floating-point values are passed as float32; declare `{_comment(parameter.text)}` as float")
        name = _matching(parameter.name, self.card.scalars) or next(iter(self.card.scalars), "")
        if not name:
            self.remarks.append(f"the task passes no float; compute `{parameter.name}` in the kernel and drop the parameter")
        return name, parameter.name == name

    def tensor_map(self, parameter: Parameter, rest: list[TensorSpec]) -> str:
        """A new tensor map over the tensor that the parameter's name mentions, or the next unused one."""
        words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", parameter.name)
        mentioned = [tensor for word in words if (tensor := self.tensor_called(word)) is not None]
        tensor = (mentioned or rest or list(self.card.tensors))[0]
        if tensor in rest:
            rest.remove(tensor)
        self.given.add(tensor.name)
        name = self.fresh(parameter.name)
        outer = tensor.axes[1] if len(tensor.axes) > 2 else tensor.axes[0]
        box = ", ".join(f"{axis} = 64" for axis in dict.fromkeys((outer, tensor.axes[-1])))
        self.maps.append(f'{name} = {{ tensor = "{tensor.name}", box = {{ {box} }} }}  # check: box, split and swizzle')
        return name

    def fresh(self, name: str) -> str:
        """A name like this one that a plan may introduce."""
        base = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_]", "_", name)).strip("_")[:48].rstrip("_") or "value"
        tried = (base if number == 0 else f"{base}_{number}" for number in count())
        found = next(one for one in tried if identifier_problem(one) is None and one not in self.taken)
        self.taken.add(found)
        return found

    def plan(self) -> str:
        """The plan comment."""
        for tensor in self.card.tensors:
            if tensor.role == "output" and tensor.name not in self.given:
                self.remarks.append(f"no parameter seems to be `{tensor.name}`, an output that some launch must write")
        unused = [symbol for symbol in self.card.symbols if symbol != "dtype" and symbol not in self.given]
        if unused:
            self.remarks.append(
                f"no parameter is {', '.join(f'`{symbol}`' for symbol in unused)}: where the kernel is right only for some of "
                f'its values, say so in domain, such as "{unused[-1]} == 0"'
            )
        domain = f"dtype == '{min(self.dtypes)}'" if len(self.dtypes) == 1 and "dtype" in self.card.symbols else "1"
        parts = [
            "/* plan\n# A draft made from the signature; look at every line marked check:",
            f'domain = "{domain}"  # check: the scenarios in which the kernel is right',
            *_tables(workspace=self.workspaces, tensor_maps=self.maps, scalars=self.scalars),
            *(f"\n{launch}" for launch in self.launches),
            "*/",
        ]
        return "\n".join(parts)


def _tables(**tables: list[str]) -> Iterable[str]:
    for name, lines in tables.items():
        if lines:
            yield "\n".join([f"\n[{name}]", *lines])


def _plain(name: str) -> str:
    return name.lower().replace("_", "").removesuffix("ptr")


def _matching(name: str, known: Iterable[str]) -> str | None:
    """The known name that ``name`` equals but for case, underscores, a ``ptr`` at the end, or a usual other word for it."""
    plain = _plain(name)
    return next((one for one in known if plain == _plain(one) or plain in _ALIASES.get(one, ())), None)


def _comment(text: str) -> str:
    """A parameter as text that may stand in a comment of the plan."""
    clean = "".join(letter for letter in text if letter.isprintable()).replace("*/", "* /")
    return clean if len(clean) <= 80 else clean[:77] + "..."
