import { expect, test } from "vitest";
import { StoreError } from "../errors.ts";
import { isTrouble, translatePostgresError } from "./errors.ts";

const failure = (code?: string) => Object.assign(new Error("reason"), code === undefined ? {} : { code });

const cases: Record<string, { code?: string; want: string | undefined; isUnknown: boolean }> = {
  "the socket broke": { code: "ECONNRESET", want: "unavailable", isUnknown: true },
  "the socket was closed before we wrote": { code: "EPIPE", want: "unavailable", isUnknown: true },
  "the driver gave up waiting": { want: "unavailable", isUnknown: true },
  "the server shuts down": { code: "57P01", want: "unavailable", isUnknown: true },
  "the server is starting": { code: "57P03", want: "unavailable", isUnknown: true },
  "the statement took too long": { code: "57014", want: "unavailable", isUnknown: true },
  "the lock was not to be had": { code: "55P03", want: "unavailable", isUnknown: true },
  "too many connections": { code: "53300", want: "unavailable", isUnknown: true },
  "the server could not read a file": { code: "58030", want: "unavailable", isUnknown: true },
  "we stood still in a transaction": { code: "25P03", want: "unavailable", isUnknown: true },
  "no room": { code: "53100", want: "disk_full", isUnknown: false },
  "a database that is read only": { code: "25006", want: "unavailable", isUnknown: false },
  "a damaged index": { code: "XX002", want: "corrupt", isUnknown: false },
  "a wrong password": { code: "28P01", want: "unavailable", isUnknown: false },
  "a mistake of ours": { code: "42703", want: undefined, isUnknown: false },
  "a row that exists": { code: "23505", want: undefined, isUnknown: false },
};

for (const [name, { code, want, isUnknown }] of Object.entries(cases)) {
  test(name, () => {
    const error = failure(code);
    const translated = translatePostgresError(error);
    expect(translated instanceof StoreError ? translated.code : undefined).toBe(want);
    if (want === undefined) expect(translated).toBe(error);
    expect(isTrouble(error)).toBe(isUnknown);
  });
}
