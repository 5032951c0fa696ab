// Which GPUs a job sees.

/**
 * For NVIDIA's and AMD's libraries, and NVIDIA's runtime for containers, which has a word of its own for none. The order is that of
 * the bus, as in nvidia-smi, from which the indices come; without it CUDA counts the fastest first.
 */
export function deviceVariables(devices: readonly number[]): Record<string, string> {
  const list = devices.join(",");
  return {
    CUDA_DEVICE_ORDER: "PCI_BUS_ID",
    CUDA_VISIBLE_DEVICES: list,
    ROCR_VISIBLE_DEVICES: list,
    NVIDIA_VISIBLE_DEVICES: list === "" ? "void" : list,
  };
}
