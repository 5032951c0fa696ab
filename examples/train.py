# "Trains" epoch by epoch. Saves when Berth asks for it, and goes on from there in the next attempt:
#   berth run --gpu 1 --checkpoint auto -- python3 examples/train.py
import os, sys, time

saved = os.path.join(os.environ["BERTH_CHECKPOINT_DIR"], "epoch")
first = int(open(saved).read()) if os.environ["BERTH_RESUME"] == "1" else 0
for epoch in range(first, int(os.environ.get("EPOCHS", "10"))):
    print(f"epoch {epoch}", flush=True)
    time.sleep(float(os.environ.get("EPOCH_SECONDS", "1")))
    if os.path.exists(os.environ["BERTH_PREEMPT_FILE"]):  # Others need the GPU.
        open(saved, "w").write(str(epoch + 1))
        open(os.path.join(os.path.dirname(saved), "done"), "w").close()  # As `berth checkpoint done` would.
        sys.exit(75)  # Stopped as told, not finished.
