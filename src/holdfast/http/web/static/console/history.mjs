// The last minutes of a sale, as bounded columns of equal length for the charts.
const POINTS_MAX = 600;
const REFUSALS = {
  out_of_stock: ["sold_out", "insufficient"],
  all_held: ["all_held"],
  limits: ["buyer_limit", "hold_budget", "tier_required"],
  not_selling: ["not_open", "paused", "ended", "not_ready"],
  other: ["key_reused", "pool_not_found"],
};
const COLUMNS = [
  "at", "attempts", "granted", "refused", ...Object.keys(REFUSALS), "turned_away", "joined", "serving", "inside",
  "p50", "p99", "open", "oldest_s", "expired", "cancelled", "failed", "units_apart", "journal_lag",
];

export class History {
  constructor() {
    this.columns = Object.fromEntries(COLUMNS.map((name) => [name, []]));
    this.last = null;
  }

  /** Adds a sample if it is newer than the last one. Counters become rates per second since then. */
  add(live) {
    const at = Date.parse(live.as_of) / 1000;
    const before = this.last;
    if (before && at <= before.at) return;
    const counts = countsOf(live);
    this.last = { at, counts };
    if (before === null) return;
    const row = { at, ...levelsOf(live) };
    for (const [name, count] of Object.entries(counts)) {
      // A counter that went down was reset.
      row[name] = Math.max(0, count - before.counts[name]) / (at - before.at);
    }
    this.append(row);
  }

  append(row) {
    for (const [name, column] of Object.entries(this.columns)) {
      column.push(row[name] ?? null);
      if (column.length > POINTS_MAX) column.shift();
    }
  }

  latest(name) {
    return this.columns[name].at(-1) ?? null;
  }
}

function countsOf(live) {
  const { granted, total, refused } = live.attempts;
  const counts = { attempts: total, granted, refused: 0, turned_away: live.turned_away.shed + live.turned_away.limited };
  for (const [group, reasons] of Object.entries(REFUSALS)) {
    counts[group] = reasons.reduce((sum, reason) => sum + (refused[reason] || 0), 0);
    counts.refused += counts[group];
  }
  return { ...counts, ...live.returned_units };
}

function levelsOf(live) {
  return {
    p50: live.answer_ms.p50,
    p99: live.answer_ms.p99,
    open: live.settlement.open,
    oldest_s: live.settlement.oldest_s,
    joined: live.room?.joined,
    serving: live.room?.serving,
    inside: live.room?.inside,
    units_apart: live.drift?.units_apart,
    journal_lag: live.drift?.journal_lag,
  };
}
