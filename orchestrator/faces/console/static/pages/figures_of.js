/** What the figures page computes from the reply of GET /stats. Pure functions. */

export const RANGES = [
  {id: '1h', label: '1 hour', seconds: 3600},
  {id: '24h', label: '24 hours', seconds: 86_400},
  {id: '7d', label: '7 days', seconds: 604_800},
];

/** The range that an address names; a day when it names none that we know. */
export const rangeOf = (id) => RANGES.find((range) => range.id === id) ?? RANGES[1];

/** A range in a sentence: in the last hour, in the last 24 hours. */
export const during = (range) => `in the last ${range.label.replace(/^1 /, '')}`;

/** What a percentile says. */
export const atMost = (percentile) => `${percentile} % took at most this long`;

/** What was saved; less than nothing when definitions were a loss. Of results, each program's are counted alone, by the daemon. */
export function savedOf({definitions, results}) {
  const saved = {definitions: definitions.full - definitions.here, results: results.saved};
  return {...saved, all: saved.definitions + saved.results};
}

/** From when on, in the form that the API takes. */
export const sinceOf = (range, now) => new Date(now - range.seconds * 1000).toISOString();

/** How long a bucket is: 60 s, 24 min, 2.8 h. */
export function lasting(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1).replace(/\.0$/, '')} h`;
}

/** A part of a whole as the width of a bar: what is not nothing can be seen. */
export function share(part, whole) {
  if (!(whole > 0) || !(part > 0)) return '0%';
  return `${Math.min(100, Math.max(0.6, (100 * part) / whole)).toFixed(2)}%`;
}

/** Outcomes that occurred, the most frequent first, the good one at the top. */
export function outcomesOf(outcomes) {
  return Object.entries(outcomes)
    .filter(([, times]) => times > 0)
    .map(([outcome, times]) => ({outcome, times}))
    .sort((one, other) => Number(other.outcome === 'completed') - Number(one.outcome === 'completed') || other.times - one.times);
}

/** Executions that neither completed nor were cancelled. */
export function wrongOf(outcomes) {
  return Object.entries(outcomes).reduce((sum, [outcome, times]) => sum + (['completed', 'cancelled'].includes(outcome) ? 0 : times), 0);
}

export const slowestTools = (tools, most = 10) =>
  tools.filter(({p95Ms}) => p95Ms !== null).sort((one, other) => other.p95Ms - one.p95Ms).slice(0, most);

/** The columns of a chart: seconds, then the values of each name. */
export function columnsOf(series, names) {
  return [series.map((bucket) => Date.parse(bucket.at) / 1000), ...names.map((name) => series.map((bucket) => bucket[name] ?? null))];
}

/** Where values have no neighbour on either side. */
export function aloneIn(values) {
  const isThere = (at) => values[at] !== null && values[at] !== undefined;
  return [...values.keys()].filter((at) => isThere(at) && !isThere(at - 1) && !isThere(at + 1));
}

/** How a line of values went, in one sentence, for those who do not see it. */
export function inWords(label, values, format) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (!known.length) return `${label}: nothing.`;
  const last = known.at(-1);
  return `${label}: from ${format(Math.min(...known))} to ${format(Math.max(...known))}, last ${format(last)}.`;
}
