import { describe, expect, test } from "vitest";
import { isBelowFairShare, type Standing, satisfaction } from "./satisfaction.ts";

const ratios: Record<string, { standing: Standing; want: number }> = {
  "usage over fair share": {
    standing: { usage: [0.1], demand: [1], fairShare: [0.4] },
    want: 0.25,
  },
  "a key above its fair share: the largest ratio": {
    standing: { usage: [0.2, 0.3], demand: [1, 1], fairShare: [0.4, 0.2] },
    want: 1.5,
  },
  "otherwise the largest over the keys whose demand exceeds the fair share": {
    standing: { usage: [0.1, 0.2], demand: [1, 0.2], fairShare: [0.4, 0.2] },
    want: 0.25,
  },
  "the largest of these, though another one has less": {
    standing: { usage: [0.1, 0.2], demand: [1, 1], fairShare: [0.4, 0.4] },
    want: 0.5,
  },
  "if no demand exceeds its fair share, the smallest": {
    standing: { usage: [0.1, 0.2], demand: [0.4, 0.4], fairShare: [0.4, 0.4] },
    want: 0.25,
  },
  "a key without fair share and usage says nothing": {
    standing: { usage: [0.1, 0], demand: [0.2, 0], fairShare: [0.2, 0] },
    want: 0.5,
  },
  "infinite without a fair share": {
    standing: { usage: [0], demand: [1], fairShare: [0] },
    want: Number.POSITIVE_INFINITY,
  },
};

describe("satisfaction (9.6)", () => {
  for (const [name, { standing, want }] of Object.entries(ratios)) {
    test(name, () => {
      expect(satisfaction(standing)).toBeCloseTo(want, 12);
    });
  }
});

const statuses: Record<string, { standing: Standing; want: boolean }> = {
  "below four fifths of the fair share": {
    standing: { usage: [0.31], demand: [1], fairShare: [0.4] },
    want: true,
  },
  "at four fifths of the fair share": {
    standing: { usage: [0.32], demand: [1], fairShare: [0.4] },
    want: false,
  },
  "no tolerance where the fair share covers the demand": {
    standing: { usage: [0.39], demand: [0.4], fairShare: [0.4] },
    want: true,
  },
  "one key with unmet demand that has enough is enough": {
    standing: { usage: [0.1, 0.4], demand: [1, 1], fairShare: [0.4, 0.4] },
    want: false,
  },
  "keys without unmet demand do not count": {
    standing: { usage: [0.1, 0.4], demand: [1, 0.4], fairShare: [0.4, 0.4] },
    want: true,
  },
  "nothing lacking": {
    standing: { usage: [0.1], demand: [0.1], fairShare: [0.4] },
    want: false,
  },
};

describe("below fair share (9.3)", () => {
  for (const [name, { standing, want }] of Object.entries(statuses)) {
    test(name, () => {
      expect(isBelowFairShare(standing, 0.8)).toBe(want);
    });
  }
});
