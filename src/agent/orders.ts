// Turns what the server wants into what a shim can run, or into the reason why it cannot be run here.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { environmentOf, identityFor, RunAsRefusal, secretsOf } from "../executors/index.ts";
import type { WireWantedPart } from "../protocol/index.ts";
import type { JobOrder } from "./claims.ts";

export interface OrderSettings {
  /** Where the checkpoint directories of requests are. */
  readonly checkpoints: string;
  readonly policyFile?: string | undefined;
  /** A file per secret, in a folder of the component or for all. */
  readonly secrets: string;
  readonly hasGpus: boolean;
  readonly path?: string | undefined;
}

const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** What a command leaves behind may take this long to end. */
const LEFTOVER_GRACE_MS = 5_000;

/** A text is the reason why not. */
export function jobOrderOf(part: WireWantedPart, settings: OrderSettings): JobOrder | string {
  const { run, component, request_id } = part;
  if (run === undefined) return "The server did not say what to run.";
  try {
    const { name, home, directory, user } = identityFor(
      { component, user: run.user, directory: run.directory },
      settings.policyFile,
    );
    const secrets = secretsOf(run.secrets ?? [], component, settings.secrets);
    const surroundings = {
      home,
      user: name,
      path: settings.path ?? PATH,
      hasGpus: settings.hasGpus,
      secrets,
    };
    mkdirSync(settings.checkpoints, { recursive: true, mode: 0o711 });
    return {
      command: run.command,
      env: environmentOf(part, surroundings),
      cwd: directory,
      checkpointDir: join(settings.checkpoints, request_id),
      graceMs: LEFTOVER_GRACE_MS,
      ...(run.checkpoint_signal !== undefined && { checkpointSignal: run.checkpoint_signal }),
      ...(run.checkpoint_command !== undefined && { checkpointCommand: run.checkpoint_command }),
      ...(user !== undefined && { user }),
    };
  } catch (error) {
    if (error instanceof RunAsRefusal) return error.message;
    throw error;
  }
}
