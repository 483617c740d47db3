"""The smallest group with PyTorch: a tensor of every rank, and all get the sum.

unisono run -n 3 examples/hello_torch.py
"""

import torch
import torch.distributed as dist

dist.init_process_group("unisono")  # instead of "gloo"
numbers = torch.tensor([1.0, dist.get_rank()])
dist.all_reduce(numbers)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: the ranks add up to {numbers[1]:g}")
dist.destroy_process_group()
