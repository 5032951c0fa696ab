import { expect, test } from "vitest";
import type { WireCluster } from "../../protocol/index.ts";
import { aboutReplicas } from "./replicas.ts";

const member = (name: string, more: Partial<WireCluster["members"][number]> = {}) => ({
  ...{ id: name, url: `http://${name}`, version: "0.1.0", seq: 10, leads: name === "a" },
  ...more,
});

function cluster(more: Partial<WireCluster>): WireCluster {
  return {
    ...{ role: "follower", epoch: 3, seq: 10, leader: "a", behind_seconds: 0.2, leader_changes: 0 },
    ...{ history_lost: null, has_hint: false, database_path: "direct" },
    members: [member("a"), member("b")],
    ...more,
  };
}

const servers = "good servers: http://a (0.1.0), http://b (0.1.0)";
const leads = "good leader: http://a, epoch 3";
const lag = "good lag: this server is 0.2 s behind";
const direct = "good database: direct connection: a leader that dies is replaced in 2 s";
const cases: Record<string, { cluster: Partial<WireCluster>; want: string[] }> = {
  "a follower": { cluster: {}, want: [leads, servers, lag, direct] },
  "the leader": { cluster: { role: "leader" }, want: ["good leader: this server, epoch 3", servers, direct] },
  "a store of its own": { cluster: { database_path: null, members: [member("a")] }, want: [] },
  "behind a pooler there is no hint (C4)": {
    cluster: { database_path: "pooler" },
    want: [
      ...[leads, servers, lag],
      "note database: through a pooler: a leader that dies is replaced in 10 s; connect directly for 2 s",
    ],
  },
  "nobody leads, and nothing is heard of the database": {
    cluster: { leader: null, behind_seconds: 31, database_path: null },
    want: [
      "bad leader: no server leads: changes wait",
      servers,
      "bad lag: this server is 31.0 s behind: can it reach the database?",
    ],
  },
  "a leader that the others cannot reach": {
    cluster: { members: [member("a", { url: null }), member("b", { seq: 4 })] },
    want: [
      "bad leader: a, which the others cannot reach: give it --advertise",
      "good servers: a (0.1.0), http://b (0.1.0, 6 events behind a second ago)",
      ...[lag, direct],
    ],
  },
  "an upgrade that is under way (C12)": {
    cluster: { members: [member("a", { version: "0.2.0" }), member("b")] },
    want: [
      ...[leads, "good servers: http://a (0.2.0), http://b (0.1.0)", lag],
      "note versions: 0.1.0 and 0.2.0 together: finish the upgrade; changes that the older cannot read are refused",
      direct,
    ],
  },
  "one server alone on a database": {
    cluster: { role: "leader", members: [member("a")] },
    want: [
      "good leader: this server, epoch 3",
      "note servers: http://a (0.1.0) alone: nobody takes over when it ends",
      direct,
    ],
  },
};

for (const [name, { cluster: more, want }] of Object.entries(cases)) {
  test(name, () => {
    const found = aboutReplicas(cluster(more)).map(({ what, state, text }) => `${state} ${what}: ${text}`);
    expect(found).toEqual(want);
  });
}
