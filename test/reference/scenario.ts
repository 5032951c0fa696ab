// The scenario format as plain types, for the reference scheduler and the generator of random worlds.

export type Amounts = Record<string, number>;

export interface GroupSpec {
  name: string;
  parent?: string;
  weight?: number;
  reserved?: Amounts;
  limit?: Amounts;
  mode?: "fair_share" | "fifo";
  settings?: Record<string, unknown>;
}

export interface PoolSettings {
  backfill?: "easy" | "none" | "opportunistic";
  priority_preempts?: "borrowed" | "any";
  min_runtime_seconds?: number;
  max_preemptions?: number;
  checkpoint_timeout_seconds?: number;
  max_deferral_seconds?: number;
  grace_seconds?: number;
  max_victims?: number;
  near_completion_seconds?: number;
  class_bands?: boolean;
  main_key?: string;
  share_keys?: string[];
  score_weights?: Record<string, number[]>;
  fair_share_starvation_timeout?: number;
  fair_share_aggressive_starvation_timeout?: number;
  fair_share_starvation_tolerance?: number;
  preemption_satisfaction_threshold?: number;
  aggressive_preemption_satisfaction_threshold?: number;
  non_preemptible_resource_usage_threshold?: Amounts;
  enable_aggressive_starvation?: boolean;
  allow_aggressive_preemption?: boolean;
  preemptive_scheduling_backoff?: number;
  enforce_limits?: boolean;
}

export interface PoolSpec {
  name: string;
  capacity?: Amounts;
  discipline?: "priority" | "fair_share" | "class";
  settings?: PoolSettings;
  groups?: GroupSpec[];
  force?: boolean;
}

export interface PolicySpec {
  pool: string;
  component: string;
  component_type?: string;
  priority?: number;
  reserved?: Amounts;
  limit?: Amounts;
  weight?: number;
  kind?: string;
  max_class?: number;
  group?: string;
  home?: Record<string, string>;
  force?: boolean;
}

export interface NodeSpec {
  name: string;
  pool: string;
  capacity: Amounts;
  labels?: Record<string, string>;
  topology?: string;
}

export interface SubmitSpec {
  id: string;
  component: string;
  resources?: Amounts;
  settings?: {
    gpu_count?: number;
    cpu_count?: number;
    memory?: string;
    pool_resources?: Amounts;
  };
  preemptible?: boolean;
  preemption_class?: number;
  sensitive?: boolean;
  checkpoint?: "none" | "auto" | "manual";
  checkpoint_seconds?: number;
  walltime_seconds?: number;
  operation?: string;
  gang?: boolean;
  nodes?: number;
  retries?: { max?: number; delay?: number };
  requeue?: "never" | "on_preemption" | "on_failure";
  wait_timeout_seconds?: number;
  after?: { id: string; when?: "ok" | "any" }[];
  array?: { index: number; at_once?: number };
}

export interface Actions {
  submit: SubmitSpec;
  finish: string;
  fail: string;
  cancel: string;
  stopped: string;
  checkpointed: string;
  progress: string;
  defer: { id: string; seconds: number };
  lose_holder: string;
  advance: number;
  create_pool: PoolSpec;
  update_pool: PoolSpec;
  delete_pool: string | { name: string; force?: boolean };
  attach_policy: PolicySpec;
  update_policy: PolicySpec;
  detach_policy: { pool: string; component: string; force?: boolean };
  update_group: GroupSpec & { pool: string; force?: boolean };
  delete_request: string | { id: string; force?: boolean };
  node_up: NodeSpec;
  node_down: string;
  drain: string;
}

export type Step = { expect?: Expectation } & { [K in keyof Actions]?: Actions[K] };

/** Only what is named is compared. */
export interface Expectation {
  status?: Record<string, string>;
  pool?: Record<string, string>;
  preempted?: string[];
  reason?: Record<string, string>;
  rejected?: Record<string, string | Record<string, string>>;
  error?: string;
  usage?: Record<string, Amounts>;
  queue?: Record<string, string[]>;
  borrowed?: Record<string, Amounts>;
  attempt?: Record<string, number>;
  preempted_count?: Record<string, number>;
  resume?: Record<string, boolean>;
  placed?: Record<string, string[]>;
  devices?: Record<string, Record<string, number[]>>;
  shares?: Record<string, Amounts>;
  starvation?: Record<string, string>;
  allocation_group?: Record<string, string>;
}

export interface Scenario {
  name: string;
  kind?: string;
  pools: PoolSpec[];
  policies: PolicySpec[];
  nodes?: NodeSpec[];
  settings?: { unmanaged?: "allow" | "reject" };
  script: Step[];
}
