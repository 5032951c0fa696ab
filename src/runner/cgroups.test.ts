import { expect, test } from "vitest";
import { findCgroupMount } from "./cgroups.ts";

const cases: Record<string, { mountinfo: string; want: unknown }> = {
  "a unified system": {
    mountinfo: "24 22 0:22 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate",
    want: { root: "/", point: "/sys/fs/cgroup" },
  },
  "a hybrid system mounts it elsewhere": {
    mountinfo: [
      "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755",
      "36 31 0:33 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices",
      "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw",
    ].join("\n"),
    want: { root: "/", point: "/sys/fs/cgroup/unified" },
  },
  "a container sees a part of it": {
    mountinfo: "24 22 0:22 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw",
    want: { root: "/docker/abc", point: "/sys/fs/cgroup" },
  },
  "a blank in the path": {
    mountinfo: "24 22 0:22 / /mnt/my\\040groups rw - cgroup2 cgroup2 rw",
    want: { root: "/", point: "/mnt/my groups" },
  },
  "version 1 only": {
    mountinfo: "36 31 0:33 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices",
    want: undefined,
  },
  "no mounts at all": { mountinfo: "", want: undefined },
};

for (const [name, { mountinfo, want }] of Object.entries(cases)) {
  test(name, () => expect(findCgroupMount(mountinfo)).toEqual(want));
}
