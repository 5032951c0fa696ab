import { openMemoryStore } from "../../src/store/index.ts";
import { storeContract } from "./store.contract.ts";

storeContract("memory", {
  isDurable: false,
  create: async () => ({ open: openMemoryStore, tamper: async () => undefined }),
  destroy: async () => undefined,
});
