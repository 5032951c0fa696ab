import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { createGrants } from "./grants.ts";

const secret = "ab".repeat(32);
const id = "01900000-0000-7000-8000-000000000001";

test("a token is the engine's token and its signature, and is known again", () => {
  const grants = createGrants(secret);
  const mac = createHmac("sha256", Buffer.from(secret, "hex")).update(`${id}:42`).digest("base64url");
  expect(grants.sign(id, 42)).toBe(`42.${mac}`);
  expect(grants.sign(id, 42)).toBe(`42.${mac}`);
  expect(grants.verify(id, `42.${mac}`)).toBe(42);
  expect(createGrants(secret).verify(id, `42.${mac}`)).toBe(42);
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
    const grants = createGrants(secret);
    expect(grants.verify(id, forge(grants.sign(id, 42)))).toBeUndefined();
  });
}

test("a token of one request is none of another, and none of another store", () => {
  const token = createGrants(secret).sign(id, 42);
  expect(createGrants(secret).verify(id.replace(/1$/, "2"), token)).toBeUndefined();
  expect(createGrants("cd".repeat(32)).verify(id, token)).toBeUndefined();
});

test("a secret that is too short is refused", () => {
  expect(() => createGrants("ab")).toThrow(/too short/);
});
