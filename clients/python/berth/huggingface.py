"""Hugging Face Trainer: saves and stops when Berth asks for it. transformers is imported when the callback is made."""

from __future__ import annotations

from typing import Any

from . import current


def BerthCallback() -> Any:
    """`Trainer(callbacks=[BerthCallback()])`, then `trainer.train(resume_from_checkpoint=berth.current().resume)`.

    `output_dir` must be the same for all attempts, such as a directory below `berth.job.checkpoint_dir`.
    """
    from transformers import TrainerCallback  # type: ignore[import-not-found,unused-ignore]

    class _BerthCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
        is_asked = False

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            if current().should_stop():
                self.is_asked = True
                control.should_save = True
                control.should_training_stop = True
            return control

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            if self.is_asked and state.is_world_process_zero:
                current().checkpoint_done()
            return control

    return _BerthCallback()
