# One torchrun per node; Berth says which node this is, how many there are, and where they meet.
exec torchrun \
  --nnodes "$BERTH_NODE_COUNT" \
  --node-rank "$BERTH_NODE_RANK" \
  --nproc-per-node "${GPUS_PER_NODE:-1}" \
  --master-addr "${MASTER_ADDR:-127.0.0.1}" \
  --master-port "${MASTER_PORT:-29500}" \
  "$(dirname "$0")/torchrun.py"
