/**
 * Who is signed in. The token lives in this tab's sessionStorage: cookies would be sent to every port of the host.
 * A new tab asks the others of the same origin for theirs, so that a link can be opened beside the page that has it.
 */
import {ApiError, get, onRefusal, request, setToken} from './api.js';
import {Store, useStore} from './store.js';

const KEPT_AS = 'code-executor.session';
const ANSWER_MS = 150; // other tabs have so long to tell their session
const ENDED = 'Your session has ended. Sign in again to continue where you left off.';
const STILL = 'You are still signed in.';
const KEY = /^[\x21-\x7e]{1,1000}$/; // what a header can carry
const tabs = new BroadcastChannel(KEPT_AS);

/**
 * @typedef {{token: string, caller: string, role: string, expiresAt: string}} Session
 * @typedef {{session: Session | null, who: any, notice: string}} SessionState
 *   `who` is the answer of GET /whoami once it is there; `notice` says why there is no session, or that a link gave none.
 */
const state = new Store(/** @type {SessionState} */ ({session: null, who: null, notice: ''}));

let last = /** @type {string | undefined} */ (undefined); // the caller that was signed in last, in this page

export const current = () => state.value.session;

/** @returns {SessionState} */
export const useSession = () => useStore(state);

/** Take up the session that the link's code gives, that of this tab, or that of another tab. */
export async function restore() {
  onRefusal(() => end(ENDED));
  const code = takeCode();
  const before = code ? read()?.caller : undefined;
  const problem = code ? await signInWithCode(code).then(() => null, explain) : '';
  const others = problem === null || !read() ? await ofOtherTabs() : [];
  tabs.onmessage = ({data}) => hear(data);
  addEventListener('hashchange', followLink);
  if (problem === null) return tellIfAnother(before ?? others.find(({caller}) => caller !== current()?.caller)?.caller);
  // Where tabs are signed in as different callers, nobody is guessed: a link of somebody else may have opened one of them.
  const kept = read() ?? (others.every(({caller}) => caller === others[0].caller) ? (others[0] ?? null) : null);
  if (kept) await begin(kept, problem && `${problem} ${STILL}`);
  else if (problem) end(problem);
  return undefined;
}

/** A link that is pasted into an open tab changes the fragment only; one that no longer works leaves the session as it is. */
async function followLink() {
  const code = takeCode();
  if (!code) return;
  const before = last;
  const left = (error) => tell(current() ? `${explain(error)} ${STILL}` : explain(error));
  await signInWithCode(code).then(() => tellIfAnother(before), left);
}

/** A link may be somebody else's, and what is done from now on would be done in their name. @param {string | undefined} before */
function tellIfAnother(before) {
  const session = current();
  if (session && before && before !== session.caller) tell(`The link signed you in as ${session.caller}, role ${session.role}. Before, you were ${before}.`);
}

/** @returns {Promise<Session[]>} */
function ofOtherTabs() {
  return new Promise((resolve) => {
    const told = /** @type {Session[]} */ ([]);
    tabs.onmessage = ({data}) => data.session && told.push(data.session);
    tabs.postMessage({wanted: true});
    setTimeout(() => resolve(told), ANSWER_MS);
  });
}

/** @param {{wanted?: true, begun?: Session, ended?: string}} message of another tab */
function hear({wanted, begun, ended}) {
  const session = current();
  if (wanted && session) tabs.postMessage({session});
  if (begun && !session && (last ?? begun.caller) === begun.caller) begin(begun); // never as somebody else
  if (ended && ended === session?.token) end('You have signed out.');
}

/** @param {string} code */
export async function signInWithCode(code) {
  await beginHere(await exchange({body: {code}, key: ''}));
}

/** Exchange a key for a session; the key itself is not kept. @param {string} key */
export async function signInWithKey(key) {
  tell('');
  if (!KEY.test(key)) throw new ApiError(401, {code: 'unauthenticated'});
  await beginHere(await exchange({body: {}, key}));
}

export const told = () => state.value.notice;

/** @param {string} notice an empty one takes it away */
export function tell(notice) {
  state.set({...state.value, notice});
}

export async function signOut() {
  const token = current()?.token;
  tabs.postMessage({ended: token});
  end('You have signed out.');
  // Nobody waits for the daemon; where it is away, having forgotten the token has to do.
  await request('DELETE', '/console/sessions', {key: token}).catch(() => {});
}

/** @param {{body: object, key: string}} options @returns {Promise<Session>} */
async function exchange(options) {
  return (await request('POST', '/console/sessions', options)).json();
}

/** Begin a new session; tabs without one take it up, each where it is. @param {Session} session */
async function beginHere(session) {
  tabs.postMessage({begun: session});
  await begin(session);
}

/** @param {Session} session @param {string} [notice] */
async function begin(session, notice = '') {
  last = session.caller;
  sessionStorage.setItem(KEPT_AS, JSON.stringify(session));
  setToken(session.token);
  state.set({session, who: null, notice});
  // The daemon may be away for a moment: the session holds all the same, and the page says that it is away.
  await refresh();
}

/** Read again what the caller may do, when it could not be read or may have changed. */
export async function refresh() {
  const session = current();
  const who = session && (await get('/whoami').catch(() => null));
  if (who && current() === session) state.set({...state.value, who});
}

/** @param {string} notice */
function end(notice) {
  sessionStorage.removeItem(KEPT_AS);
  setToken(null);
  state.set({session: null, who: null, notice});
}

/** @returns {Session | null} */
function read() {
  const session = JSON.parse(sessionStorage.getItem(KEPT_AS) ?? 'null');
  if (!session || Date.parse(session.expiresAt) > Date.now()) return session;
  end(ENDED);
  return null;
}

/** Take the code out of the address at once, so that it is in no history and no screenshot. */
function takeCode() {
  const code = new URLSearchParams(location.hash.slice(1)).get('code');
  if (code) history.replaceState(history.state, '', location.pathname + location.search);
  return code;
}

/** @param {import('./api.js').ApiError} error */
function explain(error) {
  return error.code === 'code_invalid'
    ? 'This link has already been used or has expired. Run code-executor console to get a new one.'
    : error.message;
}
