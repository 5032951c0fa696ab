// berth export grafana | alerts: what to look at and when to be called, for those who run Prometheus and Grafana (H7).
// Every alert names the command to type.

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for: string;
  readonly severity: "page" | "ticket";
  readonly summary: string;
  readonly command: string;
}

const POOL = "{{ $labels.pool }}";

const RULES: readonly Rule[] = [
  {
    alert: "BerthOldestWait",
    expr: "max by (pool) (berth_oldest_wait_seconds) > 86400",
    ...{ for: "10m", severity: "ticket" },
    summary: `A request has waited in pool ${POOL} for more than a day.`,
    command: `berth ps --pool ${POOL} --status queued`,
  },
  {
    alert: "BerthHeadBlocked",
    expr: "max by (pool) (berth_head_wait_seconds) > 1800",
    ...{ for: "5m", severity: "ticket" },
    summary: `The first request in pool ${POOL} has waited for more than 30 minutes.`,
    command: `berth why "$(berth ps --pool ${POOL} --status queued -o name | head -1)"`,
  },
  {
    alert: "BerthPreemptionsUp",
    expr: "sum by (pool) (rate(berth_preemptions_total[1h])) > 3 * sum by (pool) (rate(berth_preemptions_total[24h] offset 1h)) and sum by (pool) (increase(berth_preemptions_total[1h])) > 10",
    ...{ for: "15m", severity: "ticket" },
    summary: `Pool ${POOL} preempts three times as often as in the day before.`,
    command: `berth events --pool ${POOL} --after 0`,
  },
  {
    alert: "BerthReserveNotReachable",
    expr: "max by (pool, key) (berth_pool_reserved) > max by (pool, key) (berth_pool_capacity)",
    ...{ for: "15m", severity: "ticket" },
    summary: `The policies of pool ${POOL} reserve more {{ $labels.key }} than it has: not every component can have its reserve.`,
    command: `berth share ${POOL}`,
  },
  {
    alert: "BerthForecastOff",
    expr: 'min by (pool) (berth_forecast_coverage{quantile="0.9"}) < 0.8',
    ...{ for: "1h", severity: "ticket" },
    summary: `Fewer than 80 % of the starts in pool ${POOL} came as early as was forecast.`,
    command: "berth doctor",
  },
  {
    alert: "BerthLeaderSilent",
    expr: "absent(berth_leader == 1)",
    ...{ for: "1m", severity: "page" },
    summary: "No server leads: nothing is granted. What runs goes on.",
    command: "berth doctor",
  },
  {
    alert: "BerthNoticesFail",
    expr: 'max(berth_notice_targets{state="failing"}) > 0',
    ...{ for: "1h", severity: "ticket" },
    summary: "Notices have not reached a target for an hour; after 24 hours they are given up.",
    command: "berth notify list",
  },
  {
    alert: "BerthStoreTrouble",
    expr: "max(berth_store_trouble) > 0",
    ...{ for: "1m", severity: "page" },
    summary:
      "The store takes nothing new: the disk is full but for its reserve, or the database does not answer.",
    command: "berth doctor",
  },
];

export function alertRules(): object {
  return {
    groups: [
      {
        name: "berth",
        rules: RULES.map(({ alert, expr, severity, summary, command, for: lasting }) => ({
          ...{ alert, expr, for: lasting, labels: { severity } },
          annotations: { summary, command },
        })),
      },
    ],
  };
}

interface Panel {
  readonly title: string;
  readonly expr: string;
  readonly legend: string;
  readonly unit?: string;
  readonly kind?: "timeseries" | "stat";
}

const PANELS: readonly Panel[] = [
  {
    title: "In use, as a part of the capacity",
    expr: 'sum by (pool, key) (berth_pool_usage{pool=~"$pool"}) / max by (pool, key) (berth_pool_capacity{pool=~"$pool"})',
    ...{ legend: "{{pool}} {{key}}", unit: "percentunit" },
  },
  {
    title: "Own and borrowed",
    expr: 'sum by (pool, key, share) (berth_pool_usage{pool=~"$pool"})',
    legend: "{{pool}} {{key}} {{share}}",
  },
  {
    title: "Waiting",
    expr: 'max by (pool) (berth_requests{pool=~"$pool", status="queued"})',
    legend: "{{pool}}",
  },
  {
    title: "Oldest wait",
    expr: 'max by (pool) (berth_oldest_wait_seconds{pool=~"$pool"})',
    ...{ legend: "{{pool}}", unit: "s" },
  },
  {
    title: "Wait until the start, 9 of 10",
    expr: 'histogram_quantile(0.9, sum by (pool, le) (rate(berth_queue_wait_seconds_bucket{pool=~"$pool"}[30m])))',
    ...{ legend: "{{pool}}", unit: "s" },
  },
  {
    title: "Starts and preemptions per hour",
    expr: 'sum by (pool) (rate(berth_grants_total{pool=~"$pool"}[1h])) * 3600',
    legend: "{{pool}} starts",
  },
  {
    title: "Preemptions per hour, by reason",
    expr: 'sum by (pool, reason) (rate(berth_preemptions_total{pool=~"$pool"}[1h])) * 3600',
    legend: "{{pool}} {{reason}}",
  },
  {
    title: "Lost to preemption, in unit-hours per day",
    expr: 'sum by (pool, key) (increase(berth_lost_work_unit_seconds_total{pool=~"$pool"}[1d])) / 3600',
    legend: "{{pool}} {{key}}",
  },
  {
    title: "Satisfied, of what is owed",
    expr: 'min by (pool, element) (berth_satisfaction{pool=~"$pool"})',
    ...{ legend: "{{pool}} {{element}}", unit: "percentunit" },
  },
  { title: "Servers that lead", expr: "sum(berth_leader)", legend: "leading", kind: "stat" },
  { title: "Store in trouble", expr: "max(berth_store_trouble)", legend: "trouble", kind: "stat" },
];

const WIDTH = 12;
const HEIGHT = 8;

export function grafanaDashboard(): object {
  const source = { type: "prometheus", uid: "$datasource" };
  return {
    ...{ title: "Berth", uid: "berth", tags: ["berth"], schemaVersion: 39, version: 1, refresh: "30s" },
    time: { from: "now-24h", to: "now" },
    templating: {
      list: [
        { name: "datasource", type: "datasource", query: "prometheus" },
        {
          ...{ name: "pool", type: "query", datasource: source, multi: true, includeAll: true, refresh: 2 },
          query: "label_values(berth_pool_capacity, pool)",
        },
      ],
    },
    panels: PANELS.map(({ title, expr, legend, unit = "short", kind = "timeseries" }, index) => ({
      ...{ id: index + 1, title, type: kind, datasource: source },
      gridPos: { x: (index % 2) * WIDTH, y: Math.floor(index / 2) * HEIGHT, w: WIDTH, h: HEIGHT },
      fieldConfig: { defaults: { unit }, overrides: [] },
      targets: [{ refId: "A", expr, legendFormat: legend, datasource: source }],
    })),
  };
}

/** Every expression, for checks. */
export function expressions(): string[] {
  return [...RULES, ...PANELS].map(({ expr }) => expr);
}
