"""The smallest group: every rank gives a number, and all get the sum.

unisono run -n 3 examples/hello_numpy.py
"""

import numpy as np

import unisono

with unisono.init() as world:  # alone a world of one; else unisono run, torchrun, mpirun, srun
    numbers = np.array([1.0, world.rank], dtype=np.float32)
    world.all_reduce(numbers)
    print(f"rank {world.rank} of {world.size}: the ranks add up to {numbers[1]:g}")
