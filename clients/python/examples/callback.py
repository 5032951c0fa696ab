"""A training loop with the callback for PyTorch Lightning, and a stand-in for Lightning where it is missing:

berth run --gpu 1 --checkpoint auto -- python3 callback.py
"""

import json
import os
import sys
import time
import types
from pathlib import Path

try:
    import lightning.pytorch  # noqa: F401
except ImportError:  # As much of Lightning as the callback needs.
    for name in ("lightning", "lightning.pytorch"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["lightning.pytorch"].Callback = object  # type: ignore[attr-defined]

from berth.lightning import BerthCallback, resume_path


class Trainer:
    """Trains nothing, step by step."""

    is_global_zero = True

    def __init__(self, callbacks):
        self.callbacks = callbacks
        self.should_stop = False
        self.step = 0

    def fit(self, steps, ckpt_path=None):
        if ckpt_path:
            self.step = json.loads(Path(ckpt_path).read_text())["step"]
        while self.step < steps and not self.should_stop:
            print(f"step {self.step}", flush=True)
            time.sleep(float(os.environ.get("STEP_SECONDS", "1")))
            self.step += 1
            for callback in self.callbacks:
                callback.on_train_batch_end(self, None, None, None, self.step)

    def save_checkpoint(self, path):
        Path(path).write_text(json.dumps({"step": self.step}))


trainer = Trainer(callbacks=[BerthCallback()])
trainer.fit(int(os.environ.get("STEPS", "10")), ckpt_path=resume_path())
if trainer.should_stop:
    sys.exit(75)  # Stopped as asked, not finished.
print("trained")
