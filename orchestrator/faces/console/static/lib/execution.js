/** One execution: what is known of it, what it prints while it runs, and what it printed when it has ended. */
import {get, request, serverNow, stream} from './api.js';
import {useEffect, useMemo} from './dom.js';
import {isUnderWay, later} from './filters.js';
import {onLive, useLive} from './live.js';
import {Store, useStore} from './store.js';
import {whileHidden, whileVisible} from './visibility.js';

const SHOW_EVERY_MS = 50;
const PAUSE_MS = 700;
const LONGEST_PAUSE_MS = 8000;
const BYTES = new TextEncoder();

/**
 * @typedef {{
 *   execution: any, error: Error | null, images: any[], chunks: {stream: string, text: string}[], streamed: boolean, complete: boolean,
 * }} Watched
 *   `chunks` grows at its end; `streamed` says that they came while it ran, so that their order is the program's; `complete` that
 *   nothing more comes.
 */
export class Watch {
  #abort = new AbortController();
  #lastEventId = '';
  #timer = 0;
  #isRunning = false;
  #failures = 0; // one after another
  #endPause = () => {};

  /** @param {string} id */
  constructor(id) {
    this.id = id;
    this.store = new Store(/** @type {Watched} */ ({execution: null, error: null, images: [], chunks: [], streamed: false, complete: false}));
    this.printed = {stdout: 0, stderr: 0}; // bytes
    this.news = /** @type {Map<number, any> | undefined} */ (undefined); // its tool calls, as events told them
    this.startedAt = /** @type {number | undefined} */ (undefined);
  }

  /** @returns {() => void} stops it */
  start() {
    const stop = onLive(({name}) => {
      if (name !== 'gap') return;
      this.#endPause(); // the daemon is back
      if (isUnderWay(this.store.value.execution)) this.#read().catch(() => {});
    });
    this.#run();
    return () => {
      stop();
      clearTimeout(this.#timer);
      this.#abort.abort();
    };
  }

  /** @param {any} execution what another request told of it */
  take(execution) {
    const {output, stderr, images, ...facts} = execution;
    const known = this.store.value.execution;
    // An answer may come later than an event that tells more.
    this.#change({execution: later(known, {...known, ...facts}), images: images ?? this.store.value.images});
  }

  /** Try again: after the error that ended it, or now rather than after the pause. */
  retry() {
    if (this.#isRunning) this.#endPause();
    else this.#run();
  }

  async #run() {
    this.#isRunning = true;
    await this.#watch(this.#abort.signal);
    this.#isRunning = false;
  }

  /** Return once everything is here, or when there is no point in trying again. @param {AbortSignal} signal */
  async #watch(signal) {
    while (!signal.aborted) {
      try {
        const execution = await this.#read();
        if (!isUnderWay(execution)) return await this.#readOutput(execution);
        const wasHidden = await whileVisible(signal, (attempt) => this.#follow(attempt.signal));
        if (!isUnderWay(this.store.value.execution)) return this.#change({complete: true});
        if (wasHidden) {
          await whileHidden(signal);
          continue;
        }
      } catch (error) {
        if (signal.aborted) return undefined;
        // While the daemon is away the banner says so, and what is here stays.
        if (error.status || !this.store.value.execution) this.#change({error});
        if (error.status && !mayPass(error)) return undefined;
        this.#failures += 1;
      }
      await this.#pause(Math.min(LONGEST_PAUSE_MS, PAUSE_MS * 2 ** Math.max(0, this.#failures - 1)));
    }
    return undefined;
  }

  async #pause(milliseconds) {
    await new Promise((resolve) => {
      this.#endPause = resolve;
      setTimeout(resolve, milliseconds);
    });
    this.#endPause = () => {};
  }

  async #read() {
    const told = await get(`/executions/${encodeURIComponent(this.id)}`, {length: 1});
    // An error of the events or of the output stays until they work: taken away here, it would flicker.
    if (!this.store.value.execution) this.#change({error: null});
    this.take(told);
    return this.store.value.execution;
  }

  /** Read the events until the result. @param {AbortSignal} signal */
  async #follow(signal) {
    this.#change({streamed: true});
    await stream('GET', `/executions/${encodeURIComponent(this.id)}/events`, {
      lastEventId: this.#lastEventId,
      signal,
      onOpen: () => {
        this.#failures = 0;
        this.#change({error: null});
      },
      onEvent: ({name, id, data}) => {
        if (id) this.#lastEventId = id;
        if (name === 'stdout' || name === 'stderr') this.#print(name, data.text);
        if (name === 'started' || name === 'heartbeat') this.#noteState(data);
        if (name === 'result') this.take(data);
        this.#showSoon();
      },
    });
  }

  /** @param {'stdout' | 'stderr'} stream @param {string} text */
  #print(stream, text) {
    const {chunks, execution} = this.store.value;
    chunks.push({stream, text});
    const field = stream === 'stdout' ? 'outputBytes' : 'stderrBytes';
    this.printed[stream] += BYTES.encode(text).length;
    this.store.value.execution = {...execution, [field]: Math.max(execution[field], this.printed[stream])};
  }

  #noteState({position}) {
    const {execution} = this.store.value;
    if (position === 0 && execution?.state === 'queued') this.#change({execution: {...execution, state: 'running'}});
  }

  /** Read what an execution printed that has ended; what came as events is there already. */
  async #readOutput({outputBytes, stderrBytes}) {
    const {stdout, stderr} = this.printed;
    if (this.store.value.streamed && stdout === outputBytes && stderr === stderrBytes) return this.#change({error: null, complete: true});
    const chunks = [];
    this.#change({chunks, streamed: false}); // it ended while nobody looked, so that something is missing
    for (const [name, bytes] of [['stdout', outputBytes], ['stderr', stderrBytes]]) {
      if (!bytes) continue;
      const path = `/executions/${encodeURIComponent(this.id)}/output`;
      const response = await request('GET', path, {params: {stream: name}, signal: this.#abort.signal});
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let {done, value} = await reader.read(); !done; {done, value} = await reader.read()) {
        chunks.push({stream: name, text: value});
        this.#showSoon();
      }
    }
    return this.#change({error: null, complete: true});
  }

  #showSoon() {
    this.#timer ||= setTimeout(() => this.#change({}), SHOW_EVERY_MS);
  }

  /** @param {Partial<Watched>} patch */
  #change(patch) {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.store.set({...this.store.value, ...patch});
  }
}

/** Whether a refusal is about now: too much at once, or a fault of the daemon. @param {{status: number}} error */
const mayPass = ({status}) => status === 429 || status >= 500;

/**
 * @param {string} id
 * @returns {Watched & {calls: any[], startedAt: number, take: (execution: any) => void, retry: () => void}}
 *   `startedAt`: when its program began, by this machine's clock
 */
export function useExecution(id) {
  const watch = useMemo(() => new Watch(id), [id]);
  useEffect(() => watch.start(), [watch]);
  const watched = useStore(watch.store);
  const live = useLive();
  // They are gone there when it has ended, which may be known there before it is here.
  watch.news = live.calls.get(id) ?? watch.news;
  watch.startedAt = live.starts.get(id) ?? watch.startedAt;
  const {news} = watch;
  const {execution} = watched;
  const running = isUnderWay(execution);
  const calls = useMemo(() => callsOf(execution?.toolCalls ?? [], running ? news : null), [execution, running, news?.size, running && live]);
  return {...watched, calls, startedAt: watch.startedAt ?? estimated(execution), take: (told) => watch.take(told), retry: () => watch.retry()};
}

/** What was read, with what events told since. */
function callsOf(read, news) {
  const calls = new Map(read.map((call, number) => [number, {...call, number}]));
  for (const [number, call] of news ?? []) if (!hasEnded(calls.get(number))) calls.set(number, call);
  return [...calls.values()];
}

const hasEnded = (call) => call && call.outcome !== 'in_flight' && call.outcome !== 'never_sent';

/** Until a call tells it: when it was accepted, and what it waited. */
function estimated(execution) {
  if (!execution) return Date.now();
  const {queueMs = 0, startMs = 0} = execution.metrics ?? {};
  return Date.parse(execution.acceptedAt) + queueMs + startMs - (serverNow() - Date.now());
}
