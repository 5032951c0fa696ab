import { expect, test } from "vitest";
import type { WireWantedPart } from "../protocol/index.ts";
import { environmentOf, type Surroundings } from "./environment.ts";

const part = (more: Partial<WireWantedPart> = {}) =>
  ({
    request_id: "r1",
    number: 7,
    attempt: 2,
    resume: true,
    rank: 0,
    nodes: ["one"],
    devices: [],
    array_index: null,
    run: { command: ["true"] },
    ...more,
  }) as unknown as WireWantedPart;
const here: Surroundings = { home: "/h", user: "u", path: "/bin", hasGpus: true, secrets: {} };

test("E6: a job gets what was given with it, who it is, and nothing else", () => {
  const given = part({ run: { command: ["true"], environment: { A: "1", PATH: "/own" } } });
  expect(environmentOf(given, { ...here, hasGpus: false, secrets: { KEY: "s" } })).toEqual({
    ...{ HOME: "/h", USER: "u", LOGNAME: "u", PATH: "/own", A: "1", KEY: "s" },
    ...{ BERTH_REQUEST: "r1", BERTH_NUMBER: "7", BERTH_ATTEMPT: "2", BERTH_RESUME: "1" },
    ...{ BERTH_NODE_RANK: "0", BERTH_NODE_COUNT: "1", BERTH_NODES: "one" },
  });
});

test("N2: it sees its own devices, whatever its environment says; without any it sees none", () => {
  const greedy = { command: ["true"], environment: { CUDA_VISIBLE_DEVICES: "0,1,2,3" } };
  expect(environmentOf(part({ devices: [2, 3], run: greedy }), here)).toMatchObject({
    CUDA_VISIBLE_DEVICES: "2,3",
    ROCR_VISIBLE_DEVICES: "2,3",
    NVIDIA_VISIBLE_DEVICES: "2,3",
  });
  expect(environmentOf(part({ run: greedy }), here)).toMatchObject({
    CUDA_VISIBLE_DEVICES: "",
    ROCR_VISIBLE_DEVICES: "",
    NVIDIA_VISIBLE_DEVICES: "void",
  });
});

test("E7: a job on several nodes knows its rank and where to meet; a member of an array its number", () => {
  const gang = part({ rank: 1, nodes: ["a", "b"], array_index: 5 });
  expect(environmentOf(gang, here)).toMatchObject({
    BERTH_NODE_RANK: "1",
    BERTH_NODES: "a,b",
    BERTH_NODE_COUNT: "2",
    BERTH_ARRAY_INDEX: "5",
    MASTER_ADDR: "a",
    MASTER_PORT: "20007",
  });
});
