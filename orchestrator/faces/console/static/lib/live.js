/**
 * What happens now: one stream of events for the whole application, and what is known by them.
 * It reconnects by itself and takes up after the last event; `gap` tells readers that something may be missing.
 */
import {get, stream} from './api.js';
import {isUnderWay, later} from './filters.js';
import {Store, useStore} from './store.js';
import {whileHidden, whileVisible} from './visibility.js';

const MOST_EXECUTIONS = 1000;
const MOST_CALLS = 2000; // of one execution
const SILENCE_MS = 60_000; // the daemon sends heartbeats; without any, the connection is dead
const NOTIFY_MS = 50;

/**
 * @typedef {{
 *   connection: 'connecting' | 'open' | 'lost',
 *   refusal: import('./api.js').ApiError | null,
 *   load: {running: number, waiting: number, warm: number, sandboxes: number, ready: boolean, problem: string | null} | null,
 *   servers: Map<string, {server: string, state: string, tools: number, problem: string | null}>,
 *   executions: Map<string, any>,
 *   listed: boolean,
 *   calls: Map<string, Map<number, any>>,
 *   starts: Map<string, number>,
 * }} Live
 *   `refusal` says why the daemon gave no stream, where it answered; `executions` has the newest ones by id, and `listed` says that
 *   they could be read; `calls` has the tool calls of those under way by execution and number, `starts` when their programs began, by
 *   this machine's clock.
 */

/** @returns {Live} */
const nothing = () => ({
  connection: 'connecting',
  refusal: null,
  load: null,
  servers: new Map(),
  executions: new Map(),
  listed: false,
  calls: new Map(),
  starts: new Map(),
});

const live = new Store(nothing());
const listeners = new Set();
let connection = /** @type {AbortController | null} */ (null);
let lastEventId = '';
let notifying = 0;
let retryNow = () => {};

/** @returns {Live} */
export const useLive = () => useStore(live);

/**
 * Hear of each event as it comes.
 * @param {(event: {name: string, data: any}) => void} listener
 * @returns {() => void} stops it
 */
export function onLive(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Keep connected until `disconnect`. */
export function connect() {
  disconnect();
  connection = new AbortController();
  stayConnected(connection.signal);
}

export function disconnect() {
  connection?.abort();
  connection = null;
  lastEventId = '';
  live.set(nothing());
}

/** Try now rather than after the pause. */
export const tryNow = () => retryNow();

/** @param {AbortSignal} signal */
async function stayConnected(signal) {
  for (let failures = 0; !signal.aborted; ) {
    await whileHidden(signal);
    let refusal = null;
    try {
      const wasHidden = await whileVisible(signal, (attempt) => follow(attempt, () => (failures = 0)));
      if (wasHidden) continue;
    } catch (error) {
      if (error.status === 401) return; // the session has ended, and its end disconnects
      if (error.status) refusal = error;
    }
    if (signal.aborted) return;
    if (document.visibilityState === 'visible') change({connection: 'lost', refusal});
    failures += 1;
    await pause(Math.min(8000, 250 * 2 ** failures) * (0.75 + Math.random() / 2), signal);
  }
}

/** Read events until the connection ends. @param {AbortController} attempt @param {() => void} onOpen */
async function follow(attempt, onOpen) {
  const stop = () => attempt.abort();
  let silence = setTimeout(stop, SILENCE_MS);
  try {
    await stream('GET', '/events', {
      lastEventId,
      signal: attempt.signal,
      onOpen: () => {
        onOpen();
        change({connection: 'open', refusal: null});
        take({name: 'gap', id: '', data: {}}); // whatever came while there was no connection
      },
      onEvent: (event) => {
        clearTimeout(silence);
        silence = setTimeout(stop, SILENCE_MS);
        take(event);
      },
    });
  } finally {
    clearTimeout(silence);
  }
}

/** @param {import('./sse.js').ServerEvent} event */
function take(event) {
  const {name, id, data} = event;
  if (id) noteId(id);
  if (name === 'load') change({load: data});
  else if (name === 'server') live.value.servers.set(data.server, data);
  else if (name === 'execution') noteExecution(data);
  else if (name === 'tool_call') noteCall(data);
  else if (name === 'gap') readAgain();
  for (const listener of [...listeners]) listener(event);
  notify();
}

/** @param {string} id EPOCH-NUMBER; another epoch is another life of the daemon, which tells everything anew */
function noteId(id) {
  const isAnother = lastEventId && lastEventId.split('-')[0] !== id.split('-')[0];
  if (isAnother) change({servers: new Map(), calls: new Map(), starts: new Map()});
  lastEventId = id;
}

/** @param {any} execution */
function noteExecution(execution) {
  const {executions} = live.value;
  const id = execution.executionId;
  const known = later(executions.get(id), execution); // a list may have been read before an event that came first
  executions.delete(id); // the map is in order of the last news
  executions.set(id, known);
  if (!isUnderWay(known)) forgetCalls(id);
  if (executions.size <= MOST_EXECUTIONS) return;
  const oldest = executions.keys().next().value;
  executions.delete(oldest);
  forgetCalls(oldest);
}

/** @param {string} id of an execution whose calls nobody asks for here any more: once it has ended, it tells them itself */
function forgetCalls(id) {
  live.value.calls.delete(id);
  live.value.starts.delete(id);
}

/** @param {any} call */
function noteCall(call) {
  const {executions, calls, starts} = live.value;
  const id = call.executionId;
  if (executions.has(id) && !isUnderWay(executions.get(id))) return;
  const known = calls.get(id) ?? new Map();
  calls.set(id, known);
  // No event comes before what it tells, so the earliest is the best.
  starts.set(id, Math.min(starts.get(id) ?? Infinity, Date.now() - call.startedMs - call.durationMs));
  if (known.has(call.number) || known.size < MOST_CALLS) known.set(call.number, call);
}

async function readAgain() {
  const reader = connection;
  const found = await get('/executions', {limit: 200}).catch(() => null);
  if (reader !== connection) return;
  for (const execution of found?.executions.reverse() ?? []) noteExecution(execution);
  change({listed: found !== null});
}

/** @param {Partial<Live>} patch */
function change(patch) {
  live.value = {...live.value, ...patch};
  notify();
}

/** Tell readers soon: a burst of events is one rendering. */
function notify() {
  if (notifying) return;
  notifying = setTimeout(() => {
    notifying = 0;
    live.set({...live.value});
  }, NOTIFY_MS);
}

/** @param {number} milliseconds @param {AbortSignal} signal */
function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const go = () => {
      clearTimeout(timer);
      removeEventListener('online', go);
      resolve(undefined);
    };
    const timer = setTimeout(go, milliseconds);
    retryNow = go;
    addEventListener('online', go);
    signal.addEventListener('abort', go, {once: true});
  });
}
