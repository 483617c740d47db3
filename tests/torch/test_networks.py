"""Ranks of PyTorch on two hosts, which only a network connects: nobody names their addresses.

PyTorch's store knows the way to its server, and that is the network the ranks use.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.netlab import Host, two_hosts
from tests.cli.program import ROOT, environment, secret_file
from tests.torch.world import PATIENCE

torch = pytest.importorskip("torch")

PORT = "29500"  # nobody else is in these networks
EXAMPLE = str(ROOT / "examples" / "torch" / "train.py")
SUM = """
import torch, torch.distributed as dist
dist.init_process_group("unisono"STORE)
x = torch.full((50_000,), dist.get_rank() + 1.0)
dist.all_reduce(x)
print("sum", x[0].item(), x[-1].item())
dist.destroy_process_group()
"""


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    with two_hosts() as made:
        yield made


def outputs(
    hosts: tuple[Host, Host], commands: list[list[str]], folder: Path, **env: str
) -> list[str]:
    """Runs a command on each host to its good end, the second one first; what they print."""
    secret = secret_file(folder / "secret", "known to nobody else")
    env = {**env, "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "UNISONO_AUTH_SECRET_FILE": secret}
    with ExitStack() as stack:
        processes = []
        for node, host in reversed(list(enumerate(hosts))):
            process = subprocess.Popen(
                [*host.enter, *commands[node]],
                env=environment(RANK=str(node), **env),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        ends = [process.communicate(timeout=PATIENCE) for process in reversed(processes)]
    if any(process.returncode for process in processes):
        pytest.fail("\n".join(err for _, err in ends))
    return [out for out, _ in ends]


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_torchrun_trains_on_two_hosts(
    hosts: tuple[Host, Host], parallel: str, tmp_path: Path
) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    place = ["--nnodes=2", "--nproc-per-node=2", "--master-addr", hosts[0].address]
    place += ["--master-port", PORT]
    program = [EXAMPLE, "--parallel", parallel, "--steps", "3", "--plot", str(tmp_path / "loss")]
    commands = [[*torchrun, *place, f"--node-rank={node}", *program] for node in range(2)]

    first, second = outputs(hosts, commands, tmp_path)

    assert f"{parallel} on 4 ranks over unisono: loss " in first
    assert second == ""


def test_a_name_may_mean_another_address_on_the_host_that_has_it(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    """As on many systems: a host finds itself at 127.0.1.1 by its own name."""
    commands = []
    for node, address in enumerate(("127.0.1.1", hosts[0].address)):
        names = tmp_path / f"hosts{node}"
        names.write_text(f"127.0.0.1 localhost\n{address} the-first\n")
        script = 'mount --bind "$0" /etc/hosts && exec "$@"'
        program = [sys.executable, "-c", SUM.replace("STORE", "")]
        commands.append(["unshare", "--mount", "sh", "-c", script, str(names), *program])

    said = outputs(hosts, commands, tmp_path, MASTER_ADDR="the-first", MASTER_PORT=PORT)

    assert said == ["sum 3.0 3.0\n"] * 2


def test_a_store_without_a_server_leaves_it_to_where_the_first_rank_is(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    place = f', init_method="file://{tmp_path}/store", rank=RANK, world_size=2'
    commands = [
        [sys.executable, "-c", SUM.replace("STORE", place.replace("RANK", str(node)))]
        for node in range(2)
    ]

    said = outputs(hosts, commands, tmp_path, MASTER_ADDR=hosts[0].address)

    assert said == ["sum 3.0 3.0\n"] * 2
