/** A value that tells its readers when it changes: session, route, live events and theme are such values. */
import {useEffect, useReducer} from './dom.js';

/** @template T */
export class Store {
  #readers = new Set();

  /** @param {T} value */
  constructor(value) {
    this.value = value;
  }

  /** @param {T} value */
  set(value) {
    this.value = value;
    for (const reader of [...this.#readers]) reader(value);
  }

  /**
   * @param {(value: T) => void} reader
   * @returns {() => void} stops it
   */
  subscribe(reader) {
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  }
}

/**
 * Render again whenever the store changes.
 * @template T
 * @param {Store<T>} store
 * @returns {T}
 */
export function useStore(store) {
  const [, render] = useReducer((count) => count + 1, 0);
  const rendered = store.value;
  useEffect(() => {
    const stop = store.subscribe(render);
    if (store.value !== rendered) render(); // it changed before we listened
    return stop;
  }, [store]);
  return rendered;
}
