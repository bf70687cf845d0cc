/** A list of executions that stays up to date: read once, changed by events, read again when events were missed. */
import {get, serverNow} from './api.js';
import {useEffect, useMemo, useRef} from './dom.js';
import {asParams, fits, later, newestFirst} from './filters.js';
import {onLive} from './live.js';
import {Store, useStore} from './store.js';

const PAGE = 50;
const MOST_ROWS = 300; // of the newest page, which grows; then it is read again
const SOON_MS = 60;
const AT_MOST_EVERY_MS = 1000; // is the daemon asked, where only it can tell what fits
const AGE_EVERY_MS = 30_000; // rows leave a range that counts from now
const FRESH_MS = 2500; // is a new row marked, as in live.css

/**
 * @typedef {{rows: any[], next: number | null, error: Error | null, loading: boolean}} List
 */
export class ExecutionList {
  #rows = new Map();
  #news = new Map(); // what events told while the list was read
  #next = /** @type {number | null} */ (null);
  #timer = 0;
  #due = 0;
  #readAt = 0;
  #round = 0;
  #limit = PAGE;

  /** @param {import('./filters.js').Filters} filters @param {string | null} before */
  constructor(filters, before) {
    this.filters = filters;
    this.before = before;
    this.store = new Store(/** @type {List} */ ({rows: [], next: null, error: null, loading: true}));
  }

  /** @returns {() => void} stops it */
  start() {
    const stop = onLive((event) => this.#hear(event));
    const ageing = this.filters.range ? setInterval(() => this.#show({}), AGE_EVERY_MS) : 0;
    this.read();
    return () => {
      stop();
      clearInterval(ageing);
      this.#round += 1;
      clearTimeout(this.#timer);
    };
  }

  async read() {
    const round = (this.#round += 1);
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#readAt = Date.now();
    this.#news.clear();
    const limit = this.#limit;
    this.#limit = PAGE;
    this.store.set({...this.store.value, loading: true});
    try {
      const found = await get('/executions', {...asParams(this.filters, serverNow()), before: this.before, limit});
      if (round !== this.#round) return;
      this.#rows = new Map(found.executions.map((execution) => [execution.executionId, execution]));
      this.#next = found.next;
      for (const execution of this.#news.values()) this.#take(execution);
      this.#show({error: null, loading: false});
    } catch (error) {
      if (round === this.#round) this.#show({error, loading: false});
    }
  }

  #hear({name, data}) {
    if (name === 'gap') {
      this.#limit = Math.max(PAGE, this.#rows.size); // what has grown stays as long as it is
      this.#readIn(SOON_MS);
    }
    if (name !== 'execution') return;
    this.#news.set(data.executionId, data);
    if (this.#take(data)) this.#showSoon();
  }

  /** @returns {boolean} whether the list has changed */
  #take(execution) {
    const id = execution.executionId;
    const known = this.#rows.get(id);
    const fit = fits(execution, this.filters, serverNow());
    if (fit === false) return this.#rows.delete(id);
    if (known) this.#rows.set(id, later(known, execution));
    else if (this.before) return false; // an older page gets no new rows
    else if (fit) this.#rows.set(id, execution);
    else this.#readIn(Math.max(SOON_MS, this.#readAt + AT_MOST_EVERY_MS - Date.now()));
    if (this.#rows.size > MOST_ROWS) this.#dropOldest();
    return Boolean(known || fit);
  }

  /** More rows than anybody reads would make the page slow; the list is read again soon, for what follows it. */
  #dropOldest() {
    const oldest = newestFirst(this.#rows.values()).at(-1);
    this.#rows.delete(oldest.executionId);
    this.#readIn(Math.max(SOON_MS, this.#readAt + AT_MOST_EVERY_MS - Date.now()));
  }

  /** What comes again and again does not put it off. */
  #readIn(milliseconds) {
    const due = Date.now() + milliseconds;
    if (this.#timer && this.#due <= due) return;
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => this.read(), milliseconds);
  }

  #showSoon() {
    this.shown ??= setTimeout(() => {
      this.shown = undefined;
      this.#show({});
    }, SOON_MS);
  }

  /** @param {Partial<List>} patch */
  #show(patch) {
    for (const [id, execution] of this.#rows) if (fits(execution, this.filters, serverNow()) === false) this.#rows.delete(id);
    this.store.set({...this.store.value, rows: newestFirst(this.#rows.values()), next: this.#next, ...patch});
  }
}

/** Which rows came while one looked at the same list. */
export class Newcomers {
  #list = /** @type {string | null} */ (null);
  #since = /** @type {Map<string, number>} */ (new Map());

  /** @param {any[]} rows of a list that has been read @param {string} list names it @param {number} now */
  note(rows, list, now) {
    const unknown = list === this.#list ? now : -Infinity; // what another list begins with is not new
    this.#since = new Map(rows.map(({executionId: id}) => [id, (list === this.#list ? this.#since.get(id) : undefined) ?? unknown]));
    this.#list = list;
  }

  /** @param {number} now @returns {Set<string>} ids that are new enough to be marked */
  fresh(now) {
    return new Set([...this.#since].filter(([, since]) => now - since < FRESH_MS).map(([id]) => id));
  }
}

/**
 * @param {import('./filters.js').Filters} filters
 * @param {string | null} before where an older page begins
 * @returns {List & {reload: () => void}}
 */
export function useExecutions(filters, before) {
  const list = useMemo(() => new ExecutionList(filters, before), [JSON.stringify(filters), before]);
  useEffect(() => list.start(), [list]);
  const value = useStore(list.store);
  const shown = useRef(value);
  // The rows of before stay until those of another filter are there.
  if (!value.loading || value.rows.length) shown.current = value;
  return {...shown.current, loading: value.loading, reload: () => list.read()};
}
