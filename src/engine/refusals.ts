// Refusals: what the caller did wrong, with the values, a next step and a stable code. Codes are never reused.

export type RefusalCode =
  | "name_taken"
  | "policy_exists"
  | "empty_capacity"
  | "invalid_amount"
  | "unknown_key"
  | "reserved_over_limit"
  | "reserved_over_capacity"
  | "in_use"
  | "not_found"
  | "invalid_class"
  | "invalid_request"
  | "stale_token"
  | "engine_error";

export interface Refusal {
  readonly code: RefusalCode;
  readonly message: string;
  readonly hint: string;
}

export function refusal(code: RefusalCode, message: string, hint: string): Refusal {
  return { code, message, hint };
}

/** Thrown inside `decide` to leave from any depth; never leaves the engine. */
export class RefusedError extends Error {
  readonly refusal: Refusal;
  constructor(refusal: Refusal) {
    super(refusal.message);
    this.refusal = refusal;
  }
}

export function refuse(code: RefusalCode, message: string, hint: string): never {
  throw new RefusedError(refusal(code, message, hint));
}
