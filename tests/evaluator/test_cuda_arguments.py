"""Kernel arguments, launch configurations and tensor maps as the driver will read them. The bindings load without a GPU."""

import ast
import ctypes
import inspect
import struct

import pytest

pytest.importorskip("cuda.bindings.driver")

from dataclasses import replace
from pathlib import Path

from evaluator.cuda import driver
from evaluator.cuda.driver import api
from evaluator.cuda.launches import cluster_size, configuration, pack
from evaluator.cuda.tensor_maps import encoding
from evaluator.plan.resolved import Argument, ArgumentKind, TensorMap
from tests.contracts import vector_scale

TENSOR, INT, FLOAT, MAP = (
    Argument(name="x", kind=ArgumentKind.TENSOR),
    Argument(name="n", kind=ArgumentKind.INT32, value=-7),
    Argument(name="s", kind=ArgumentKind.FLOAT32, value=2.5),
    Argument(name="map", kind=ArgumentKind.TENSOR_MAP),
)
VALUES = {"x": 0x7F12_3456_7890, "n": -7, "s": 2.5, "map": bytes(range(128))}


def test_arguments_lie_where_their_pointers_say() -> None:
    packed = pack([TENSOR, INT, MAP, FLOAT, MAP], lambda argument: VALUES[argument.name])
    places = (ctypes.c_void_p * 5).from_address(packed.address)
    pointer, number, first, real, second = (place for place in places)
    assert struct.unpack("<Q", ctypes.string_at(pointer, 8)) == (0x7F12_3456_7890,)
    assert struct.unpack("<i", ctypes.string_at(number, 4)) == (-7,)
    assert struct.unpack("<f", ctypes.string_at(real, 4)) == (2.5,)
    for place in (first, second):
        assert place % 64 == 0
        assert ctypes.string_at(place, 128) == bytes(range(128))


def test_a_kernel_without_arguments() -> None:
    assert pack([], lambda argument: 0).address


def words(config: object) -> list[int]:
    """The start of CUlaunchConfig: grid, block, dynamic shared memory."""
    return list(struct.unpack("<7I", ctypes.string_at(int(config.getPtr()), 28)))  # type: ignore[attr-defined]


LAUNCH = replace(
    vector_scale.launch(1000), grid=(4, 3, 2), block=(128, 2, 1), cluster=(2, 1, 1), cooperative=True, shared_bytes=70_000
)


def test_a_configuration_with_cluster_and_cooperation() -> None:
    config = configuration(LAUNCH, 9, fixed_cluster=False)
    assert words(config) == [4, 3, 2, 128, 2, 1, 70_000]
    assert int(config.hStream) == 9
    assert config.numAttrs == 2
    cluster, cooperative = config.attrs
    assert cluster.id == api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    assert (cluster.value.clusterDim.x, cluster.value.clusterDim.y, cluster.value.clusterDim.z) == (2, 1, 1)
    assert cooperative.id == api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    assert cooperative.value.cooperative == 1


@pytest.mark.parametrize(("cluster", "fixed"), [((2, 1, 1), True), ((1, 1, 1), False)])
def test_a_cluster_that_needs_no_attribute(cluster: tuple[int, int, int], fixed: bool) -> None:
    launch = replace(LAUNCH, cluster=cluster, cooperative=False)
    assert configuration(launch, 0, fixed_cluster=fixed).numAttrs == 0


def test_the_size_of_a_cluster() -> None:
    assert cluster_size(replace(LAUNCH, cluster=(2, 2, 1))) == 4


SPLIT = TensorMap(
    name="k_map",
    tensor="k",
    dtype="bf16",
    dims=(64, 4096, 2, 16, 4),
    strides_bytes=(4096, 128, 256, 16_777_216),
    box=(64, 128, 2, 1, 1),
    swizzle="128B",
    l2_promotion=256,
)


def test_a_split_map_of_rank_five_keeps_its_order() -> None:
    found = encoding(SPLIT)
    assert found.rank == 5
    assert found.dims == (64, 4096, 2, 16, 4)
    assert found.strides_bytes == (4096, 128, 256, 16_777_216)
    assert found.box == (64, 128, 2, 1, 1)


def calls() -> list[tuple[str, int]]:
    """Each driver function that our modules call, with how many arguments."""
    found = []
    for path in sorted(Path(driver.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "call":
                name = node.args[0]
                if isinstance(name, ast.Constant) and not any(isinstance(each, ast.Starred) for each in node.args):
                    found.append((str(name.value), len(node.args) - 1))
    return sorted(set(found))


@pytest.mark.parametrize(("name", "count"), calls())
def test_the_bindings_take_what_we_pass(name: str, count: int) -> None:
    assert len(inspect.signature(getattr(api, name)).parameters) == count


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32", "float32", "int32"])
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("l2_promotion", [0, 64, 128, 256])
@pytest.mark.parametrize("interleave", ["none", "16B", "32B"])
def test_the_driver_has_a_name_for_all_that_plans_may_say(dtype: str, swizzle: str, l2_promotion: int, interleave: str) -> None:
    found = encoding(replace(SPLIT, dtype=dtype, swizzle=swizzle, l2_promotion=l2_promotion, interleave=interleave))
    assert hasattr(api.CUtensorMapDataType, found.dtype)
    assert hasattr(api.CUtensorMapSwizzle, found.swizzle)
    assert hasattr(api.CUtensorMapL2promotion, found.l2_promotion)
    assert hasattr(api.CUtensorMapInterleave, found.interleave)
