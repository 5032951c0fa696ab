// Whether a node is this machine, and what a command that is placed on it sees of its GPUs.

import { hostname } from "node:os";
import { deviceVariables } from "../../runner/index.ts";
import type { Client, GrantedRequest } from "../../sdk/index.ts";
import { CliError } from "../context.ts";

/** Nodes bear the names of their machines, with or without the domain. */
export function isHere(node: string): boolean {
  const here = hostname();
  return node === here || node === here.split(".")[0] || node === "localhost";
}

/** A command must not run here on units of another machine (J8). */
export async function checkIsHere(
  client: Client,
  { id, number, placement, pool }: GrantedRequest,
): Promise<void> {
  const elsewhere = placement.find(({ node }) => !isHere(node));
  if (elsewhere === undefined) return;
  await client.requests.withdraw(id).catch(() => undefined);
  throw new CliError(
    "no_executor",
    `Request #${number} was placed on node ${elsewhere.node}, which is not this machine (${hostname()}), and pool ${pool} starts no jobs.`,
    `Run an agent on the nodes and say so: berth pool update ${pool} --set executor=agents. Or type this on ${elsewhere.node}.`,
  );
}

/** On a node whose GPUs are given out a command sees its own, or none; where nothing is placed, it sees what there is. */
export async function variablesOfDevices(
  client: Client,
  { placement }: GrantedRequest,
): Promise<Record<string, string>> {
  const [place] = placement;
  if (place === undefined) return {};
  const hasGpus = place.devices.length > 0 || (await givesOutGpus(client, place.node));
  return hasGpus ? deviceVariables(placement.flatMap(({ devices }) => devices)) : {};
}

async function givesOutGpus(client: Client, node: string): Promise<boolean> {
  const { capacity, enrolled } = await client.nodes.get(node, { retryForMs: 0 }).catch(() => NOTHING);
  return (enrolled ?? capacity).gpu !== undefined;
}

const NOTHING: { readonly capacity: Record<string, number>; readonly enrolled: null } = {
  capacity: {},
  enrolled: null,
};
