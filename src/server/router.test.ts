import { expect, test } from "vitest";
import { createRouter, pathOf, queryOf } from "./router.ts";

const router = createRouter([
  { method: "GET", path: "/v1/requests/{id}" },
  { method: "POST", path: "/v1/requests/bulk" },
  { method: "POST", path: "/v1/requests/{id}/end" },
  { method: "PUT", path: "/v1/pools/{pool}/policies/{component}" },
]);

const cases: Record<string, { call: [string, string]; want: object | undefined }> = {
  "a parameter": { call: ["GET", "/v1/requests/7"], want: { id: "7" } },
  "two parameters": { call: ["PUT", "/v1/pools/a/policies/b"], want: { pool: "a", component: "b" } },
  "what is written out goes first": { call: ["POST", "/v1/requests/bulk"], want: {} },
  "a name that another method has written out": { call: ["GET", "/v1/requests/bulk"], want: { id: "bulk" } },
  "the same, further down": { call: ["POST", "/v1/requests/bulk/end"], want: { id: "bulk" } },
  "another method": { call: ["DELETE", "/v1/requests/7"], want: undefined },
  "an empty name": { call: ["POST", "/v1/requests//end"], want: undefined },
  "a slash too many": { call: ["GET", "/v1/requests/7/"], want: undefined },
  "a part of a path": { call: ["GET", "/v1/requests"], want: undefined },
  "a name with a slash in it": { call: ["GET", "/v1/requests/a%2Fb"], want: { id: "a/b" } },
  "a percent sign, written as one": { call: ["GET", "/v1/requests/100%25"], want: { id: "100%" } },
  "what is written out, written in another way": { call: ["GET", "/v1/%72equests/7"], want: { id: "7" } },
  "what is not UTF-8": { call: ["GET", "/v1/requests/%ff"], want: undefined },
  "a query is no part of the path": { call: ["GET", "/v1/requests/7?a=/b"], want: { id: "7" } },
};

for (const [name, { call, want }] of Object.entries(cases)) {
  test(name, () => {
    const [method, url] = call;
    expect(router.match(method, pathOf(url))?.params).toEqual(want);
  });
}

test("the methods of a path are those of all routes that it could mean", () => {
  expect(router.methodsOf("/v1/requests/bulk")).toEqual(["POST", "GET"]);
  expect(router.methodsOf("/v1/requests")).toEqual([]);
});

test("of a query the first of several fields counts, and no name is special", () => {
  const query = queryOf("/v1/requests?a=1&a=2&b=x+y%2B&__proto__=3&=4&c");
  expect(Object.entries(query)).toEqual([
    ["a", "1"],
    ["b", "x y+"],
    ["__proto__", "3"],
    ["c", ""],
  ]);
});
