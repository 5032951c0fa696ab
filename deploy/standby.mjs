#!/usr/bin/env node
// Several servers on one PostgreSQL database, of which one serves and the others stand by.
//
//   node deploy/standby.mjs [options of berth serve]        with BERTH_DATABASE_URL
//
// Whoever holds an advisory lock of the database runs `berth serve`; the lock is free as soon as its session ends. It
// only keeps the servers from taking the store from each other in turn. What makes it safe is the store itself, which
// refuses every commit of a server that no longer leads.

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import pg from "pg";

const LOCK = 7_770_001;
const ASK_MS = 2_000;
const ANSWER_MS_MAX = 5_000;
const RETRY_MS = 1_000;

const berth = process.env.BERTH_PROGRAM ?? fileURLToPath(new URL("../berth", import.meta.url));
const connectionString = process.env.BERTH_DATABASE_URL;
if (!connectionString) {
  process.stderr.write("standby: BERTH_DATABASE_URL is not set\n");
  process.exit(2);
}

let isEnding = false;
let server;
for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    isEnding = true;
    if (server === undefined) process.exit(0);
    server.kill(signal);
  });
}

const session = await lock();
tell("leads");
server = spawn(process.execPath, [berth, "serve", ...process.argv.slice(2)], { stdio: "inherit" });
server.once("exit", (code) => process.exit(isEnding ? 0 : (code ?? 1)));
watch(session);

/** A session that holds the lock. Waits for it as long as it takes, through outages of the database, too. */
async function lock() {
  for (let isTold = false; ; ) {
    const client = new pg.Client({ connectionString, keepAlive: true, application_name: "berth standby" });
    client.on("error", () => undefined);
    try {
      await client.connect();
      const { rows } = await client.query("select pg_try_advisory_lock($1) as mine", [LOCK]);
      if (rows[0].mine) return client;
      if (!isTold) tell("stands by");
      isTold = true;
      await client.query("select pg_advisory_lock($1)", [LOCK]);
      return client;
    } catch (error) {
      tell(`waits for the database: ${error.message}`);
      await client.end().catch(() => undefined);
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
  }
}

/** Without its lock this server must not go on: another one leads. */
function watch(client) {
  const lose = (why) => {
    tell(`has lost its lock: ${why}`);
    server.kill("SIGKILL");
  };
  client.on("error", (error) => lose(error.message));
  client.on("end", () => lose("the session has ended"));
  setInterval(() => {
    const patience = setTimeout(() => lose("the database does not answer"), ANSWER_MS_MAX);
    client.query("select 1").then(
      () => clearTimeout(patience),
      (error) => lose(error.message),
    );
  }, ASK_MS);
}

function tell(what) {
  process.stderr.write(`${JSON.stringify({ standby: process.pid, msg: what })}\n`);
}
