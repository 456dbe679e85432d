// A sale over time, as bounded columns of equal length for the charts.
const POINTS_MAX = 900;
// Between spans of the server in which nothing happened, a line is drawn at zero.
const EMPTY = { attempts: { total: 0, granted: 0, refused: {} }, turned_away: { shed: 0, limited: 0 }, returned_units: { expired: 0, cancelled: 0, failed: 0 }, answer_ms: { p50: null, p99: null } };
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
    this.isFilled = false;
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

  /** What the server has kept, in place of what is here; samples that are newer stay. */
  fill({ points, since, as_of }) {
    const newer = this.rowsAfter(Date.parse(as_of) / 1000);
    for (const column of Object.values(this.columns)) column.length = 0;
    let until = Date.parse(since) / 1000;
    let last = null;
    for (const point of points) {
      const at = Date.parse(point.at) / 1000;
      if (last && at > until) this.addGap(until, at, last);
      this.append(rowOf(at, point, point.seconds));
      until = at + point.seconds;
      last = point;
    }
    const end = Date.parse(as_of) / 1000;
    if (last && end > until) this.addGap(until, end, last);
    for (const row of newer) this.append(row);
    this.isFilled = true;
  }

  addGap(from, until, { room, settlement }) {
    this.append(rowOf(from, { ...EMPTY, room, settlement }, 1));
    if (until - from > 2) this.append(rowOf(until - 1, { ...EMPTY, room, settlement }, 1));
  }

  rowsAfter(at) {
    const first = this.columns.at.findIndex((one) => one > at);
    if (first < 0) return [];
    return this.columns.at.slice(first).map((_, index) => Object.fromEntries(COLUMNS.map((name) => [name, this.columns[name][first + index]])));
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

function rowOf(at, point, seconds) {
  const counts = Object.entries(countsOf(point)).map(([name, count]) => [name, count / seconds]);
  return { at, ...Object.fromEntries(counts), ...levelsOf(point) };
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
