"""PyTorch Lightning: a callback saves and stops, and `ckpt_path` resumes.

    berth submit --gpu 1 --checkpoint auto -- python3 lightning_trainer.py
"""

import os
import sys

import torch
from berth import job
from berth.lightning import BerthCallback, resume_path
from lightning.pytorch import LightningModule, Trainer


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        return self.layer(batch).pow(2).mean()

    def on_train_epoch_end(self):
        print(f"epoch {self.current_epoch}", flush=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.randn(8, 4), batch_size=8)


trainer = Trainer(max_epochs=int(os.environ.get("EPOCHS", "10")), callbacks=[BerthCallback()])
trainer.fit(Model(), ckpt_path=resume_path())
if job.should_stop():
    sys.exit(job.EXIT_STOPPED)
print("trained", flush=True)
