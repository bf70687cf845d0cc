/** The daemon's API: each call with the session's token, each refusal as an ApiError. */
import {EventParser} from './sse.js';

export class ApiError extends Error {
  /** @param {number} status @param {{code?: string, title?: string, detail?: string, hint?: string}} problem */
  constructor(status, {code, title, detail, hint} = {}) {
    super(detail || title || `The daemon answered with status ${status}.`);
    this.status = status;
    this.code = code ?? 'unknown';
    this.detail = this.message;
    this.hint = hint ?? '';
  }
}

let token = /** @type {string | null} */ (null);
let refused = () => {};
let clockOffset = 0; // what the daemon's clock is ahead of ours, in ms

/** @param {string | null} value */
export function setToken(value) {
  token = value;
}

/** Call this when the token is no longer taken. @param {() => void} callback */
export function onRefusal(callback) {
  refused = callback;
}

/** The daemon's time, for clocks of what began there. */
export function serverNow() {
  return Date.now() + clockOffset;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {{params?: object, body?: any, headers?: Record<string, string>, key?: string, signal?: AbortSignal}} [options]
 * @returns {Promise<Response>} a good one
 */
export async function request(method, path, {params, body, headers = {}, key, signal} = {}) {
  const used = key === undefined ? token : key;
  const response = await reach(path + query(params), {
    method,
    signal,
    headers: {
      ...(used ? {Authorization: `Bearer ${used}`} : {}),
      ...(body === undefined ? {} : {'Content-Type': 'application/json'}),
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: 'no-store',
    credentials: 'omit',
    redirect: 'error',
  });
  noteTime(response.headers.get('Date'));
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  if (response.status === 401 && key === undefined && used === token) refused();
  throw new ApiError(response.status, problem);
}

/** @param {string} path @param {object} [params] */
export const get = async (path, params) => (await request('GET', path, {params})).json();

/** @param {string} path @param {any} body */
export const post = async (path, body) => (await request('POST', path, {body})).json();

/** @param {string} path */
export async function del(path) {
  const response = await request('DELETE', path);
  return response.status === 204 ? null : response.json();
}

/** @param {string} path @param {object} [params] */
export const text = async (path, params) => (await request('GET', path, {params})).text();

/** @param {string} path @param {object} [params] */
export const blob = async (path, params) => (await request('GET', path, {params})).blob();

/**
 * Read a stream of events until it ends.
 * @param {string} method
 * @param {string} path
 * @param {{body?: any, params?: object, lastEventId?: string, signal?: AbortSignal, onOpen?: () => void,
 *   onEvent: (event: import('./sse.js').ServerEvent) => void}} options
 */
export async function stream(method, path, {body, params, lastEventId, signal, onOpen, onEvent}) {
  const headers = {Accept: 'text/event-stream', ...(lastEventId ? {'Last-Event-ID': lastEventId} : {})};
  const response = await request(method, path, {body, params, headers, signal});
  onOpen?.();
  if (!response.body || response.status === 204) return;
  const parser = new EventParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const {done, value} = await reader.read().catch((error) => Promise.reject(signal?.aborted ? error : unreachable()));
    if (done) return;
    for (const event of parser.push(value)) onEvent(event);
  }
}

/** @param {string} url @param {RequestInit} options */
async function reach(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    throw options.signal?.aborted ? error : unreachable();
  }
}

function unreachable() {
  return new ApiError(0, {
    code: 'unreachable',
    detail: 'The daemon does not answer.',
    hint: 'Check whether it is running: make doctor',
  });
}

/** @param {object} [params] what is empty is left out */
function query(params = {}) {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return given.length ? `?${search}` : '';
}

/** @param {string | null} date the header, which counts whole seconds */
function noteTime(date) {
  const offset = date ? Date.parse(date) + 500 - Date.now() : 0;
  clockOffset = Math.abs(offset) > 2000 ? offset : 0;
}
