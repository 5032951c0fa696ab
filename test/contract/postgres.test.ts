// The store in a real PostgreSQL: the contract, and what is true of a shared database only.

import { randomUUID } from "node:crypto";
import pg from "pg";
import { openPostgresStore } from "../../src/store/index.ts";
import { startPostgres, type TestPostgres } from "../support/postgres.ts";
import { type StoreHarness, storeContract } from "./store.contract.ts";

let postgres: TestPostgres;

storeContract("postgres", {
  isDurable: true,
  start: async () => {
    postgres = await startPostgres({ fsync: "off" }); // Nobody cuts the power here.
  },
  stop: () => postgres.remove(),
  create: async () => {
    const schema = `test-${randomUUID()}`;
    const harness: StoreHarness = {
      open: () => openPostgresStore({ url: postgres.url, schema, acceptUnsafeDatabase: true }),
      tamper: async (sql) => {
        const client = new pg.Client({ connectionString: postgres.url, options: `-c search_path=${schema}` });
        await client.connect();
        await client.query(sql);
        await client.end();
      },
    };
    return harness;
  },
  destroy: async () => undefined, // It goes with the server.
});
