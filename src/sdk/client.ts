// The client: one typed method per route, and the ways to wait for a grant and to work under it.

import type {
  RouteName,
  WireEvent,
  WireExplanation,
  WireGroup,
  WireGroupAnswer,
  WireJobArray,
  WireJobSubmission,
  WireLogPiece,
  WireNode,
  WireNodeAnswer,
  WireNodeSync,
  WireNodeSyncAnswer,
  WireOperation,
  WirePlan,
  WirePolicy,
  WirePolicyAnswer,
  WirePool,
  WirePoolAnswer,
  WirePoolSync,
  WirePoolSyncAnswer,
  WirePoolUpdate,
  WireRelease,
  WireRenewal,
  WireRequest,
  WireRequestSubmission,
  WireTarget,
  WireTargetCreation,
  WireTokenCreation,
} from "../protocol/index.ts";
import { type EventFilter, type StreamOptions, streamEvents } from "./events.ts";
import { type Grant, holdGrant } from "./grant.ts";
import { type LogChunk, type LogQuery, readLog } from "./logs.ts";
import { reasonOf, type WaitingReason } from "./reason.ts";
import {
  type AnswerOf,
  type BodyOf,
  type CallInput,
  type CallOptions,
  type ClientOptions,
  createTransport,
  type QueryOf,
  type Transport,
} from "./transport.ts";
import { type GrantedRequest, type WaitOptions, waitForGrant } from "./waiting.ts";
import { type WorkSettings, withdraw, withGrant } from "./work.ts";

/** For changes that can be tried out (P10) or forced (P7, P8). */
export interface ChangeOptions extends CallOptions {
  readonly dryRun?: boolean;
  readonly force?: boolean;
}

/** A dry run answers with a plan instead of the thing. */
export type Changed<Options, Answer> = Options extends { readonly dryRun: true } ? WirePlan : Answer;

/** The server waits for the node, up to 10 s. */
const SIGNAL_TIMEOUT_MS = 15_000;

export type Client = ReturnType<typeof createClient>;

export function createClient(options: ClientOptions) {
  return clientOf(createTransport(options));
}

function clientOf(transport: Transport) {
  /** Any route, by its name in the table of the protocol. */
  async function call<Name extends RouteName>(
    route: Name,
    input?: CallInput,
    options?: CallOptions,
  ): Promise<AnswerOf<Name>> {
    return (await transport.send(route, input, options)).body;
  }

  async function change<Options extends ChangeOptions, Answer>(
    route: RouteName,
    input: CallInput,
    options: Options | undefined,
  ): Promise<Changed<Options, Answer>> {
    const query = { ...input.query, dry_run: options?.dryRun, force: options?.force };
    return (await call(route, { ...input, query }, options)) as Changed<Options, Answer>;
  }

  /** Follows the cursors of a list. */
  async function* all<Item>(
    list: (cursor: string | undefined) => Promise<{ items: Item[]; next_cursor: string | null }>,
  ): AsyncGenerator<Item, void> {
    let cursor: string | undefined;
    do {
      const page = await list(cursor);
      yield* page.items;
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }

  const requests = {
    submit: (body: WireRequestSubmission, options?: CallOptions) => call("submitRequest", { body }, options),
    submitMany: (items: BodyOf<"submitRequests">["items"], options?: CallOptions) =>
      call("submitRequests", { body: { items } }, options),
    get: (id: string, query: QueryOf<"getRequest"> = {}, options?: CallOptions) =>
      call("getRequest", { params: { id }, query }, options),
    list: (query: QueryOf<"listRequests"> = {}, options?: CallOptions) =>
      call("listRequests", { query }, options),
    all: (query: QueryOf<"listRequests"> = {}) =>
      all<WireRequest>((cursor) => call("listRequests", { query: { ...query, ...(cursor && { cursor }) } })),
    renew: (id: string, body: WireRenewal, options?: CallOptions) =>
      call("renewRequest", { params: { id }, body }, options),
    renewMany: (items: BodyOf<"renewRequests">["items"], options?: CallOptions) =>
      call("renewRequests", { body: { items } }, options),
    release: (id: string, body: WireRelease, options?: CallOptions) =>
      call("releaseRequest", { params: { id }, body }, options),
    releaseMany: (items: BodyOf<"releaseRequests">["items"], options?: CallOptions) =>
      call("releaseRequests", { body: { items } }, options),
    checkpoint: (id: string, body: BodyOf<"checkpointRequest">, options?: CallOptions) =>
      call("checkpointRequest", { params: { id }, body }, options),
    /** What waits keeps its place unless it asks for more; what runs can change its walltime, class and retries. */
    update: <Options extends ChangeOptions>(id: string, body: BodyOf<"updateRequest">, options?: Options) =>
      change<Options, WireRequest>("updateRequest", { params: { id }, body }, options),
    cancel: <Options extends ChangeOptions & { readonly abandoned?: boolean }>(
      id: string,
      options?: Options,
    ) => {
      const query = { abandoned: options?.abandoned };
      return change<Options, WireRequest>("cancelRequest", { params: { id }, query }, options);
    },
    delete: (id: string, options?: ChangeOptions) =>
      change<ChangeOptions, undefined>("deleteRequest", { params: { id } }, options),
    /** `before`: compares its place in the queue with that of another request. */
    explain: (
      id: string,
      query: QueryOf<"explainRequest"> = {},
      options?: CallOptions,
    ): Promise<WireExplanation> => call("explainRequest", { params: { id }, query }, options),
    decisions: (id: string, options?: CallOptions) => call("listDecisions", { params: { id } }, options),
    /** In one line; undefined if nobody can say now. */
    why: (request: WireRequest): Promise<WaitingReason | undefined> => reasonOf(transport, request),
    /** Cancels a request that waits; a grant that comes in the same moment is given back. */
    withdraw: (id: string, details?: Pick<WireRelease, "cause" | "message">) =>
      withdraw(transport, id, details),
  };

  const plans = {
    /** What changes would do together. */
    make: (body: BodyOf<"makePlan">, options?: CallOptions) => call("makePlan", { body }, options),
    /** Makes them, unless a pool that they touch has changed since event `at_seq` of the plan that was shown. */
    apply: (body: BodyOf<"makePlan">, atSeq: number, options?: CallOptions) =>
      call("makePlan", { body, query: { apply: "true" } }, { ...options, ifMatch: String(atSeq) }),
  };

  const pools = {
    list: (query: QueryOf<"listPools"> = {}, options?: CallOptions) => call("listPools", { query }, options),
    all: () => all<WirePoolAnswer>((cursor) => call("listPools", { query: { cursor } })),
    get: (pool: string, options?: CallOptions) => call("getPool", { params: { pool } }, options),
    create: <Options extends ChangeOptions>(body: WirePool, options?: Options) =>
      change<Options, WirePoolAnswer>("createPool", { body }, options),
    put: <Options extends ChangeOptions>(pool: string, body: Partial<WirePool>, options?: Options) =>
      change<Options, WirePoolAnswer>("putPool", { params: { pool }, body }, options),
    update: <Options extends ChangeOptions>(pool: string, body: Partial<WirePoolUpdate>, options?: Options) =>
      change<Options, WirePoolAnswer>("updatePool", { params: { pool }, body }, options),
    delete: <Options extends ChangeOptions>(pool: string, options?: Options) =>
      change<Options, undefined>("deletePool", { params: { pool } }, options),
    resumeExpiry: (pool: string, options?: CallOptions) =>
      call("resumeExpiry", { params: { pool } }, options),
    queue: (pool: string, query: QueryOf<"listQueue"> = {}, options?: CallOptions) =>
      call("listQueue", { params: { pool }, query }, options),
    shares: (pool: string, options?: CallOptions) => call("getShares", { params: { pool } }, options),
  };

  const policies = {
    list: (pool: string, query: QueryOf<"listPolicies"> = {}, options?: CallOptions) =>
      call("listPolicies", { params: { pool }, query }, options),
    all: (pool: string) =>
      all<WirePolicyAnswer>((cursor) => call("listPolicies", { params: { pool }, query: { cursor } })),
    get: (pool: string, component: string, options?: CallOptions) =>
      call("getPolicy", { params: { pool, component } }, options),
    attach: <Options extends ChangeOptions>(
      pool: string,
      body: Omit<WirePolicy, "pool">,
      options?: Options,
    ) => change<Options, WirePolicyAnswer>("attachPolicy", { params: { pool }, body }, options),
    put: <Options extends ChangeOptions>(
      pool: string,
      component: string,
      body: Partial<WirePolicy>,
      options?: Options,
    ) => change<Options, WirePolicyAnswer>("putPolicy", { params: { pool, component }, body }, options),
    update: <Options extends ChangeOptions>(
      pool: string,
      component: string,
      body: Partial<WirePolicy>,
      options?: Options,
    ) => change<Options, WirePolicyAnswer>("updatePolicy", { params: { pool, component }, body }, options),
    detach: <Options extends ChangeOptions>(pool: string, component: string, options?: Options) =>
      change<Options, undefined>("detachPolicy", { params: { pool, component } }, options),
  };

  const groups = {
    list: (pool: string, query: QueryOf<"listGroups"> = {}, options?: CallOptions) =>
      call("listGroups", { params: { pool }, query }, options),
    get: (pool: string, group: string, options?: CallOptions) =>
      call("getGroup", { params: { pool, group } }, options),
    create: <Options extends ChangeOptions>(pool: string, body: WireGroup, options?: Options) =>
      change<Options, WireGroupAnswer>("createGroup", { params: { pool }, body }, options),
    put: <Options extends ChangeOptions>(
      pool: string,
      group: string,
      body: Partial<WireGroup>,
      options?: Options,
    ) => change<Options, WireGroupAnswer>("putGroup", { params: { pool, group }, body }, options),
    update: <Options extends ChangeOptions>(
      pool: string,
      group: string,
      body: Partial<WireGroup>,
      options?: Options,
    ) => change<Options, WireGroupAnswer>("updateGroup", { params: { pool, group }, body }, options),
    delete: <Options extends ChangeOptions>(pool: string, group: string, options?: Options) =>
      change<Options, undefined>("deleteGroup", { params: { pool, group } }, options),
  };

  const nodes = {
    list: (query: QueryOf<"listNodes"> = {}, options?: CallOptions) => call("listNodes", { query }, options),
    all: (pool?: string) => all<WireNodeAnswer>((cursor) => call("listNodes", { query: { cursor, pool } })),
    get: (node: string, options?: CallOptions) => call("getNode", { params: { node } }, options),
    create: <Options extends ChangeOptions>(body: WireNode, options?: Options) =>
      change<Options, WireNodeAnswer>("createNode", { body }, options),
    put: <Options extends ChangeOptions>(node: string, body: Partial<WireNode>, options?: Options) =>
      change<Options, WireNodeAnswer>("putNode", { params: { node }, body }, options),
    drain: <Options extends ChangeOptions>(node: string, body: BodyOf<"drainNode"> = {}, options?: Options) =>
      change<Options, WireNodeAnswer>("drainNode", { params: { node }, body }, options),
    undrain: <Options extends ChangeOptions>(node: string, options?: Options) =>
      change<Options, WireNodeAnswer>("undrainNode", { params: { node } }, options),
    enrol: (node: string, body: BodyOf<"enrolNode">, options?: CallOptions) =>
      call("enrolNode", { params: { node }, body }, options),
    /** An operator has looked: nothing runs there any more. */
    confirmLost: <Options extends ChangeOptions>(node: string, options?: Options) =>
      change<Options, WireNodeAnswer>("confirmNodeLost", { params: { node } }, options),
    remove: <Options extends ChangeOptions>(node: string, options?: Options) =>
      change<Options, undefined>("removeNode", { params: { node } }, options),
  };

  const jobs = {
    submit: (body: WireJobSubmission, options?: CallOptions) => call("submitJob", { body }, options),
    submitArray: (body: WireJobArray, options?: CallOptions) => call("submitJobArray", { body }, options),
    get: (id: string, options?: CallOptions) => call("getJob", { params: { id } }, options),
    list: (query: QueryOf<"listJobs"> = {}, options?: CallOptions) => call("listJobs", { query }, options),
    all: (query: QueryOf<"listJobs"> = {}) =>
      all<WireRequest>((cursor) => call("listJobs", { query: { ...query, ...(cursor && { cursor }) } })),
    /** Its output, piece by piece; goes on by itself after interruptions. */
    logs: (id: string, query?: LogQuery, signal?: AbortSignal): AsyncGenerator<LogChunk, void> =>
      readLog(transport, id, query, signal),
    signal: (id: string, signal: string, options?: CallOptions) =>
      call("signalJob", { params: { id }, body: { signal } }, { timeoutMs: SIGNAL_TIMEOUT_MS, ...options }),
  };

  const operations = {
    list: (query: QueryOf<"listOperations"> = {}, options?: CallOptions) =>
      call("listOperations", { query }, options),
    all: (query: QueryOf<"listOperations"> = {}) =>
      all<WireOperation>((cursor) =>
        call("listOperations", { query: { ...query, ...(cursor && { cursor }) } }),
      ),
    get: (operation: string, query: QueryOf<"getOperation"> = {}, options?: CallOptions) =>
      call("getOperation", { params: { operation }, query }, options),
    cancel: (operation: string, query: QueryOf<"cancelOperation"> = {}, options?: CallOptions) =>
      call("cancelOperation", { params: { operation }, query }, options),
  };

  /** For the agent of a node (20). */
  const agent = {
    join: (node: string, body: BodyOf<"joinNode">, options?: CallOptions) =>
      call("joinNode", { params: { node }, body }, options),
    sync: (node: string, body: WireNodeSync, options?: CallOptions): Promise<WireNodeSyncAnswer> =>
      call("syncNode", { params: { node }, body }, options),
    checkpoint: (node: string, body: BodyOf<"reportPartCheckpoint">, options?: CallOptions) =>
      call("reportPartCheckpoint", { params: { node }, body }, options),
    sendLog: (node: string, reader: string, body: WireLogPiece, options?: CallOptions) =>
      call("sendLog", { params: { node, reader }, body }, options),
  };

  /** For the adapter of a pool (21, 22). */
  const adapter = {
    sync: (pool: string, body: WirePoolSync, options?: CallOptions): Promise<WirePoolSyncAnswer> =>
      call("syncPool", { params: { pool }, body }, options),
    checkpoint: (pool: string, body: BodyOf<"reportPoolCheckpoint">, options?: CallOptions) =>
      call("reportPoolCheckpoint", { params: { pool }, body }, options),
    sendLog: (pool: string, reader: string, body: WireLogPiece, options?: CallOptions) =>
      call("sendPoolLog", { params: { pool, reader }, body }, options),
  };

  const tokens = {
    list: (query: QueryOf<"listTokens"> = {}, options?: CallOptions) =>
      call("listTokens", { query }, options),
    get: (token: string, options?: CallOptions) => call("getToken", { params: { token } }, options),
    /** The answer is the only one that shows the secret. */
    create: (body: WireTokenCreation, options?: CallOptions) => call("createToken", { body }, options),
    revoke: (token: string, options?: CallOptions) => call("revokeToken", { params: { token } }, options),
  };

  const targets = {
    list: (query: QueryOf<"listTargets"> = {}, options?: CallOptions) =>
      call("listTargets", { query }, options),
    all: () => all<WireTarget>((cursor) => call("listTargets", { query: { cursor } })),
    get: (target: string, options?: CallOptions) => call("getTarget", { params: { target } }, options),
    /** The answer is the only one that shows the secret of a webhook. */
    create: (body: WireTargetCreation, options?: CallOptions) => call("createTarget", { body }, options),
    test: (target: string, options?: CallOptions) => call("testTarget", { params: { target } }, options),
    remove: (target: string, options?: CallOptions) => call("deleteTarget", { params: { target } }, options),
  };

  const events = {
    /** Goes on by itself after interruptions; ends with the signal. */
    stream: (filter?: EventFilter, options?: StreamOptions): AsyncGenerator<WireEvent, void> =>
      streamEvents(transport, filter, options),
  };

  const server = {
    settings: (options?: CallOptions) => call("getSettings", {}, options),
    changeSettings: (body: BodyOf<"changeSettings">, options?: CallOptions) =>
      call("changeSettings", { body }, options),
    audit: (query: QueryOf<"listAudit"> = {}, options?: CallOptions) => call("listAudit", { query }, options),
    cluster: (options?: CallOptions) => call("getCluster", {}, options),
    handOver: (body: BodyOf<"handOver"> = {}, options?: CallOptions) => call("handOver", { body }, options),
    version: (options?: CallOptions) => call("version", {}, options),
    health: (options?: CallOptions) => call("healthz", {}, options),
    ready: (options?: CallOptions) => call("readyz", {}, options),
  };

  return {
    transport,
    call,
    requests,
    plans,
    pools,
    policies,
    groups,
    nodes,
    jobs,
    operations,
    agent,
    adapter,
    tokens,
    targets,
    events,
    server,
    whoami: (options?: CallOptions) => call("whoami", {}, options),
    /** Resolves with the request when it is granted; throws when it never will be. */
    waitForGrant: async (request: string | WireRequest, options?: WaitOptions): Promise<GrantedRequest> =>
      waitForGrant(transport, typeof request === "string" ? await requests.get(request) : request, options),
    /** Keeps a granted request alive until it is released. */
    hold: (request: GrantedRequest): Grant => holdGrant(transport, request),
    /** Submits, waits, runs, renews, releases, and runs again after a preemption. */
    withGrant: <Result>(
      settings: WorkSettings,
      work: (grant: Grant) => Promise<Result> | Result,
    ): Promise<Result> => withGrant(transport, settings, work),
    /** A function that runs under a grant of its own every time it is called. */
    step:
      <Arguments extends unknown[], Result>(
        settings: WorkSettings,
        work: (grant: Grant, ...args: Arguments) => Promise<Result> | Result,
      ) =>
      (...args: Arguments): Promise<Result> =>
        withGrant(transport, settings, (grant) => work(grant, ...args)),
  };
}
