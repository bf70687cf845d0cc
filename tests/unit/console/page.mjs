/** As much of a browser as the console's modules need while nothing is drawn, and a daemon that answers as it is told. */
import {readFileSync} from 'node:fs';
import {registerHooks} from 'node:module';
import {pathToFileURL} from 'node:url';

const VENDOR = `
export const [h, html, render] = [() => null, () => null, () => null];
export const rendered = [];
export const effects = [];
export const useEffect = (effect) => effects.push(effect);
export const useReducer = () => [0, () => rendered.push(true)];
export const [useCallback, useErrorBoundary, useLayoutEffect, useMemo, useRef, useState] = [];
`;
const VENDOR_URL = `data:text/javascript,${encodeURIComponent(VENDOR)}`;
registerHooks({
  resolve: (name, context, next) => (name === '/console/vendor/htm.js' ? {url: VENDOR_URL, shortCircuit: true} : next(name, context)),
});

class Kept {
  full = false;
  #items = new Map();
  getItem = (name) => this.#items.get(name) ?? null;
  removeItem = (name) => this.#items.delete(name);
  setItem(name, value) {
    if (this.full) throw new DOMException('There is no room.', 'QuotaExceededError');
    this.#items.set(name, String(value));
  }
}

const page = {
  asked: [], // requests, as {what, token}
  answers: {}, // by METHOD /path: those to give one after another; the last one again and again
  ticks: [], // what is done again and again
  vendor: await import(VENDOR_URL),

  /** Return when something is so. */
  async until(condition) {
    for (const end = performance.now() + 20_000; !condition(); ) {
      if (performance.now() > end) throw new Error(`It never came: ${condition}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  },

  /** A stream of events that `send` adds to and `end` ends. */
  events() {
    const stream = {status: 200};
    stream.body = new ReadableStream({
      start(controller) {
        stream.send = (event, data) => controller.enqueue(new TextEncoder().encode(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`));
        stream.end = () => controller.close();
      },
    });
    return stream;
  },
};

Object.assign(globalThis, {
  document: Object.assign(new EventTarget(), {visibilityState: 'visible'}),
  location: new URL('http://localhost/'),
  history: {replaceState() {}},
  sessionStorage: new Kept(),
  addEventListener() {},
  removeEventListener() {},
  requestAnimationFrame: (work) => setTimeout(work, 0),
  cancelAnimationFrame: clearTimeout,
  setInterval: (work) => page.ticks.push(work),
  clearInterval() {},
  async fetch(url, {method, headers}) {
    const what = `${method} ${new URL(url, 'http://localhost').pathname}`;
    page.asked.push({what, token: headers.Authorization?.replace('Bearer ', '') ?? null});
    const given = page.answers[what] ?? [{status: 404, body: {detail: `Nothing is known of ${what}`}}];
    const answer = await (given.length > 1 ? given.shift() : given[0]);
    const {status = 200, body = null} = answer;
    return new Response(typeof body === 'string' || body instanceof ReadableStream || body === null ? body : JSON.stringify(body), {status});
  },
});

const {folder, module: path, expression, names} = JSON.parse(readFileSync(0, 'utf-8'));
const load = (name) => import(pathToFileURL(`${folder}/${name}`));
const ask = new Function('module', 'page', 'load', ...Object.keys(names), `return (async () => { ${expression} })()`);
console.log(JSON.stringify((await ask(await load(path), page, load, ...Object.values(names))) ?? null));
process.exit(0); // tabs listen to each other as long as they live
