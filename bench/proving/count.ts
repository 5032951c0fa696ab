// Counts what a journal grants, event by event, with nothing but its words: no code of the engine.

export interface Count {
  readonly excess: readonly string[];
  readonly preemptions: number;
  add(event: Readonly<Record<string, unknown>>): void;
}

type Units = Readonly<Record<string, number>>;

export function createCount(): Count {
  const capacities = new Map<string, Units>();
  const asked = new Map<string, Units>();
  const held = new Map<string, { readonly pool: string; readonly units: Units }>();
  const used = new Map<string, number>();
  const excess: string[] = [];
  let preemptions = 0;

  function move(pool: string, units: Units, sign: 1 | -1): void {
    for (const [key, amount] of Object.entries(units)) {
      const at = `${pool} ${key}`;
      const now = (used.get(at) ?? 0) + sign * amount;
      used.set(at, now);
      // A pool that does not name a key does not bound it.
      const capacity = capacities.get(pool)?.[key] ?? Number.POSITIVE_INFINITY;
      if (sign > 0 && now > capacity) excess.push(`${now} ${key} of ${capacity} in pool ${pool}`);
    }
  }

  return {
    excess,
    get preemptions() {
      return preemptions;
    },
    add(event) {
      const requestId = event.requestId as string;
      switch (event.kind) {
        case "poolSet": {
          const { name, capacity } = event.pool as { name: string; capacity: Units };
          capacities.set(name, capacity);
          break;
        }
        case "requestSubmitted":
        case "requestChanged": {
          const { id, resources } = event.spec as { id: string; resources: Units };
          asked.set(id, resources);
          break;
        }
        case "requestAllocated": {
          if (held.has(requestId)) excess.push(`${requestId} was granted twice at once`);
          const grant = { pool: event.pool as string, units: asked.get(requestId) ?? {} };
          held.set(requestId, grant);
          move(grant.pool, grant.units, 1);
          break;
        }
        case "attemptEnded": {
          const grant = held.get(requestId);
          if (grant !== undefined) move(grant.pool, grant.units, -1);
          held.delete(requestId);
          break;
        }
        case "preemptionDecided":
          preemptions++;
          break;
      }
    },
  };
}
