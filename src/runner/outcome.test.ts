import { expect, test } from "vitest";
import { type Circumstances, type CommandEnd, outcomeOf } from "./outcome.ts";

const exited = (exitCode: number): CommandEnd => ({ exitCode, signal: null });
const killed = (signal: NodeJS.Signals): CommandEnd => ({ exitCode: 138, signal });
const unasked: Circumstances = { told: undefined, hasSaved: false, hasFinished: false };
const asked: Circumstances = { ...unasked, told: "checkpoint" };
const terminated: Circumstances = { ...unasked, told: "stop" };

const cases: Record<string, [CommandEnd, Circumstances, string]> = {
  "0 before anything was asked": [exited(0), unasked, "succeeded"],
  "0 after a checkpoint of its own accord": [exited(0), { ...unasked, hasSaved: true }, "succeeded"],
  "another code before anything was asked": [exited(3), unasked, "failed"],
  "75 before anything was asked": [exited(75), unasked, "failed"],
  "a signal before anything was asked": [killed("SIGSEGV"), unasked, "failed"],
  "finished, and then a failure that nobody asked for": [
    exited(3),
    { ...unasked, hasFinished: true },
    "failed",
  ],
  "0 after the notice": [exited(0), asked, "succeeded"],
  "0 after the notice and a complete checkpoint": [exited(0), { ...asked, hasSaved: true }, "stopped"],
  "75 after the notice, without a checkpoint": [exited(75), asked, "stopped"],
  "another code after the notice": [exited(3), asked, "stopped"],
  "death by the checkpoint signal": [killed("SIGUSR1"), asked, "stopped"],
  "0 after SIGTERM": [exited(0), terminated, "stopped"],
  "death by SIGTERM": [killed("SIGTERM"), terminated, "stopped"],
  "finished after a complete checkpoint": [
    exited(0),
    { told: "checkpoint", hasSaved: true, hasFinished: true },
    "succeeded",
  ],
  "finished, and SIGTERM was faster than its end": [
    killed("SIGTERM"),
    { ...terminated, hasFinished: true },
    "succeeded",
  ],
};

for (const [name, [end, circumstances, want]] of Object.entries(cases)) {
  test(`${name}: ${want}`, () => expect(outcomeOf(end, circumstances)).toBe(want));
}
