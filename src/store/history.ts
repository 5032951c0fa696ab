// In which history a store is, and where that history was written. A database that was promoted too early, or restored,
// goes on with a history that lacks its end: the same positions then mean other events (C14).

import { randomUUID } from "node:crypto";
import type { Driver } from "./driver.ts";
import { type MetaRow, metaChecksum, metaOf, selectMeta, setMeta } from "./meta.ts";
import type { Origin, StoreMeta } from "./store.ts";

const ORIGIN = "origin";

export async function readMeta(driver: Driver): Promise<StoreMeta> {
  return metaOf(await driver.query<MetaRow>(selectMeta), driver.meta.kind);
}

export async function readOrigin(driver: Driver): Promise<Origin> {
  const rows = await driver.query<MetaRow>(selectMeta);
  return { now: await driver.origin?.(), noted: rows.find(({ key }) => key === ORIGIN)?.value };
}

export async function noteOrigin(driver: Driver, origin: string): Promise<void> {
  await driver.transaction([{ sql: setMeta, rows: [[ORIGIN, origin]] }]);
}

/** From here on another history: what was signed and counted in the old one differs. */
export async function beginHistory(driver: Driver): Promise<StoreMeta> {
  const meta = { ...(await readMeta(driver)), incarnation: randomUUID() };
  const rows = [
    ["incarnation", meta.incarnation],
    ["checksum", metaChecksum(meta)],
  ];
  await driver.transaction([{ sql: setMeta, rows }]);
  return meta;
}
