import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { makeSigningSecret, signatureHeaders } from "./signature.ts";

test("the example that the libraries of Standard Webhooks publish", () => {
  const headers = signatureHeaders(
    { id: "msg_p5jXN8AQM9LWM0D4loKWxJek", atMs: 1_614_265_330_999, body: '{"test": 2432232314}' },
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
  );
  expect(headers).toEqual({
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  });
});

test("a secret has 24 bytes of its own, and the signature covers id, time and body", () => {
  const secret = makeSigningSecret();
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{32}$/);
  expect(makeSigningSecret()).not.toBe(secret);
  const signed = { id: "evt_1", atMs: 5_000, body: "{}" };
  const { "webhook-signature": signature } = signatureHeaders(signed, secret);
  const key = Buffer.from(secret.slice(6), "base64");
  expect(key).toHaveLength(24);
  expect(signature).toBe(`v1,${createHmac("sha256", key).update("evt_1.5.{}").digest("base64")}`);
  for (const change of [{ id: "evt_2" }, { atMs: 6_000 }, { body: "{ }" }]) {
    expect(signatureHeaders({ ...signed, ...change }, secret)["webhook-signature"]).not.toBe(signature);
  }
});
