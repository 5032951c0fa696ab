"""Several processes on several nodes: torchrun starts them, and all of them stop together.

    berth submit --nodes 2 --gpu 4 --checkpoint auto -- sh torchrun.sh

Rank 0 decides for all: a process that stops alone would leave the others waiting in their next collective.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from berth import job

EPOCHS = int(os.environ.get("EPOCHS", "10"))
dist.init_process_group()
rank = dist.get_rank()
# On several nodes the directory must be one that all of them see, such as a shared file system.
saved = Path(os.environ.get("SHARED_DIR") or job.checkpoint_dir or ".") / "state.pt"
first = torch.load(saved)["epoch"] if job.resume else 0

for epoch in range(first, EPOCHS):
    if rank == 0:
        print(f"epoch {epoch}", flush=True)
    wanted = torch.tensor([1 if rank == 0 and job.should_stop() else 0])
    dist.broadcast(wanted, src=0)
    if wanted.item() == 1:
        if rank == 0:
            torch.save({"epoch": epoch + 1}, saved)
        dist.barrier()
        if rank == 0:
            job.checkpoint_done()
        sys.exit(job.EXIT_STOPPED)
if rank == 0:
    print("trained", flush=True)
