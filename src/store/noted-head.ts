// A head that was noted outside the store. A person who can write the store can rewrite its history and seal both hash chains
// again; what they cannot change is a hash that is kept elsewhere.

import { GENESIS_HASH } from "./chain.ts";
import type { Driver } from "./driver.ts";
import { readFloor } from "./journal.ts";
import type { Comparison, NotedHead } from "./store.ts";

/** What the store says about a noted head. It only proves something about a store whose chains are whole (`verify`). */
export async function compareWithNoted(driver: Driver, noted: NotedHead): Promise<Comparison> {
  const floor = await readFloor(driver);
  return {
    journal: await compare(driver, {
      rows: "select hash from @journal where last_seq = ?",
      at: noted.seq,
      hash: noted.hash,
      floor: { at: floor.journal_seq, hash: floor.journal_hash },
    }),
    audit: await compare(driver, {
      rows: "select hash from @audit where id = ?",
      at: noted.auditId,
      hash: noted.auditHash,
      floor: { at: floor.audit_id, hash: floor.audit_hash },
    }),
  };
}

interface Place {
  readonly rows: string;
  readonly at: number;
  readonly hash: string;
  /** Where the kept part of the chain begins. */
  readonly floor: { readonly at: number; readonly hash: string };
}

async function compare(driver: Driver, { rows, at, hash, floor }: Place): Promise<Comparison["journal"]> {
  if (at < floor.at) return "forgotten";
  const [row] = await driver.query<{ hash: string }>(rows, [at]);
  const found = row?.hash ?? (at === 0 ? GENESIS_HASH : at === floor.at ? floor.hash : undefined);
  return found === hash ? "contained" : "changed";
}
