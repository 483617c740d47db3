"""What unisono.torch offers where PyTorch's rules leave a plug-in out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.torch.test_failures import ALONE, run_python
from tests.torch.world import ROOT
from unisono import _torch_build

torch = pytest.importorskip("torch")


def output_of(program: str) -> str:
    ended = run_python(program)
    assert ended.returncode == 0, ended
    return ended.stdout


def test_the_timeout_of_a_group_can_be_changed() -> None:
    said = output_of(
        ALONE + "import time, unisono.torch as ut; from datetime import timedelta\n"
        "ut.set_timeout(timedelta(milliseconds=250)); begun = time.monotonic()\n"
        "try: dist.recv(x)\n"
        "except dist.DistBackendError as error: print('250ms' in str(error))\n"
        "print(time.monotonic() - begun < 60)"
    )
    assert said == "True\nTrue\n"


def test_options_carry_a_timeout() -> None:
    said = output_of(
        "import copy, torch, torch.distributed as dist, unisono.torch as ut\n"
        "from datetime import timedelta\n"
        "options = copy.deepcopy(ut.Options(timedelta(seconds=7)))\n"
        "dist.init_process_group('unisono', store=dist.HashStore(), rank=0, world_size=1,\n"
        "                        pg_options=options)\n"
        "backend = dist.group.WORLD._get_backend(torch.device('cpu'))\n"
        "print(isinstance(backend, ut.Backend), backend.options._timeout)"
    )
    assert said == "True 0:00:07\n"


def test_it_can_be_the_default_of_the_cpu() -> None:
    program = (
        "import torch, torch.distributed as dist, unisono.torch as ut\n"
        "from torch.distributed.device_mesh import init_device_mesh\n"
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "cpu = torch.device('cpu')\n"
        "for use in (True, False):\n"
        "    ut.use_as_default(use)\n"
        "    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)\n"
        "    group = dist.group.WORLD\n"
        "    DDP(torch.nn.Linear(2, 2))(torch.ones(1, 2)).sum().backward()\n"
        "    mesh = init_device_mesh('cpu', (1,)).get_group()\n"
        "    print(group.name(), group._get_backend(cpu).name(), mesh._get_backend(cpu).name())\n"
        "    dist.destroy_process_group()"
    )
    assert output_of(program) == "custom unisono unisono\ngloo gloo gloo\n"


def test_the_module_has_nothing_else() -> None:
    import unisono.torch

    with pytest.raises(AttributeError, match="has no attribute 'Store'"):
        unisono.torch.Store  # noqa: B018


def test_the_command_builds_from_where_it_was_installed(monkeypatch: Any, capsys: Any) -> None:
    called: list[list[str]] = []

    def call(command: list[str]) -> int:
        called.append(command)
        return 0

    monkeypatch.setattr(subprocess, "call", call)
    monkeypatch.setattr(_torch_build, "installed_from", lambda: ROOT)
    assert _torch_build.main(["build"]) == 0
    assert _torch_build.main(["build", str(ROOT)]) == 0
    assert called[0] == called[1]
    assert called[0][:4] == [sys.executable, "-m", "pip", "install"]
    assert "--no-build-isolation" in called[0] and called[0][-1] == str(ROOT)
    for source in (None, Path("/nowhere")):
        monkeypatch.setattr(_torch_build, "installed_from", lambda source=source: source)
        assert _torch_build.main(["build"]) == 2
        said = capsys.readouterr().err
        assert "DO: python -m unisono.torch build <" in said and "[CONFIG]" in said
    assert len(called) == 2


def test_the_command_is_found_under_the_name_of_the_module() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "unisono.torch", "build", "/nowhere"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2 and "is not in /nowhere" in ended.stderr, ended
