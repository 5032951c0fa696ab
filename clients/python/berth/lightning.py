"""PyTorch Lightning: saves and stops when Berth asks for it. Lightning is imported when the callback is made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional, Union

from . import current, job


def checkpoint_path(directory: Union[str, "os.PathLike[str]", None] = None) -> Path:
    """Where the callback saves: the same for all attempts of a job."""
    return Path(directory or job.checkpoint_dir or ".") / "berth.ckpt"


def resume_path(directory: Union[str, "os.PathLike[str]", None] = None) -> Optional[str]:
    """For `trainer.fit(model, ckpt_path=resume_path())`: None if there is nothing to resume."""
    path = checkpoint_path(directory)
    return str(path) if current().resume and path.exists() else None


def BerthCallback(directory: Union[str, "os.PathLike[str]", None] = None) -> Any:
    """`Trainer(callbacks=[BerthCallback()])`. `directory` must be the same for all attempts."""
    path = checkpoint_path(directory)

    class _BerthCallback(_callback_class()):  # type: ignore[misc]
        def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
            if trainer.should_stop or not _any_rank(trainer, current().should_stop()):
                return
            trainer.save_checkpoint(str(path))  # All ranks take part.
            if trainer.is_global_zero:
                current().checkpoint_done()
            trainer.should_stop = True

    return _BerthCallback()


def _callback_class() -> Any:
    try:
        from lightning.pytorch import Callback  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from pytorch_lightning import Callback  # type: ignore[import-not-found,unused-ignore]
    return Callback


def _any_rank(trainer: Any, wanted: bool) -> bool:
    """All ranks must decide alike, or those that save would wait for the others for ever."""
    decide = getattr(getattr(trainer, "strategy", None), "reduce_boolean_decision", None)
    return bool(decide(wanted, all=False)) if decide is not None else wanted
