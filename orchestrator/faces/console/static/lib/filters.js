/** Which executions are wanted, as the address says it and as the API is asked. Pure functions. */

/** Names of the filters, as parameters of the address. */
export const NAMES = ['text', 'outcome', 'state', 'caller', 'language', 'tool', 'range', 'since', 'until'];

const RANGE_MS = {'15m': 15 * 60_000, '1h': 3_600_000, '24h': 86_400_000, '7d': 7 * 86_400_000};

/** @typedef {Record<string, string>} Filters only those that are set */

/** @param {URLSearchParams} query @returns {Filters} */
export function read(query) {
  return Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? '']).filter(([, value]) => value));
}

/** A time of a field, which is the reader's, as the address has it: in UTC. @param {string} local */
export const toUtc = (local) => (isTime(local) ? new Date(local).toISOString().replace('.000Z', 'Z') : '');

/** A time of the address as a field has it. @param {string | undefined} moment */
export function toLocal(moment) {
  if (!isTime(moment)) return '';
  const date = new Date(moment);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, date.getSeconds() ? 19 : 16);
}

/** @param {Filters} filters */
export const isTurnedAround = ({since, until}) => isTime(since) && isTime(until) && Date.parse(until) <= Date.parse(since);

const isTime = (value) => Boolean(value) && !Number.isNaN(Date.parse(value));

/**
 * What a name of a server or tool may have meant that nobody knows.
 * @param {string} text @param {string[]} known names as SERVER and SERVER/TOOL
 * @returns {string[] | null} null when it is known
 */
export function suggestions(text, known) {
  if (!text || !known.length || known.includes(text)) return null;
  const part = text.split('/').pop()?.toLowerCase() ?? '';
  return known.filter((name) => name.toLowerCase().includes(part)).slice(0, 3);
}

/**
 * What the API is asked for; a range counts from now.
 * @param {Filters} filters
 * @param {number} now
 */
export function asParams({range, since, until, ...rest}, now) {
  const moment = (value) => (isTime(value) ? new Date(value).toISOString() : undefined);
  const ranged = RANGE_MS[range] ? new Date(now - RANGE_MS[range]).toISOString() : moment(since);
  return {...rest, since: ranged, until: RANGE_MS[range] ? undefined : moment(until)};
}

/**
 * Whether an execution fits; null where only the daemon can tell.
 * @param {any} execution
 * @param {Filters} filters
 * @param {number} now
 * @returns {boolean | null}
 */
export function fits(execution, filters, now) {
  const {since, until} = asParams(filters, now);
  const at = Date.parse(execution.acceptedAt);
  if (['outcome', 'state', 'caller', 'language'].some((name) => filters[name] && execution[name] !== filters[name])) return false;
  if ((since && at < Date.parse(since)) || (until && at >= Date.parse(until))) return false;
  return filters.text || filters.tool ? null : true;
}

const RANK = {queued: 0, running: 1};

/** @param {any} execution */
export const isUnderWay = (execution) => execution?.state in RANK;

/** The later of two reports of one execution: what has ended does not run again. */
export function later(one, other) {
  if (!one || !other) return one ?? other;
  const rank = (execution) => RANK[execution.state] ?? 2;
  return rank(other) >= rank(one) ? other : one;
}

/** @param {Iterable<any>} executions @returns {any[]} newest first */
export function newestFirst(executions) {
  return [...executions].sort((one, other) => (one.acceptedAt < other.acceptedAt ? 1 : one.acceptedAt > other.acceptedAt ? -1 : 0));
}

/** @param {Iterable<any>} executions @param {string} state */
export const inState = (executions, state) => [...executions].filter((execution) => execution.state === state).length;

/**
 * How busy it is: executions of the last minute, and the median time of those that ended in the last five.
 * @param {Iterable<any>} executions
 * @param {number} now
 */
export function pace(executions, now) {
  let perMinute = 0;
  const times = [];
  for (const {acceptedAt, finishedAt, executionTime} of executions) {
    if (now - Date.parse(acceptedAt) <= 60_000) perMinute += 1;
    if (executionTime !== null && finishedAt && now - Date.parse(finishedAt) <= 5 * 60_000) times.push(executionTime);
  }
  times.sort((one, other) => one - other);
  return {perMinute, medianMs: times.length ? times[Math.floor((times.length - 1) / 2)] : null};
}
