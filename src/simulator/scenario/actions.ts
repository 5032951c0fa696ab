// The actions of a script, each as a command of the engine or a change of the world around it.

import type { Command } from "../../engine/index.ts";
import type { ScenarioActionName, ScenarioArguments, ScenarioStep } from "../../protocol/index.ts";
import { scenarioActionNames } from "../../protocol/index.ts";
import {
  given,
  toComponentName,
  toCreatePool,
  toGroupChange,
  toGroupName,
  toMs,
  toNodeChange,
  toNodeName,
  toPolicyChange,
  toPoolName,
  toRequestChange,
  toRequestId,
  toRequestSpec,
  toUpdatePool,
} from "../../translation/index.ts";
import { advance, isDue, loseHolder, type Outcome, send, type World } from "./world.ts";

export type Action = {
  [Name in ScenarioActionName]: { readonly name: Name; readonly argument: ScenarioArguments[Name] };
}[ScenarioActionName];

/** The one action of a step; the schema has made sure that there is exactly one. */
export function actionOf(step: ScenarioStep): Action {
  const name = scenarioActionNames.find((candidate) => step[candidate] !== undefined);
  return { name, argument: name && step[name] } as Action;
}

/** Does what a step says, and lets everything happen that is due at the same instant, such as a grace of 0 s. */
export function perform(world: World, action: Action): Outcome {
  const done = act(world, action);
  if (done.refusal !== null || !isDue(world)) return done;
  const rest = advance(world, 0);
  return { events: [...done.events, ...rest.events], refusal: rest.refusal };
}

function act(world: World, action: Action): Outcome {
  switch (action.name) {
    case "advance":
      return advance(world, toMs(action.argument));
    case "lose_holder":
      return loseHolder(world, toRequestId(action.argument));
    case "submit": {
      const { id, ...submission } = action.argument;
      const result = toRequestSpec(submission, { id, submittedBy: "scenario" });
      if (result.outcome === "refused") return { events: [], refusal: result.refusal };
      return send(world, { kind: "submitRequest", spec: result.spec });
    }
    default:
      return send(world, toCommand(action, world.nowMs));
  }
}

type OtherAction = Exclude<Action, { name: "advance" | "lose_holder" | "submit" }>;

function toCommand({ name, argument }: OtherAction, nowMs: number): Command {
  switch (name) {
    case "finish":
      return { kind: "reportEnd", requestId: toRequestId(argument), outcome: "succeeded" };
    case "fail":
      return { kind: "reportEnd", requestId: toRequestId(argument), outcome: "failed" };
    case "stopped":
      return { kind: "reportEnd", requestId: toRequestId(argument), outcome: "stopped" };
    case "update_request": {
      const { id, ...change } = argument;
      return { kind: "updateRequest", requestId: toRequestId(id), change: toRequestChange(change) };
    }
    case "cancel":
      return { kind: "cancelRequest", requestId: toRequestId(argument) };
    case "checkpointed":
      return { kind: "reportCheckpoint", requestId: toRequestId(argument), checkpoint: { report: "done" } };
    case "progress":
      return {
        kind: "reportCheckpoint",
        requestId: toRequestId(argument),
        checkpoint: { report: "progress" },
      };
    case "defer":
      return {
        kind: "reportCheckpoint",
        requestId: toRequestId(argument.id),
        checkpoint: { report: "defer", deferMs: toMs(argument.seconds) },
      };
    case "create_pool":
      return toCreatePool(argument);
    case "update_pool":
      return toUpdatePool(argument);
    case "delete_pool": {
      const pool = typeof argument === "string" ? { name: argument } : argument;
      return given({ kind: "deletePool" as const, name: toPoolName(pool.name), force: pool.force });
    }
    case "attach_policy":
      return given({
        kind: "attachPolicy" as const,
        policy: toPolicyChange(argument),
        force: argument.force,
      });
    case "update_policy":
      return given({
        kind: "updatePolicy" as const,
        policy: toPolicyChange(argument),
        force: argument.force,
      });
    case "detach_policy":
      return given({
        kind: "detachPolicy" as const,
        pool: toPoolName(argument.pool),
        component: toComponentName(argument.component),
        force: argument.force,
      });
    case "create_group":
      return given({
        kind: "createGroup" as const,
        pool: toPoolName(argument.pool),
        group: toGroupChange(argument),
        force: argument.force,
      });
    case "update_group":
      return given({
        kind: "updateGroup" as const,
        pool: toPoolName(argument.pool),
        group: toGroupChange(argument),
        force: argument.force,
      });
    case "delete_group":
      return given({
        kind: "deleteGroup" as const,
        pool: toPoolName(argument.pool),
        name: toGroupName(argument.name),
        force: argument.force,
      });
    case "delete_request": {
      const request = typeof argument === "string" ? { id: argument } : argument;
      return given({
        kind: "deleteRequest" as const,
        requestId: toRequestId(request.id),
        force: request.force,
      });
    }
    case "node_up":
      return { kind: "putNode", node: toNodeChange(argument) };
    case "node_down":
      return { kind: "loseNode", name: toNodeName(argument) };
    case "drain": {
      const node = typeof argument === "string" ? { name: argument } : argument;
      const deadlineMs =
        node.deadline_seconds === undefined ? undefined : nowMs + toMs(node.deadline_seconds);
      return given({ kind: "drainNode" as const, name: toNodeName(node.name), deadlineMs });
    }
  }
}

/** The action in a few words, for reports: `submit b`, `advance 30 s`. */
export function describeAction({ name, argument }: Action): string {
  if (name === "advance") return `advance ${argument} s`;
  if (typeof argument === "string") return `${name} ${argument}`;
  const { id, pool, component, name: own } = argument as Record<string, string | undefined>;
  return [name, id ?? pool, id === undefined ? (component ?? own) : undefined].filter(Boolean).join(" ");
}
