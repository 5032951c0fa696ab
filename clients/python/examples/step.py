"""A function that runs under a grant of its own, and again after a preemption:

BERTH_COMPONENT=research python3 step.py
"""

import os
import sys
import time
from pathlib import Path

import berth

STATE = Path(os.environ.get("STATE", "epoch"))


@berth.step(gpu=1, checkpoint="auto", retries=2, on_wait=lambda why: print("waiting:", why, file=sys.stderr))
def train(epochs: int) -> str:
    grant = berth.current()
    first = int(STATE.read_text()) if grant.resume else 0
    for epoch in range(first, epochs):
        print(f"epoch {epoch}, attempt {grant.attempt}", flush=True)
        time.sleep(float(os.environ.get("EPOCH_SECONDS", "1")))  # The training itself.
        if grant.should_stop():
            STATE.write_text(str(epoch + 1))
            grant.checkpoint_done()
            return "stopped"  # Not the result: the step runs again, and resumes.
    return f"trained {epochs} epochs"


if __name__ == "__main__":
    print(train(int(os.environ.get("EPOCHS", "10"))))
