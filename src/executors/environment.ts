// What a job finds in its environment (E6, E7): what was submitted with it, its identity, its place and its devices.

import type { WireWantedPart } from "../protocol/index.ts";
import { deviceVariables } from "../runner/index.ts";

export interface Surroundings {
  readonly home: string;
  readonly user: string;
  readonly path: string;
  /** Whether this machine has GPUs: a job without one then sees none. */
  readonly hasGpus: boolean;
  /** The job's secrets, by name. */
  readonly secrets: Readonly<Record<string, string>>;
}

const MASTER_PORT_MIN = 20_000;
const MASTER_PORTS = 10_000;

export function environmentOf(
  part: WireWantedPart,
  { home, user, path, hasGpus, secrets }: Surroundings,
): Record<string, string> {
  return {
    ...{ HOME: home, USER: user, LOGNAME: user, PATH: path },
    ...variablesOf(part, secrets),
    ...(hasGpus && deviceVariables(part.devices)),
  };
}

/** What Berth says to a job, wherever it runs. */
export function variablesOf(
  part: WireWantedPart,
  secrets: Readonly<Record<string, string>>,
): Record<string, string> {
  return {
    ...meetingPoint(part),
    ...part.run?.environment,
    ...secrets,
    BERTH_REQUEST: part.request_id,
    BERTH_NUMBER: String(part.number),
    BERTH_ATTEMPT: String(part.attempt),
    BERTH_RESUME: part.resume ? "1" : "0",
    BERTH_NODE_RANK: String(part.rank),
    BERTH_NODE_COUNT: String(part.nodes.length),
    BERTH_NODES: part.nodes.join(","),
    ...(part.array_index !== null && { BERTH_ARRAY_INDEX: String(part.array_index) }),
  };
}

/** Where the processes of a job on several nodes meet, as torchrun and its relatives want it; a job may say otherwise. */
function meetingPoint({ nodes, number }: WireWantedPart): Record<string, string> {
  if (nodes.length < 2) return {};
  return {
    MASTER_ADDR: nodes[0] as string,
    MASTER_PORT: String(MASTER_PORT_MIN + (number % MASTER_PORTS)),
  };
}
