// Policies and groups of a pool.

import { groupsOf, policiesOf, unreservedIn } from "../../engine/index.ts";
import type { WireGroup, WirePolicy } from "../../protocol/index.ts";
import {
  presentGroup,
  toComponentName,
  toGroupChange,
  toGroupName,
  toPolicyChange,
  toPoolName,
} from "../../translation/index.ts";
import {
  agreed,
  alter,
  createOrChange,
  hasPool,
  pageOf,
  policyBody,
  reachedPool,
  showGroup,
  showPolicy,
} from "../administration.ts";
import { type Call, type Handler, ok, type Services } from "../call.ts";
import { reachesComponent } from "../identity.ts";
import { forbidden, hidden, notFound } from "../problems.ts";
import { sightOf } from "../sight.ts";
import { warningText } from "../warnings.ts";

// --- Policies

export const listPolicies: Handler<"listPolicies"> = async (call, services) => {
  const pool = await reachedPool(call, services);
  const policies = await services.leader.read((view) => {
    if (!hasPool(view, pool)) return [];
    const sight = sightOf(call.identity, view);
    return policiesOf(view.state, toPoolName(pool))
      .filter(({ component }) => sight.namesComponent(pool, component))
      .map(policyBody);
  });
  return pageOf(policies, ({ component }) => component, call.query);
};

export const getPolicy: Handler<"getPolicy"> = async (call, services) => {
  const { pool, component } = await seenPolicy(call, services);
  const policy = await services.leader.read((view) => showPolicy(view, pool, component));
  if (policy === undefined) throw notFound("policy of", component);
  return ok(policy.body, { etag: policy.etag });
};

/** A policy that the caller sees; whether it may be changed is judged with the change. */
async function seenPolicy(call: Call, services: Services): Promise<{ pool: string; component: string }> {
  const pool = await reachedPool(call, services);
  const component = call.params.component as string;
  const isSeen = await services.leader.read((view) =>
    sightOf(call.identity, view).namesComponent(pool, component),
  );
  if (!isSeen) throw hidden("policy of", component);
  return { pool, component };
}

export const attachPolicy: Handler<"attachPolicy"> = async (call, services) => {
  const pool = await reachedPool(call, services);
  const policy = agreed(call.body, { pool }) as WirePolicy;
  checkComponent(call, policy.component);
  return putPolicyAs("attachPolicy", call, services, policy, 201);
};

/** What is not attached yet cannot be hidden. */
function checkComponent({ identity }: Call, component: string): void {
  if (reachesComponent(identity, component)) return;
  throw forbidden(
    `The token "${identity.name}" does not reach the component "${component}".`,
    "Use one of yours.",
  );
}

function putPolicyAs(
  kind: "attachPolicy" | "updatePolicy",
  call: Call,
  services: Services,
  policy: WirePolicy,
  status: number,
) {
  const force = (call.query as { force?: string }).force === "true";
  return alter(call, services, {
    command: { kind, policy: toPolicyChange(policy), force },
    target: `policy ${policy.pool}/${policy.component}`,
    pools: [policy.pool],
    status,
    detail: { policy, force },
    show: (view) => showPolicy(view, policy.pool, policy.component),
    warnings: ({ state }) =>
      unreservedIn(state, toPoolName(policy.pool))
        .filter(({ component }) => component === policy.component)
        .map(warningText),
  });
}

export const putPolicy: Handler<"putPolicy"> = async (call, services) => {
  const pool = await reachedPool(call, services);
  const component = call.params.component as string;
  checkComponent(call, component);
  const policy = agreed(call.body, { pool, component }) as WirePolicy;
  const exists = async () =>
    (await services.leader.read((view) => showPolicy(view, pool, component))) !== undefined;
  return createOrChange(call, exists, (isThere) =>
    isThere
      ? putPolicyAs("updatePolicy", call, services, policy, 200)
      : putPolicyAs("attachPolicy", call, services, policy, 201),
  );
};

export const updatePolicy: Handler<"updatePolicy"> = async (call, services) => {
  const names = await seenPolicy(call, services);
  const policy = agreed(call.body, names) as WirePolicy;
  return putPolicyAs("updatePolicy", call, services, policy, 200);
};

export const detachPolicy: Handler<"detachPolicy"> = async (call, services) => {
  const { pool, component } = await seenPolicy(call, services);
  const force = call.query.force === "true";
  return alter(call, services, {
    command: { kind: "detachPolicy", pool: toPoolName(pool), component: toComponentName(component), force },
    target: `policy ${pool}/${component}`,
    pools: [pool],
    status: 204,
    detail: { force },
    show: (view) => showPolicy(view, pool, component),
  });
};

// --- Groups

export const listGroups: Handler<"listGroups"> = async (call, services) => {
  const pool = await reachedPool(call, services);
  const groups = await services.leader.read((view) =>
    hasPool(view, pool) ? groupsOf(view.state, toPoolName(pool)).map(presentGroup) : [],
  );
  return pageOf(groups, ({ name }) => name, call.query);
};

export const getGroup: Handler<"getGroup"> = async (call, services) => {
  const pool = await reachedPool(call, services);
  const name = call.params.group as string;
  const group = await services.leader.read((view) => showGroup(view, pool, name));
  if (group === undefined) throw notFound("group", name);
  return ok(group.body, { etag: group.etag });
};

export const createGroup: Handler<"createGroup"> = async (call, services) => {
  const pool = await reachedPool(call, services);
  return putGroupAs("createGroup", call, services, { pool, group: call.body, status: 201 });
};

export const putGroup: Handler<"putGroup"> = async (call, services) => {
  const pool = await reachedPool(call, services);
  const name = call.params.group as string;
  const group = agreed(call.body, { name }) as WireGroup;
  const exists = async () =>
    (await services.leader.read((view) => showGroup(view, pool, name))) !== undefined;
  return createOrChange(call, exists, (isThere) =>
    isThere
      ? putGroupAs("updateGroup", call, services, { pool, group, status: 200 })
      : putGroupAs("createGroup", call, services, { pool, group, status: 201 }),
  );
};

export const updateGroup: Handler<"updateGroup"> = async (call, services) => {
  const pool = await reachedPool(call, services);
  const group = agreed(call.body, { name: call.params.group as string }) as WireGroup;
  return putGroupAs("updateGroup", call, services, { pool, group, status: 200 });
};

function putGroupAs(
  kind: "createGroup" | "updateGroup",
  call: Call,
  services: Services,
  { pool, group, status }: { pool: string; group: WireGroup; status: number },
) {
  const force = (call.query as { force?: string }).force === "true";
  return alter(call, services, {
    command: { kind, pool: toPoolName(pool), group: toGroupChange(group), force },
    target: `group ${pool}/${group.name}`,
    pools: [pool],
    status,
    detail: { group, force },
    show: (view) => showGroup(view, pool, group.name),
  });
}

export const deleteGroup: Handler<"deleteGroup"> = async (call, services) => {
  const pool = await reachedPool(call, services);
  const name = call.params.group as string;
  const force = call.query.force === "true";
  return alter(call, services, {
    command: { kind: "deleteGroup", pool: toPoolName(pool), name: toGroupName(name), force },
    target: `group ${pool}/${name}`,
    pools: [pool],
    status: 204,
    detail: { force },
    show: (view) => showGroup(view, pool, name),
  });
};
