// The table of errors, loaded only when something went wrong: it brings all the schemas with it.

export { ERRORS, EXIT, isErrorCode, toProblem } from "../protocol/index.ts";
