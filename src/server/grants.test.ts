import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import type { GrantKey } from "../leader/index.ts";
import { createGrants } from "./grants.ts";

const secret = "ab".repeat(32);
const keyOf = (secret: string, fromSeq = 1, offset = 0) => ({ secret, fromSeq, offset });
const keys = [keyOf(secret)];
const id = "01900000-0000-7000-8000-000000000001";

test("a token is the engine's token and its signature, and is known again", () => {
  const grants = createGrants(keys);
  const mac = createHmac("sha256", Buffer.from(secret, "hex")).update(`${id}:42`).digest("base64url");
  expect(grants.sign(id, 42)).toBe(`42.${mac}`);
  expect(grants.sign(id, 42)).toBe(`42.${mac}`);
  expect(grants.verify(id, `42.${mac}`)).toBe(42);
  expect(createGrants(keys).verify(id, `42.${mac}`)).toBe(42);
});

test("the signature is an HMAC of all of the text, however long the id is", () => {
  const grants = createGrants(keys);
  const macOf = (text: string) =>
    createHmac("sha256", Buffer.from(secret, "hex")).update(text, "latin1").digest("base64url");
  for (const length of [1, 200, 126, 125, 3, 256]) {
    const long = "x".repeat(length);
    expect(grants.sign(long, 7)).toBe(`7.${macOf(`${long}:7`)}`);
  }
});

const forgeries: Record<string, (token: string) => string> = {
  "another number with the same signature": (token) => token.replace("42.", "43."),
  "a number written otherwise": (token) => token.replace("42.", "042."),
  "another signature": (token) => `${token.slice(0, 3)}${"A".repeat(43)}`,
  "a signature that is too short": (token) => token.slice(0, -1),
  "something behind it": (token) => `${token}A`,
  "no signature": () => "42",
  nothing: () => "",
};

for (const [name, forge] of Object.entries(forgeries)) {
  test(`${name} is not a token of ours`, () => {
    const grants = createGrants(keys);
    expect(grants.verify(id, forge(grants.sign(id, 42)))).toBeUndefined();
  });
}

test("a token of one request is none of another, and none of another store", () => {
  const token = createGrants(keys).sign(id, 42);
  expect(createGrants(keys).verify(id.replace(/1$/, "2"), token)).toBeUndefined();
  expect(createGrants([keyOf("cd".repeat(32))]).verify(id, token)).toBeUndefined();
});

test("a secret that is too short is refused", () => {
  expect(() => createGrants([keyOf("ab")])).toThrow(/too short/);
});

test("after a restore the grants of the backup stay valid, the lost ones do not, and numbers grow (L1)", () => {
  const before = createGrants(keys);
  const after = createGrants([...keys, keyOf("cd".repeat(32), 43, 1_000_000)]);
  expect(after.verify(id, before.sign(id, 42))).toBe(42);
  expect(after.verify(id, before.sign(id, 43))).toBeUndefined();
  const anew = after.sign(id, 43);
  expect(anew).toMatch(/^1000043\./);
  expect(after.verify(id, anew)).toBe(43);
  expect(before.verify(id, anew)).toBeUndefined();
});

test("a grant that the database has lost is told from a forged one, and from one that a restore took back (C14)", () => {
  const before: GrantKey = { fromSeq: 1, secret: "a".repeat(64), offset: 0 };
  const grants = createGrants([before]);
  const [kept, lost] = [grants.sign("r", 5), grants.sign("r", 9)];
  grants.use([before, { fromSeq: 8, secret: "b".repeat(64), offset: 1_000, isAfterLoss: true }]);
  expect([grants.verify("r", kept), grants.isLost("r", kept)]).toEqual([5, false]);
  expect([grants.verify("r", lost), grants.isLost("r", lost)]).toEqual([undefined, true]);
  expect(grants.isLost("another", lost)).toBe(false);
  expect(grants.isLost("r", `${lost.slice(0, -1)}!`)).toBe(false);
  expect([grants.verify("r", grants.sign("r", 9)), grants.sign("r", 9)]).toEqual([
    9,
    expect.stringMatching(/^1009\./),
  ]);
  grants.use([before, { fromSeq: 8, secret: "b".repeat(64), offset: 1_000 }]); // A backup was restored: its holders stop.
  expect(grants.isLost("r", lost)).toBe(false);
});
