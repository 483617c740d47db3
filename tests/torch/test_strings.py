"""What torch.distributed makes of strings such as "cpu:unisono", and of those of other backends."""

from __future__ import annotations

import pytest

from tests.torch.test_failures import run_python

torch = pytest.importorskip("torch")

WORLD = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
def world(string):
    dist.init_process_group(string, store=dist.HashStore(), rank=0, world_size=1)
    return dist.group.WORLD
"""

# The string, what the group calls its default, and who does the work for the CPU.
STRINGS = {
    "unisono": ("custom", "unisono"),
    "cpu:unisono": ("custom", "unisono"),
    "cpu:unisono,cuda:gloo": ("custom", "unisono"),
    "cpu:unisono,cuda:unisono": ("custom", "unisono"),
    "gloo": ("gloo", "gloo"),
    "cpu:gloo": ("gloo", "gloo"),
    "cpu:gloo,cuda:gloo": ("gloo", "gloo"),
}


def output_of(program: str) -> str:
    ended = run_python(WORLD + program)
    assert ended.returncode == 0, ended
    return ended.stdout


@pytest.fixture(scope="module")
def told() -> dict[str, str]:
    """A line about the group of each string."""
    said = output_of(
        f"for string in {list(STRINGS)}:\n"
        "    group = world(string); cpu = torch.device('cpu')\n"
        "    model = DDP(torch.nn.Linear(2, 2)); model(torch.ones(1, 2)).sum().backward()\n"
        "    part = dist.new_group([0])\n"
        "    print(group.name(), part.name(), group._get_backend(cpu).name(), group._has_hooks(),\n"
        "          int(model.module.bias.grad.sum()),\n"
        "          group.name() == 'gloo' and group._get_sequence_number_for_group() > 0)\n"
        "    dist.destroy_process_group()"
    )
    return dict(zip(STRINGS, said.splitlines(), strict=True))


@pytest.mark.parametrize("string", STRINGS)
def test_a_string_gives_the_default_that_it_says(told: dict[str, str], string: str) -> None:
    """With gloo as without any plug-in: sequence numbers, hooks and DDP ask for the default."""
    name, backend = STRINGS[string]
    assert told[string] == f"{name} {name} {backend} False 2 {name == 'gloo'}"


def test_a_part_that_pytorch_lacks_is_its_own_error_and_leaves_nothing() -> None:
    if torch.distributed.is_nccl_available():
        pytest.skip("this torch has NCCL")
    said = output_of(
        "for string in ('cpu:unisono,cuda:nccl', 'cpu:gloo,cuda:nccl'):\n"
        "    try: world(string)\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
        "    print(dist.is_initialized())\n"
        "    world('unisono'); x = torch.ones(1); dist.all_reduce(x); print(x.item())\n"
        "    dist.destroy_process_group()"
    )
    lines = said.splitlines()
    assert len(lines) == 6
    for first, *others in (lines[:3], lines[3:]):
        assert first.startswith("RuntimeError") and "NCCL" in first
        assert others == ["False", "1.0"]


def test_strings_of_another_plug_in_keep_their_default() -> None:
    said = output_of(
        "from unisono._torch_entry import _create\n"
        "dist.Backend.register_backend('other', _create, extended_api=True, devices=['cpu'])\n"
        "print(world('cpu:other').name()); dist.destroy_process_group()\n"
        "print(world('cpu:unisono').name()); dist.destroy_process_group()\n"
        "print(world('cpu:gloo').name(), sorted(dist.Backend._plugins))"
    )
    assert said.splitlines() == ["custom", "custom", "gloo ['OTHER', 'UNISONO']"]
