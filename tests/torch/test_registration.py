"""How PyTorch gets to know the backend: by itself, quickly, and without breaking its import."""

from __future__ import annotations

from pathlib import Path

import pytest

import unisono
from tests.torch.test_failures import run_python

torch = pytest.importorskip("torch")


def output_of(program: str, *options: str) -> str:
    ended = run_python(program, *options)
    assert ended.returncode == 0, ended
    return ended.stdout


def test_importing_torch_is_enough() -> None:
    program = (
        "import sys, torch, torch.distributed as d\n"
        "print(d.is_backend_available('unisono'), 'unisono._torch' in sys.modules,\n"
        "      'unisono._core' in sys.modules)"
    )
    assert output_of(program) == "True False False\n"


def test_registering_takes_little_of_the_import() -> None:
    program = (
        "import os; os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\n"
        "import time, torch, torch.distributed\n"
        "begin = time.process_time()\n"
        "from unisono._torch_entry import register; register()\n"
        "print((time.process_time() - begin) * 1000)"
    )
    times = [float(output_of(program)) for _ in range(3)]
    print(f"registering: {min(times):.1f} ms")  # the aim is 5
    assert min(times) < 50


def test_the_module_registers_where_pytorch_may_not_look() -> None:
    program = (
        "import os; os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\n"
        "import unisono.torch, torch.distributed as d\n"
        "import unisono._torch_entry as entry; entry.register_now()\n"
        "all = d.Backend\n"
        "print(all.backend_list.count('unisono'), all.default_device_backend_map['cpu'])"
    )
    assert output_of(program) == "1 gloo\n"


def test_a_torch_of_another_version_is_refused_with_the_remedy() -> None:
    program = (
        "import torch, torch.distributed as d; torch.__version__ = '2.99.0'\n"
        "try:\n"
        "    d.init_process_group('unisono', store=d.HashStore(), rank=0, world_size=1)\n"
        "except RuntimeError as error:\n"
        "    print(error)"
    )
    said = output_of(program)
    built = Path(unisono.__file__).with_name("_torch.version").read_text().strip()
    assert f"built for torch {built}" in said and "torch 2.99.0" in said
    assert "DO: python -m unisono.torch build" in said


def test_a_broken_torch_does_not_break_its_import() -> None:
    program = (
        "import sys; sys.modules['torch.distributed'] = None\n"
        "from unisono._torch_entry import register; register(); print('goes on')"
    )
    assert output_of(program) == "goes on\n"
