// The node's agent: runs what the server has placed here. Other folders import from this file only.

export { type Agent, type AgentOptions, startAgent } from "./agent.ts";
export { type Device, findDevices, machineCapacity } from "./devices.ts";
export {
  type Membership,
  readMembership,
  STATE_PATH_BYTES_MAX,
  takeDirectory,
  writeMembership,
} from "./state.ts";
