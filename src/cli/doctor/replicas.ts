// What berth doctor says about servers that share a database: who they are, which leads, how far each is, and by which way
// the database is reached (C4, C8, C12).

import type { WireCluster } from "../../protocol/index.ts";
import type { Finding } from "../doctor.ts";

/** Followers look at least five times a second. */
const BEHIND_SECONDS_MAX = 1;
/** A server that is further behind is not ready (C8). */
const NOT_READY_SECONDS = 10;

/** Nothing about a server with a store of its own. */
export function aboutReplicas(cluster: WireCluster): Finding[] {
  if (cluster.database_path === null && cluster.members.length < 2) return [];
  return [
    aboutLeader(cluster),
    aboutMembers(cluster),
    ...aboutLag(cluster),
    ...aboutVersions(cluster),
    ...aboutPath(cluster),
  ];
}

function aboutLeader({ role, leader, epoch, members }: WireCluster): Finding {
  if (leader === null) return { what: "leader", state: "bad", text: "no server leads: changes wait" };
  if (role === "leader") return { what: "leader", state: "good", text: `this server, epoch ${epoch}` };
  const url = members.find(({ id }) => id === leader)?.url;
  return url === null || url === undefined
    ? { what: "leader", state: "bad", text: `${leader}, which the others cannot reach: give it --advertise` }
    : { what: "leader", state: "good", text: `${url}, epoch ${epoch}` };
}

function aboutMembers({ members, seq }: WireCluster): Finding {
  const names = members.map(({ id, url, version, seq: reached }) => {
    const behind = seq - reached;
    return `${url ?? id} (${version}${behind > 0 ? `, ${behind} events behind a second ago` : ""})`;
  });
  return members.length > 1
    ? { what: "servers", state: "good", text: names.join(", ") }
    : { what: "servers", state: "note", text: `${names.join()} alone: nobody takes over when it ends` };
}

function aboutLag({ role, behind_seconds: behind }: WireCluster): Finding[] {
  if (role === "leader") return [];
  const text = `this server is ${behind.toFixed(1)} s behind`;
  if (behind > NOT_READY_SECONDS)
    return [{ what: "lag", state: "bad", text: `${text}: can it reach the database?` }];
  return [{ what: "lag", state: behind > BEHIND_SECONDS_MAX ? "note" : "good", text }];
}

function aboutVersions({ members }: WireCluster): Finding[] {
  const versions = [...new Set(members.map(({ version }) => version))].sort();
  if (versions.length < 2) return [];
  const text = `${versions.join(" and ")} together: finish the upgrade; changes that the older cannot read are refused`;
  return [{ what: "versions", state: "note", text }];
}

function aboutPath({ database_path: path }: WireCluster): Finding[] {
  switch (path) {
    case "direct":
      return [
        { what: "database", state: "good", text: "direct connection: a leader that dies is replaced in 2 s" },
      ];
    case "pooler":
      return [
        {
          what: "database",
          state: "note",
          text: "through a pooler: a leader that dies is replaced in 10 s; connect directly for 2 s",
        },
      ];
    case null:
      return []; // It has only just started.
  }
}
