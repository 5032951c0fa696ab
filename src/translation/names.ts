// Names from outside become the engine's branded names here, after a schema has found them to be text.

import type { ComponentName, GroupName, NodeName, PoolName, RequestId } from "../engine/index.ts";

export const toPoolName = (name: string) => name as PoolName;
export const toGroupName = (name: string) => name as GroupName;
export const toComponentName = (name: string) => name as ComponentName;
export const toNodeName = (name: string) => name as NodeName;
export const toRequestId = (id: string) => id as RequestId;
