/** Where the bars of tool calls are: which lane, from where to where. Pure functions. */

/**
 * @typedef {{number: number, server: string, tool: string, outcome: string, startedMs: number, durationMs: number,
 *   requestBytes: number, resultBytes: number, detail: string | null}} Call
 * @typedef {Call & {endMs: number, lane: number}} Bar
 */

/** Pixels of the narrowest bar. */
export const NARROWEST = 3;

const UNDER_WAY = new Set(['in_flight', 'never_sent']);

/** @param {Call} call @param {boolean} running whether the execution is under way */
export const isUnderWay = (call, running) => running && UNDER_WAY.has(call.outcome);

/**
 * Put each call into the first lane that is free when it begins, so that as many lanes are used as calls ran at once, or as
 * are needed to see each of them.
 * @param {Call[]} calls
 * @param {{running?: boolean, nowMs?: number, leastMs?: number}} [state] `nowMs` since the program's start: calls under way last
 *   until then; `leastMs` is the time whose place the narrowest bar takes
 * @returns {{bars: Bar[], lanes: number, endMs: number}} bars in order of their begin
 */
export function layout(calls, {running = false, nowMs = 0, leastMs = 0} = {}) {
  const bars = calls
    .map((call) => ({...call, lane: 0, endMs: isUnderWay(call, running) ? Math.max(nowMs, call.startedMs) : call.startedMs + call.durationMs}))
    .sort((one, other) => one.startedMs - other.startedMs || one.number - other.number);
  const free = /** @type {number[]} */ ([]); // of each lane: when it is free again
  for (const bar of bars) {
    const lane = free.findIndex((at) => at <= bar.startedMs);
    bar.lane = lane < 0 ? free.length : lane;
    free[bar.lane] = isUnderWay(bar, running) ? Infinity : Math.max(bar.endMs, bar.startedMs + leastMs);
  }
  return {bars, lanes: free.length, endMs: Math.max(nowMs, ...bars.map((bar) => bar.endMs), 0)};
}

/** The time whose place the narrowest bar takes, with a pixel beside it. @param {number} endMs @param {number} plot in pixels */
export const leastMsOf = (endMs, plot) => ((NARROWEST + 1) * (endMs || 1)) / plot;

/**
 * Round steps for an axis.
 * @param {number} endMs @param {number} most how many at most
 * @returns {number[]} from 0 on
 */
export function ticks(endMs, most) {
  if (endMs <= 0) return [0];
  const least = endMs / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= least) ?? 10 * power;
  return Array.from({length: Math.floor(endMs / step + 1e-9) + 1}, (_, index) => index * step);
}

/**
 * How much to widen the picture so that calls in a crowded lane can be told apart.
 * @param {Bar[]} bars @param {number} width of the page, in pixels
 */
export function bestZoom(bars, width) {
  const perLane = new Map();
  for (const {lane} of bars) perLane.set(lane, (perLane.get(lane) ?? 0) + 1);
  const needed = (Math.max(0, ...perLane.values()) * 5) / Math.max(1, width);
  return [1, 2, 4, 8, 16].find((zoom) => zoom >= needed) ?? 16;
}

/**
 * The call that an arrow key leads to.
 * @param {Bar[]} bars @param {Bar} from @param {string} key
 * @returns {Bar | undefined}
 */
export function neighbour(bars, from, key) {
  const at = bars.findIndex((bar) => bar.number === from.number);
  if (key === 'ArrowRight') return bars[at + 1];
  if (key === 'ArrowLeft') return bars[at - 1];
  if (key === 'Home') return bars[0];
  if (key === 'End') return bars.at(-1);
  const lane = from.lane + (key === 'ArrowDown' ? 1 : -1);
  const distance = (bar) => Math.abs((bar.startedMs + bar.endMs - from.startedMs - from.endMs) / 2);
  return bars.filter((bar) => bar.lane === lane).sort((one, other) => distance(one) - distance(other))[0];
}

/** Milliseconds that at least one call was under way, and the most that were at once. @param {Bar[]} bars */
export function summary(bars) {
  const edges = bars.flatMap((bar) => [[bar.startedMs, 1], [bar.endMs, -1]]).sort((one, other) => one[0] - other[0] || one[1] - other[1]);
  let [busyMs, open, most, since] = [0, 0, 0, 0];
  for (const [at, change] of edges) {
    if (open > 0) busyMs += at - since;
    since = at;
    open += change;
    most = Math.max(most, open);
  }
  return {busyMs, most};
}
