import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    pool: "forks",
    maxWorkers: 2,
    // Generous, so that a slow machine never decides whether a test passes.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    coverage: { include: ["src/**/*.ts"], exclude: ["src/**/*.test.ts"] },
  },
});
