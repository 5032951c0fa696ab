// Reads from one or several servers as fast as they answer, in a process of its own.

import { openConnection } from "./http.ts";

export interface ReadLoad {
  readonly urls: readonly string[];
  readonly token: string;
  readonly path: string;
  /** In all, spread over the servers. */
  readonly connections: number;
  readonly ms: number;
}

export interface ReadMeasured {
  readonly readsPerSecond: number;
  readonly failures: number;
}

process.on("message", (load: ReadLoad) => {
  measure(load).then(
    (told) => process.send?.(told),
    (error: unknown) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.on("disconnect", () => process.exit());
process.send?.("ready");

async function measure({ urls, token, path, connections, ms }: ReadLoad): Promise<ReadMeasured> {
  let reads = 0;
  let failures = 0;
  const beganMs = performance.now();
  const run = async (index: number) => {
    const connection = await openConnection(urls[index % urls.length] as string, token);
    while (performance.now() - beganMs < ms) {
      if ((await connection.get(path)).status === 200) reads++;
      else failures++;
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: connections }, (_, index) => run(index)));
  return { readsPerSecond: reads / ((performance.now() - beganMs) / 1_000), failures };
}
