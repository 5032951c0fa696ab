"""A stand-in for Hugging Face's Trainer: steps, a control that callbacks set, and checkpoints in `output_dir`."""

import os
from types import SimpleNamespace

import torch


class TrainerCallback:
    pass


def TrainingArguments(**arguments):
    return SimpleNamespace(**arguments)


class Trainer:
    def __init__(self, model, args, train_dataset, callbacks):
        self.model, self.args, self.dataset, self.callbacks = model, args, train_dataset, callbacks

    def train(self, resume_from_checkpoint=False):
        saved = os.path.join(self.args.output_dir, "checkpoint")
        first = torch.load(saved)["epoch"] if resume_from_checkpoint else 0
        state = SimpleNamespace(is_world_process_zero=True)
        for epoch in range(first, self.args.num_train_epochs):
            self.model(self.dataset[0]["values"])["loss"].backward()
            print(f"epoch {epoch}", flush=True)
            control = SimpleNamespace(should_save=False, should_training_stop=False)
            for callback in self.callbacks:
                callback.on_step_end(self.args, state, control)
            if control.should_save:
                os.makedirs(self.args.output_dir, exist_ok=True)
                torch.save({"epoch": epoch + 1}, saved)
                for callback in self.callbacks:
                    callback.on_save(self.args, state, control)
            if control.should_training_stop:
                return
