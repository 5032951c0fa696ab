import { describe, expect, test } from "vitest";
import { parseMcpu, parseMemoryMb, parseSettings } from "./amounts.ts";

describe("memory becomes decimal megabytes, rounded up (R3)", () => {
  const cases: Record<string, number> = {
    "16GiB": 17_180,
    "8GiB": 8_590,
    "2GiB": 2_148,
    "1GB": 1_000,
    "500MiB": 525,
    "1KB": 1,
    "1KiB": 1,
    "1000KB": 1,
    "1001KB": 2,
    "1MB": 1,
    "1MiB": 2,
    "1.5GB": 1_500,
    "0.1GB": 100,
    "1TB": 1_000_000,
    "1TiB": 1_099_512,
    "1PB": 1_000_000_000,
    "1PiB": 1_125_899_907,
    "0GB": 0,
    " 16 GiB ": 17_180,
  };
  for (const [written, want] of Object.entries(cases)) {
    test(`${written} → ${want}`, () => expect(parseMemoryMb(written)).toEqual({ ok: true, value: want }));
  }
});

describe("memory that is refused", () => {
  const cases: Record<string, string | number> = {
    "a bare number in a text": "16",
    "a bare number": 16,
    "a unit alone": "GiB",
    "a unit in the wrong case": "16gib",
    "a unit of another family": "16Gi",
    "bytes without a prefix": "16B",
    "two units": "16GiB4MiB",
    "a sign": "-1GB",
    "two points": "1.2.3GB",
    "no digit before the point": ".5GB",
    "no digit after the point": "5.GB",
    nothing: "",
    "more than is countable": "99999999999999PB",
    "very many digits": `${"9".repeat(100_000)}GB`,
  };
  for (const [name, written] of Object.entries(cases)) {
    test(name, () => expect(parseMemoryMb(written)).toMatchObject({ ok: false }));
  }
  test("the hint for a missing unit repeats the number", () => {
    expect(parseMemoryMb(16)).toMatchObject({ hint: expect.stringContaining("16GiB") });
  });
});

describe("CPUs become milli-CPUs, rounded up from the decimal number that is written (R1, R3)", () => {
  const cases: [string | number, number][] = [
    [1, 1_000],
    [2.5, 2_500],
    [0.0005, 1],
    [0.001, 1],
    [0.0011, 2],
    [1e-7, 1],
    [1.1, 1_100],
    // 4.35 × 1000 is 4350.000000000001 in floating point, 1.005 × 1000 is 1004.9999999999999.
    [4.35, 4_350],
    [1.005, 1_005],
    [8.2, 8_200],
    ["0.1000000000000000000001", 101],
    ["2.5", 2_500],
    [0, 0],
    [1e12, 1_000_000_000_000_000],
  ];
  for (const [written, want] of cases) {
    test(`${written} → ${want}`, () => expect(parseMcpu(written)).toEqual({ ok: true, value: want }));
  }
});

describe("CPUs that are refused", () => {
  for (const written of [-1, "-1", "", "four", "1,5", "500m", "0x10", 1e300, "1e999", Number.NaN, Infinity]) {
    test(String(written), () => expect(parseMcpu(written)).toMatchObject({ ok: false }));
  }
});

describe("settings become resources (R3)", () => {
  const cases: Record<
    string,
    { settings: Parameters<typeof parseSettings>[0]; want: Record<string, number> }
  > = {
    "every typed field has its key": {
      settings: { gpu_count: 3, cpu_count: 1, memory: "2GiB" },
      want: { gpu: 3, mcpu: 1_000, memory_mb: 2_148 },
    },
    "pool_resources are merged": {
      settings: { gpu_count: 1, pool_resources: { tensorrt_sessions: 1 } },
      want: { gpu: 1, tensorrt_sessions: 1 },
    },
    "typed fields win": {
      settings: {
        gpu_count: 1,
        cpu_count: 2,
        memory: "1GB",
        pool_resources: { gpu: 9, mcpu: 9, memory_mb: 9 },
      },
      want: { gpu: 1, mcpu: 2_000, memory_mb: 1_000 },
    },
    "gpu_count 0 removes gpu": {
      settings: { gpu_count: 0, pool_resources: { gpu: 4, lic: 1 } },
      want: { lic: 1 },
    },
    "nothing asks for nothing": { settings: {}, want: {} },
    "a fractional gpu_count is left for the engine to refuse": {
      settings: { gpu_count: 1.5 },
      want: { gpu: 1.5 },
    },
  };
  for (const [name, { settings, want }] of Object.entries(cases)) {
    test(name, () => expect(parseSettings(settings)).toEqual({ ok: true, value: want }));
  }
  test("the first field that cannot be read is named", () => {
    expect(parseSettings({ cpu_count: "x", memory: "1GB" })).toMatchObject({
      ok: false,
      message: '"x" is not a number of CPUs.',
    });
  });
});
