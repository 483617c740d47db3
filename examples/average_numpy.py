"""Every rank brings its own numbers, and gets the average of all: with NumPy, without a copy.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python examples/average_numpy.py &
    RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python examples/average_numpy.py

Under torchrun, mpirun or srun the ranks are known without those variables, alone it is a world of
one.
"""

import numpy as np

import unisono

with unisono.init() as world:
    weights = np.full(1_000_000, world.rank, dtype=np.float32)
    work = world.all_reduce(weights, op="avg", async_op=True)  # in place
    names = world.all_gather_single(np.array([world.rank]))  # meanwhile; a new array
    work.wait()
    print(f"rank {world.rank}: the average of ranks {names.tolist()} is {weights[0]}")
