"""Every step takes a moment, and a first attempt does not get far before it is asked to stop."""

import os
import time

STEP_SECONDS = 0.02
FIRST_STEPS = 5
_steps = 0


def step():
    global _steps
    _steps += 1
    time.sleep(STEP_SECONDS)
    while _steps >= FIRST_STEPS and os.environ["BERTH_RESUME"] == "0":
        if os.path.exists(os.environ["BERTH_PREEMPT_FILE"]):
            return
        time.sleep(STEP_SECONDS)
