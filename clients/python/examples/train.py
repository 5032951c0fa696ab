"""Trains epoch by epoch, saves when Berth asks for it, and goes on from there in the next attempt:

    berth run --gpu 1 --checkpoint auto -- python3 train.py

It needs no server and no API token; without `berth run` it simply trains.
"""

import os
import sys
import time
from pathlib import Path

from berth import job

saved = (job.checkpoint_dir or Path(".")) / "epoch"
first = int(saved.read_text()) if job.resume else 0
for epoch in range(first, int(os.environ.get("EPOCHS", "10"))):
    print(f"epoch {epoch}", flush=True)
    time.sleep(float(os.environ.get("EPOCH_SECONDS", "1")))  # The training itself.
    if job.should_stop():
        saved.write_text(str(epoch + 1))
        job.checkpoint_done()
        sys.exit(job.EXIT_STOPPED)
print("trained", flush=True)
