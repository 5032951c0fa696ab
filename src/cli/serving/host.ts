// Runs a server inside this process until it is asked to end.

import { type CliContext, CliError } from "../context.ts";
import type { HostedOptions, HostedServer, Hosting } from "./hosting.ts";

export async function hostingOf({ hosting }: CliContext): Promise<Hosting> {
  if (hosting === undefined) throw new CliError("unavailable", "This program cannot run a server.");
  return hosting();
}

/** Errors that the person who starts it can do something about become errors of the command. */
export async function openHosted(hosting: Hosting, options: HostedOptions): Promise<HostedServer> {
  try {
    return await hosting.openServer(options);
  } catch (error) {
    throw asCliError(hosting, error);
  }
}

export function asCliError(hosting: Hosting, error: unknown): unknown {
  const known = hosting.explain(error);
  if (known === undefined) return error;
  const isBusy = (error as { cause?: NodeJS.ErrnoException }).cause?.code === "EADDRINUSE";
  return isBusy
    ? new CliError(
        "unavailable",
        known.message,
        "Choose another port with --port, or stop the program that uses this one.",
      )
    : new CliError("unavailable", known.message, known.hint);
}

export interface Ending {
  /** Resolves when the end is asked for. */
  readonly asked: Promise<void>;
  readonly stop: () => void;
}

/** Ctrl-C and SIGTERM ask for the end; a second one does not wait for it. */
export function listenForEnd(): Ending {
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  let count = 0;
  let askFor: () => void = () => undefined;
  const asked = new Promise<void>((resolve) => {
    askFor = resolve;
  });
  const onSignal = () => {
    count += 1;
    if (count > 1) process.exit(130);
    askFor();
  };
  for (const signal of signals) process.on(signal, onSignal);
  return { asked, stop: () => signals.forEach((signal) => process.off(signal, onSignal)) };
}
