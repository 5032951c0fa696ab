// The adapter under proof, as `berth adapter kubernetes --nodes` runs it. Its argument is JSON.

import { openKubernetes, startKubernetesAdapter } from "../../src/executors/index.ts";
import { createClient } from "../../src/sdk/index.ts";

const { urls, token, pool, stateDirectory, kubeconfig } = JSON.parse(process.argv[2] ?? "{}") as {
  readonly urls: string[];
} & Record<"token" | "pool" | "stateDirectory" | "kubeconfig", string>;
const kubernetes = await openKubernetes({ kubeconfig });
/** That everything was listed again is what a proof must see. */
let lists = 0;
const counted: typeof kubernetes = {
  ...kubernetes,
  pods(selector) {
    const pods = kubernetes.pods(selector);
    const list = () => {
      process.send?.({ lists: ++lists });
      return pods.list();
    };
    return { ...pods, list };
  },
};
startKubernetesAdapter({
  client: createClient({ urls, token }),
  kubernetes: counted,
  ...{ pool, stateDirectory },
  version: "proof",
  nodes: { selector: "berth.dev/proof=1" },
  image: "registry.example/proof:1",
  gpuResource: "nvidia.com/gpu",
  checkpointClaim: "scratch",
  template: undefined,
  startMsMax: undefined,
  tell: (text) => console.error(`adapter: ${text}`),
});
process.on("disconnect", () => process.exit(0)); // The proof has ended.
process.send?.({});
