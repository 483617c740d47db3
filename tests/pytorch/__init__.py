"""PyTorch's own tests of torch.distributed, run over unisono."""
