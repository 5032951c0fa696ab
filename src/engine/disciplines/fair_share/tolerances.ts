// How far numbers may differ that the rules take for equal. Shares are fractions of the pool, so all of these are too.

/** Shares that differ by no more than this are equal (9). */
export const SHARE_EPSILON = 1e-9;
/** Ratios are compared in steps of one part of this, so that rounding does not decide whose turn it is (9.6). */
export const SATISFACTION_STEPS = 1e9;
/** How many units a request may ask for beyond a fair share by rounding alone (9.10). */
export const UNIT_EPSILON = 1e-6;

/** How far a value may exceed its limit, or guarantees their sum, by rounding alone. */
export const LIMIT_EPSILON = 1e-12;
/** Levels closer than this are one, so that rounding does not turn a jump into a steep slope. */
export const LEVEL_EPSILON = 1e-13;
/** How far apart two levels may be that rounding alone tells apart. */
export const SAME_LEVEL = 10 * LEVEL_EPSILON;
/** The same for places on a path, as a part of the place. */
export const PLACE_ROUNDING = 1e-14;
/** People see shares in steps of one part of this: no 0.49999999999999994. */
export const SHOWN_STEPS = 1e12;
