// A peer for comparison: pg-boss in a closed loop on the same PostgreSQL. One cycle sends a job, fetches one and
// completes it. Arguments: address, loops, milliseconds.

import PgBoss from "pg-boss";

const [url = "", loops = "64", ms = "5000"] = process.argv.slice(2);
const boss = new PgBoss({ connectionString: url, max: 20, supervise: false, schedule: false });
boss.on("error", console.error);
await boss.start();
await boss.createQueue("bench");

let cycles = 0;
let isOver = false;
const loop = async () => {
  while (!isOver) {
    await boss.send("bench", { component: "bench", resources: { gpu: 1 } });
    const [job] = await boss.fetch("bench");
    if (job !== undefined) await boss.complete("bench", job.id);
    cycles++;
  }
};
const running = Array.from({ length: Number(loops) }, loop);
await new Promise((resolve) => setTimeout(resolve, 2_000));
const before = cycles;
await new Promise((resolve) => setTimeout(resolve, Number(ms)));
const cyclesPerSecond = (cycles - before) / (Number(ms) / 1000);
isOver = true;
await Promise.all(running);
await boss.stop({ graceful: false });
process.send?.({ cyclesPerSecond });
