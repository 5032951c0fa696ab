// For servers of proofs that prove something else than their rates.

const unlimited = { perSecond: Number.POSITIVE_INFINITY, burst: 0 };

export const NO_LIMITS = {
  perToken: unlimited,
  perStranger: unlimited,
  allStrangers: unlimited,
  failedLoginsPerMinute: 10_000_000,
};
