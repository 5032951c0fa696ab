// Whether backlogged teams receive their fair shares in the long run of discipline `fair_share`, and what that costs
// in preemptions. All in virtual time, with a seed.

import {
  type Command,
  type ComponentName,
  createState,
  decide,
  type Event,
  nextWakeMs,
  PLAIN_REQUEST,
  type PoolName,
  type RequestId,
  type RequestSpec,
} from "../../src/engine/index.ts";
import { seededRandom } from "./random.ts";

const POOL = "lab" as PoolName;
/** So many that what is owed and what can be had in whole requests differ by little. */
const GPUS = 2_000;
const BACKLOG = 30;
/** The first team is alone at the beginning and holds everything. */
const WEIGHTS = new Map(
  ["first", "second", "third", "fourth"].map((name, i) => [name as ComponentName, i + 1]),
);
/** What happens before everybody has had its turn once does not count. */
const WARM_UP_MS = 900_000;
const GAP_MAX = 0.01;

/** Prints what everybody received; answers whether that is close enough to what was owed. */
export function proveLongRun(requests: number): boolean {
  const random = seededRandom(1);
  const state = createState();
  const running = new Map<RequestId, { team: ComponentName; gpus: number; endMs: number }>();
  const waiting = new Map<ComponentName, number>();
  const held = new Map<ComponentName, number>();
  let [nowMs, measuredMs, submitted, preemptions] = [0, 0, 0, 0];

  send({ kind: "createPool", name: POOL, capacity: { gpu: GPUS }, discipline: "fair_share" });
  for (const [component, weight] of WEIGHTS) {
    send({ kind: "attachPolicy", policy: { pool: POOL, component, weight } });
  }
  while (submitted < requests) {
    for (const team of WEIGHTS.keys()) {
      if (team !== "first" && nowMs === 0) continue;
      while ((waiting.get(team) ?? 0) < BACKLOG) submit(team);
    }
    const nextEndMs = Math.min(...[...running.values()].map(({ endMs }) => endMs));
    passTo(Math.max(nowMs, Math.min(nextEndMs, nextWakeMs(state) ?? Number.POSITIVE_INFINITY)));
    send({ kind: "tick" });
    for (const [requestId, { endMs }] of [...running]) {
      if (endMs <= nowMs) send({ kind: "reportEnd", requestId, outcome: "succeeded" });
    }
  }
  return report();

  function submit(team: ComponentName): void {
    const id = `r${submitted++}` as RequestId;
    const gpu = 1 + Math.floor(random() * 4);
    waiting.set(team, (waiting.get(team) ?? 0) + 1);
    const operation = `${team}-${Math.floor(random() * 5)}`;
    send({
      kind: "submitRequest",
      spec: { ...PLAIN_REQUEST, id, component: team, resources: { gpu, step_run: 1 }, operation },
    });
  }

  function send(command: Command): void {
    const decision = decide(state, command, nowMs);
    if (decision.outcome === "refused") throw new Error(decision.refusal.message, { cause: decision.bug });
    for (const event of decision.events) note(event);
  }

  function note(event: Event): void {
    if (event.kind === "requestAllocated") {
      const { spec } = state.requests.get(event.requestId) as { spec: RequestSpec };
      const { component: team, resources } = spec;
      waiting.set(team, (waiting.get(team) as number) - 1);
      running.set(event.requestId, {
        team,
        gpus: resources.gpu as number,
        endMs: nowMs + 60_000 + random() * 540_000,
      });
    } else if (event.kind === "preemptionDecided") {
      preemptions += event.victims.length;
      for (const { requestId } of event.victims)
        (running.get(requestId) as { endMs: number }).endMs = nowMs + 1_000;
    } else if (event.kind === "attemptEnded") {
      const { team } = running.get(event.requestId) as { team: ComponentName };
      running.delete(event.requestId);
      if (event.status === "queued") waiting.set(team, (waiting.get(team) ?? 0) + 1);
    }
  }

  /** Adds up what everybody holds meanwhile. */
  function passTo(untilMs: number): void {
    const passedMs = untilMs - nowMs;
    if (nowMs >= WARM_UP_MS) {
      measuredMs += passedMs;
      for (const { team, gpus } of running.values()) held.set(team, (held.get(team) ?? 0) + gpus * passedMs);
    }
    nowMs = untilMs;
  }

  function report(): boolean {
    const total = [...held.values()].reduce((sum, amount) => sum + amount, 0);
    const weights = [...WEIGHTS.values()].reduce((sum, weight) => sum + weight, 0);
    let worst = 0;
    console.log(
      `long run: ${submitted} requests of 4 teams, ${GPUS} GPUs, ${(nowMs / 3_600_000).toFixed(1)} h of virtual time`,
    );
    for (const [team, weight] of WEIGHTS) {
      const [should, has] = [weight / weights, (held.get(team) ?? 0) / total];
      worst = Math.max(worst, Math.abs(has - should) / should);
      console.log(
        `${team.padEnd(8)} fair share ${(100 * should).toFixed(2)} %, received ${(100 * has).toFixed(2)} %`,
      );
    }
    console.log(`in use ${((100 * total) / (measuredMs * GPUS)).toFixed(1)} %, preemptions ${preemptions}`);
    console.log(`largest difference ${(100 * worst).toFixed(2)} % of a share (limit ${100 * GAP_MAX} %)`);
    return worst <= GAP_MAX;
  }
}
