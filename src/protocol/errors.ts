// Every stable error code, with its HTTP status, its exit code and its meaning. This is the only table: the
// server, the command line and the reference documentation read it. Codes are never reused.

import { z } from "zod";

export interface ErrorInfo {
  readonly httpStatus: number;
  readonly exitCode: number;
  readonly description: string;
}

/** Exit codes of the command line that are Berth's own; `berth run` otherwise returns the code of its job. */
export const EXIT = {
  ok: 0,
  scenarioFailed: 1,
  usage: 2,
  notFound: 3,
  notAllowed: 4,
  conflict: 5,
  rejected: 69,
  cancelled: 71,
  walltime: 73,
  holderLost: 74,
  preempted: 75,
  waitTimeout: 124,
  berthFailed: 125,
  notExecutable: 126,
  commandNotFound: 127,
} as const;

export const ERRORS = {
  // What the engine refuses.
  name_taken: info(409, EXIT.conflict, "Something of this kind with this name exists already."),
  policy_exists: info(
    409,
    EXIT.conflict,
    "The component already has a policy in this pool; update that one.",
  ),
  empty_capacity: info(400, EXIT.usage, "A pool needs at least one resource key, or nodes."),
  invalid_amount: info(
    400,
    EXIT.usage,
    "An amount is not a whole number in the allowed range, or cannot be read.",
  ),
  unknown_key: info(400, EXIT.usage, "A resource key does not exist on the pool."),
  reserved_over_limit: info(409, EXIT.conflict, "A policy or group would reserve more than its own limit."),
  reserved_over_capacity: info(
    409,
    EXIT.conflict,
    "Reservations would add up to more than the pool, or the group above, has.",
  ),
  in_use: info(409, EXIT.conflict, "Requests are still queued or running there; `force` ends them."),
  not_found: info(404, EXIT.notFound, "Nothing of this kind has this name or id."),
  invalid_class: info(
    400,
    EXIT.usage,
    "A preemption class is a whole number from 0 to the highest allowed one.",
  ),
  invalid_request: info(
    400,
    EXIT.usage,
    "The call does not fit its schema, or makes no sense in this state.",
  ),
  stale_token: info(
    409,
    EXIT.holderLost,
    "The fencing token is not the current one: this holder has lost its allocation.",
  ),
  engine_error: info(
    500,
    EXIT.berthFailed,
    "A decision failed inside Berth and was undone; nothing changed.",
  ),

  // Why a request can never be granted; stored with the request.
  no_policy: info(422, EXIT.rejected, "The component has no policy in any pool."),
  node_silent: info(
    503,
    EXIT.berthFailed,
    "A node does not answer, so that what only it has cannot be read now.",
  ),
  no_executor: info(422, EXIT.rejected, "No pool that the component may use starts jobs."),
  over_capacity: info(422, EXIT.rejected, "The request is larger than the pool, or than any of its nodes."),
  over_limit: info(
    422,
    EXIT.rejected,
    "The request is larger than the limit of its policy or of a group above.",
  ),
  over_reserved: info(
    422,
    EXIT.rejected,
    "Work that cannot be preempted must fit into what is reserved for it.",
  ),

  // What the server refuses before the engine is asked.
  malformed_body: info(400, EXIT.usage, "The body is not the JSON that the call expects."),
  body_too_large: info(413, EXIT.usage, "The body is larger, deeper or has more entries than is allowed."),
  unsupported_media_type: info(415, EXIT.usage, "The body must be sent as application/json."),
  method_not_allowed: info(405, EXIT.usage, "This path does not know this method."),
  url_too_long: info(414, EXIT.usage, "The address of the call is longer than is allowed."),
  headers_too_large: info(431, EXIT.usage, "Address and headers of the call are larger than is allowed."),
  request_timeout: info(408, EXIT.berthFailed, "The request did not arrive in time."),
  host_not_allowed: info(421, EXIT.usage, "The server does not answer to this host name or origin."),
  idempotency_conflict: info(422, EXIT.conflict, "The idempotency key was used before with another body."),
  mixed_versions: info(
    409,
    EXIT.conflict,
    "Servers of an older version share the database, and could not read this change.",
  ),
  precondition_failed: info(412, EXIT.conflict, "The thing has changed since the version named by If-Match."),
  ambiguous: info(409, EXIT.notFound, "Several things match this short name; the answer lists them."),
  unauthenticated: info(401, EXIT.notAllowed, "The token is missing, unknown, expired or revoked."),
  forbidden: info(403, EXIT.notAllowed, "The token does not give the right to do this."),
  rate_limited: info(429, EXIT.berthFailed, "Too many calls; the answer says when to try again."),
  queue_full: info(429, EXIT.berthFailed, "Too many requests of the component wait already."),
  cursor_expired: info(410, EXIT.usage, "The history behind this cursor is gone; start again."),
  unavailable: info(503, EXIT.berthFailed, "No leader can take the call now; try again."),
  not_leader: info(503, EXIT.berthFailed, "This server does not lead any more, and nothing was changed."),
  no_leader: info(503, EXIT.berthFailed, "No server leads at the moment; try again soon."),
  behind: info(503, EXIT.berthFailed, "This server has not seen the event yet that the call asks for."),
  outcome_unknown: info(
    503,
    EXIT.berthFailed,
    "The leader went away after the call was sent: it may have taken effect.",
  ),
  target_not_allowed: info(
    422,
    EXIT.usage,
    "Notices cannot be sent to this address: it is not https, or in a private network.",
  ),
  not_delivered: info(502, EXIT.berthFailed, "A test notice did not arrive; the answer says why."),
  foresight_unavailable: info(
    503,
    EXIT.berthFailed,
    "Plans and suggestions cannot be made at the moment; everything else goes on.",
  ),
  plan_outdated: info(
    409,
    EXIT.conflict,
    "A pool that the plan touches has changed since it was made; plan again.",
  ),
  plan_too_large: info(
    422,
    EXIT.usage,
    "The plan would take more than two seconds of processor time; the answer says how far it got.",
  ),
  foresight_busy: info(429, EXIT.berthFailed, "Too many plans and questions wait already; try again."),
  disk_full: info(
    507,
    EXIT.berthFailed,
    "The disk of the server is full, and nothing was changed; it goes on when there is room.",
  ),
  timeout: info(504, EXIT.berthFailed, "The answer did not come in time; the call may still take effect."),
  internal_error: info(500, EXIT.berthFailed, "Something failed inside Berth; the log has the details."),

  // How a request may have ended, for `berth run` and other commands that wait for it.
  cancelled: info(409, EXIT.cancelled, "The request was cancelled."),
  walltime_over: info(409, EXIT.walltime, "The work reached its walltime and was stopped."),
  holder_lost: info(409, EXIT.holderLost, "The holder was silent for too long and lost its allocation."),
  preempted: info(409, EXIT.preempted, "The work was preempted and is not queued again."),
  wait_timeout: info(408, EXIT.waitTimeout, "The request was not granted within its wait timeout."),

  // Files and options that the command line is given.
  usage: info(400, EXIT.usage, "The command, an option or an argument is not known or not complete."),
  file_not_found: info(404, EXIT.usage, "The file or directory does not exist."),
  file_unreadable: info(400, EXIT.usage, "The file cannot be read, or is not UTF-8 text."),
  file_too_large: info(413, EXIT.usage, "The file is larger than is allowed for its format."),
  invalid_syntax: info(400, EXIT.usage, "The file is neither YAML nor JSON."),
  invalid_scenario: info(400, EXIT.usage, "The file does not describe scenarios; the problems are listed."),
  scenario_failed: info(422, EXIT.scenarioFailed, "A scenario did not come out as it says."),
} as const satisfies Record<string, ErrorInfo>;

export type ErrorCode = keyof typeof ERRORS;

export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERRORS, code);
}

/** One thing that is wrong with one field of what was sent. */
export const fieldProblem = z.strictObject({
  /** RFC 6901 pointer into the body, such as `/resources/gpu`. */
  pointer: z.string(),
  message: z.string(),
});
export type FieldProblem = z.infer<typeof fieldProblem>;

/** RFC 9457. Unknown members are kept, since the standard allows others to add some. */
export const problem = z.looseObject({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  code: z.string(),
  detail: z.string(),
  hint: z.string().optional(),
  errors: z.array(fieldProblem).optional(),
});
export type Problem = z.infer<typeof problem>;

export function toProblem(
  code: ErrorCode,
  detail: string,
  extra: { hint?: string; errors?: FieldProblem[] } = {},
): Problem {
  const { httpStatus, description } = ERRORS[code];
  return { type: `urn:berth:error:${code}`, title: description, status: httpStatus, code, detail, ...extra };
}

function info(httpStatus: number, exitCode: number, description: string): ErrorInfo {
  return { httpStatus, exitCode, description };
}
