// Notices that a program printed a Promise instead of what it promises. Nothing that it prints is changed, and only a
// Promise that is printed costs anything.

import { inspect } from 'node:util';

import { workspaceUrl } from './hooks.mjs';

/** @type {string | undefined} */
let place;

function note() {
  if (place !== undefined) return;
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 50;
  const frames = String(new Error().stack).split('\n');
  Error.stackTraceLimit = stackTraceLimit;
  const line = frames.map((frame) => frame.split(workspaceUrl)[1]).find((own) => own && !own.startsWith('servers/'));
  place = line ? ` at ${line.replace(/:\d+\)?$/, '')}` : '';
}

export function watchPrintedPromises() {
  /** @type {[string | symbol, (this: Promise<unknown>) => unknown][]} */
  const ways = [
    // inspect() goes on as usual when it gets the value itself.
    [inspect.custom, function () { note(); return this; }],
    ['toString', function () { note(); return '[object Promise]'; }],
    ['toJSON', function () { note(); return { ...this }; }],
  ];
  for (const [name, value] of ways) {
    Object.defineProperty(Promise.prototype, name, { value, writable: true, configurable: true });
  }
}

/** Returns what to tell at the end of the program; undefined if it printed no Promise. */
export function hintOnPrintedPromise() {
  return place === undefined ? undefined : `A Promise was printed${place}: await it first.`;
}
