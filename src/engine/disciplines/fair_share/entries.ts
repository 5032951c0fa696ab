// Which requests belong to an operation, which of them wait and which run, as of when they were last counted.

import { operationKey } from "../../lines.ts";
import type { RequestId } from "../../records.ts";
import {
  type EngineState,
  NO_OPERATIONS,
  type Policy,
  type Pool,
  type Request,
  type Run,
} from "../../state.ts";
import type { LineEntry, Operation, PoolTree } from "./tree.ts";

/** All operations of a tree. */
export function* operationsIn({ policies }: PoolTree): Generator<Operation> {
  for (const { leaves } of policies.values()) {
    for (const { peers } of leaves.values()) for (const { operations } of peers.values()) yield* operations;
  }
}

/** The operation in a tree that a request belongs to, if there is one. */
export function operationWith(tree: PoolTree, request: Request): Operation | undefined {
  for (const operation of request.operations) if (operation.tree === tree) return operation;
  if (request.spec.operation === null) return undefined;
  const operation = tree.named.get(operationKey(request.spec));
  if (operation !== undefined) knowOperation(request, operation);
  return operation;
}

/** The same by the key of the operation. */
export function operationBy(state: EngineState, tree: PoolTree, key: string): Operation | undefined {
  if (!key.startsWith(REQUEST)) return tree.named.get(key);
  const request = state.requests.get(key.slice(REQUEST.length) as RequestId);
  return request && operationWith(tree, request);
}

const REQUEST = "request ";

/** In place of the one that it belonged to in an earlier tree of the pool. */
export function knowOperation(request: Request, operation: Operation): void {
  const { pool } = operation.parent.policy as Policy;
  const others = request.operations.filter(({ parent }) => parent.policy?.pool !== pool);
  request.operations = others.length === 0 ? [operation] : [...others, operation];
}

export function forgetOperation(request: Request, operation: Operation): void {
  const others = request.operations.filter((each) => each !== operation);
  request.operations = others.length === 0 ? NO_OPERATIONS : others;
}

/** Those that wait and hold nothing, by submission. */
export function membersIn({ operation, poolLine, waiting, promised, passing }: LineEntry): Iterable<Request> {
  const { request } = operation;
  if (request === null) return poolLine.line.members;
  return waiting > promised + passing ? [request] : NOBODY;
}

/** Those that are promised units in another pool. */
export function passersIn(pool: Pool, entry: LineEntry): Iterable<Request> {
  return entry.passing === 0 ? NOBODY : belongingTo(entry, pool.passers);
}

/** Those that are promised units here. */
export function holdersIn(pool: Pool, entry: LineEntry): Iterable<Request> {
  return entry.promised === 0 ? NOBODY : belongingTo(entry, pool.promised);
}

function belongingTo({ operation, poolLine }: LineEntry, requests: ReadonlySet<Request>): Iterable<Request> {
  const { request } = operation;
  return request === null ? [...requests].filter(({ line }) => line === poolLine.line) : [request];
}

/** Runs that are not stopping. */
export function* runsIn({ operation, running, poolLine }: LineEntry): Generator<Run> {
  const { request } = operation;
  if (request === null) for (const { runs } of poolLine.runKinds) yield* runs;
  else if (running > 0 && request.run !== null) yield request.run;
}

const NOBODY: readonly Request[] = [];
