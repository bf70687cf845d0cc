/** The address decides what is shown, so every view is a link that can be sent. */
import {html} from './dom.js';
import {Store, useStore} from './store.js';

/** @typedef {{path: string, query: URLSearchParams}} Route */

const here = () => ({path: location.pathname, query: new URLSearchParams(location.search)});
const route = new Store(here());
let [hasMoved, headingWanted] = [false, false];

const RETURN_MS = 1500; // in which a page that one comes back to gets its content
const MOVES = ['wheel', 'touchmove', 'keydown', 'pointerdown'];
let returning = /** @type {AbortController | null} */ (null);
let noting = 0;

history.scrollRestoration = 'manual'; // the browser tries it before the content is there
addEventListener('popstate', () => {
  const {state} = history;
  show();
  if (state) returnTo(state.top ?? 0); // a link within the page comes here, too, and has none
});
addEventListener('scroll', () => {
  noting ||= setTimeout(noteTop, 150);
});
for (const move of MOVES) addEventListener(move, () => returning?.abort(), {passive: true});
if (history.state?.top) returnTo(history.state.top); // after a reload

/** Each entry of the history knows how far down one was. */
function noteTop() {
  clearTimeout(noting);
  noting = 0;
  if (!isReturning()) history.replaceState({...history.state, top: Math.round(scrollY)}, '');
}

const isReturning = () => Boolean(returning && !returning.signal.aborted);

/** Go where one was, as soon as there is so much content, unless the reader moves meanwhile. @param {number} top */
function returnTo(top) {
  returning?.abort();
  const attempt = (returning = new AbortController());
  const until = performance.now() + RETURN_MS;
  const go = () => {
    if (attempt.signal.aborted) return;
    if (scrollY !== top) scrollTo(0, top);
    if (performance.now() < until) requestAnimationFrame(go);
    else attempt.abort();
  };
  go();
}

/** A new page begins at its top; one that one comes back to is where it was. */
export function beginAtTop() {
  if (!isReturning()) scrollTo(0, 0);
}

function show() {
  if (location.pathname !== route.value.path) hasMoved = headingWanted = true;
  route.set(here());
}

/** Whether a page that appears should take the focus: after a navigation, and when the one before took it away with it. */
export function wantsFocus() {
  const wanted = headingWanted || (hasMoved && document.activeElement === document.body);
  headingWanted = false;
  return wanted;
}

/** Let the heading of the page that appears next take the focus. */
export function focusHeading() {
  headingWanted = true;
}

/** @returns {Route} */
export const useRoute = () => useStore(route);

/** @param {string} path with its query @param {{replace?: boolean, state?: object}} [options] `state`: what its entry of the history knows */
export function navigate(path, {replace = false, state = {}} = {}) {
  const isNew = path !== location.pathname + location.search;
  if (isNew && replace) history.replaceState({...history.state, ...state}, '', path);
  else if (isNew) {
    returning?.abort();
    noteTop();
    history.pushState(state, '', path);
  }
  show();
}

/**
 * Change some parameters of the address; an empty value takes one away.
 * @param {Record<string, string | number | null | undefined>} patch
 * @param {{replace?: boolean, state?: object}} [options]
 */
export function setQuery(patch, {replace = true, state} = {}) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null || value === undefined || value === '') query.delete(name);
    else query.set(name, String(value));
  }
  const search = query.toString();
  navigate(location.pathname + (search ? `?${search}` : ''), {replace, state});
}

/** A link that the browser also understands: in a new tab, by the middle button, by its context menu. */
export function Link({href, onClick, children, ...rest}) {
  const follow = (event) => {
    onClick?.(event);
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(href);
  };
  return html`<a href=${href} onClick=${follow} ...${rest}>${children}</a>`;
}

/**
 * Match a path with a pattern such as /console/executions/:id.
 * @param {string} pattern @param {string} path
 * @returns {Record<string, string> | null} the named parts
 */
export function match(pattern, path) {
  const [wanted, given] = [pattern, path].map((each) => each.replace(/\/+$/, '').split('/'));
  if (wanted.length !== given.length) return null;
  const params = {};
  for (const [index, part] of wanted.entries()) {
    if (part.startsWith(':')) params[part.slice(1)] = decode(given[index]);
    else if (part !== given[index]) return null;
  }
  return params;
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
