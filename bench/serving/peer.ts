// A peer for comparison: pg-boss in a closed loop on the same PostgreSQL. One cycle sends a job, fetches one and
// completes it. Arguments: address, loops. Measures for as long as it is asked to.

import PgBoss from "pg-boss";

const [url = "", loops = "64"] = process.argv.slice(2);
const boss = new PgBoss({ connectionString: url, max: 20, supervise: false, schedule: false });
boss.on("error", console.error);
await boss.start();
await boss.createQueue("bench");
process.send?.("ready");

process.on("message", ({ ms }: { ms: number }) => void measure(ms));
process.on("disconnect", () => process.exit());
process.on("SIGTERM", () => process.exit());

async function measure(ms: number): Promise<void> {
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
  const beganMs = performance.now();
  const running = Array.from({ length: Number(loops) }, loop);
  await new Promise((resolve) => setTimeout(resolve, ms));
  const cyclesPerSecond = cycles / ((performance.now() - beganMs) / 1000);
  isOver = true;
  await Promise.all(running);
  process.send?.({ cyclesPerSecond });
}
