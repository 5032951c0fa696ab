// The embedded store: the contract, and what is true of a file only.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqliteStore } from "../../src/store/index.ts";
import { loadSqlite } from "../../src/store/sqlite/library.ts";
import { type StoreHarness, storeContract } from "./store.contract.ts";

const { DatabaseSync } = await loadSqlite();
const directories = new Map<StoreHarness, string>();

storeContract("sqlite", {
  isDurable: true,
  create: async () => {
    const directory = mkdtempSync(join(tmpdir(), "berth-sqlite-"));
    const path = join(directory, "berth.db");
    const harness: StoreHarness = {
      open: () => openSqliteStore({ path }),
      tamper: async (sql) => {
        const database = new DatabaseSync(path);
        database.exec(sql);
        database.close();
      },
    };
    directories.set(harness, directory);
    return harness;
  },
  destroy: async (harness) => {
    rmSync(directories.get(harness) ?? "", { recursive: true, force: true });
  },
});
