"""Hugging Face Trainer: a callback saves and stops, and `resume_from_checkpoint` resumes.

    berth submit --gpu 1 --checkpoint auto --secret HF_TOKEN -- python3 huggingface_trainer.py
"""

import os
import sys
from pathlib import Path

import torch
from berth import job
from berth.huggingface import BerthCallback
from transformers import Trainer, TrainingArguments


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, values):
        return {"loss": self.layer(values).pow(2).mean()}


arguments = TrainingArguments(
    output_dir=str((job.checkpoint_dir or Path(".")) / "trainer"),
    num_train_epochs=int(os.environ.get("EPOCHS", "10")),
    per_device_train_batch_size=8,
)
dataset = [{"values": torch.randn(4)} for _ in range(8)]
trainer = Trainer(model=Model(), args=arguments, train_dataset=dataset, callbacks=[BerthCallback()])
trainer.train(resume_from_checkpoint=job.resume)
if job.should_stop():
    sys.exit(job.EXIT_STOPPED)
print("trained", flush=True)
