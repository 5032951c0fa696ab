"""Plain PyTorch: saves when Berth asks for it, and goes on from there in the next attempt.

    berth submit --gpu 1 --checkpoint auto -- python3 pytorch.py
"""

import os
import sys
from pathlib import Path

import torch
from berth import job

EPOCHS = int(os.environ.get("EPOCHS", "10"))
saved = (job.checkpoint_dir or Path(".")) / "state.pt"

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
first = 0
if job.resume:
    state = torch.load(saved)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["epoch"]

for epoch in range(first, EPOCHS):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch}", flush=True)
    if job.should_stop():
        draft = saved.with_suffix(".new")  # A half-written file must not pass for a checkpoint.
        torch.save(
            {"epoch": epoch + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, draft
        )
        draft.replace(saved)
        job.checkpoint_done()
        sys.exit(job.EXIT_STOPPED)
print("trained", flush=True)
