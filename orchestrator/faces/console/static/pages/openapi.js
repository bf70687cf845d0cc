/** The description of the API, as the page shows it. Pure functions. */
import {quoted, spelledOut} from '../lib/curl.js';
import {sample} from './schemas.js';

const METHODS = ['get', 'post', 'put', 'patch', 'delete'];
const JSON_TYPE = 'application/json';
const EVENTS_TYPE = 'text/event-stream';
const BYTES_TYPE = 'application/octet-stream';

/** What the parts of the API are called, by how their paths begin; the first that fits. */
const TOPICS = [
  ['Executions', /^\/execut/],
  ['Files', /^\/files/],
  ['Workspaces', /^\/workspaces/],
  ['Tools', /^\/tools/],
  ['Chat', /^\/chat/],
  ['Console', /^\/(console|events|stats)/],
  ['You and the daemon', /^\//],
];

/**
 * @typedef {{id: string, method: string, path: string, summary: string, description: string, parameters: any[], body: any,
 *   replies: {status: string, description: string, contents: {type: string, schema: any, events: Record<string, any>}[]}[],
 *   errors: {status: string, code: string, hint: string}[], isPublic: boolean, streams: boolean}} Operation
 */

/** @returns {Operation[]} */
export function operationsOf(description) {
  return Object.entries(description.paths).flatMap(([path, methods]) =>
    METHODS.filter((method) => methods[method]).map((method) => operation(method, path, methods[method])),
  );
}

function operation(method, path, told) {
  const [type, content] = Object.entries(told.requestBody?.content ?? {})[0] ?? [];
  const answers = Object.entries(told.responses ?? {}).sort(([one], [other]) => one.localeCompare(other));
  const replies = answers.filter(([status]) => status < '400').map(([status, reply]) => replyOf(status, reply));
  return {
    id: told.operationId,
    method: method.toUpperCase(),
    path,
    summary: told.summary ?? '',
    description: told.description ?? '',
    parameters: told.parameters ?? [],
    body: type ? {type, schema: content.schema ?? {}} : null,
    replies,
    errors: answers.filter(([status]) => status >= '400').flatMap(([status, reply]) => errorsOf(status, reply.description)),
    isPublic: Array.isArray(told.security) && told.security.length === 0,
    streams: replies.some((reply) => reply.contents.some((each) => each.type === EVENTS_TYPE)) && !replies.some((reply) => reply.contents.some((each) => each.type === JSON_TYPE)),
  };
}

function replyOf(status, reply) {
  const contents = Object.entries(reply.content ?? {}).map(([type, content]) => ({
    type,
    schema: content.schema ?? {},
    events: content['x-events'] ?? {},
  }));
  return {status, description: reply.description ?? '', contents};
}

/** A description such as "- `not_found`: Check the id." names each error and what to do; other texts have no code. */
export function errorsOf(status, description) {
  const lines = String(description ?? '').split('\n').filter((line) => line.trim());
  return lines.map((line) => {
    const [, code, hint] = /^-\s*`([^`]+)`:?\s*(.*)$/.exec(line) ?? [null, '', line];
    return {status, code, hint};
  });
}

/** The operations by topic, in the order of the description. */
export function topicsOf(operations) {
  const topics = new Map();
  for (const each of operations) {
    const [name] = TOPICS.find(([, paths]) => paths.test(each.path));
    topics.set(name, [...(topics.get(name) ?? []), each]);
  }
  return TOPICS.map(([name]) => name).filter((name) => topics.has(name)).map((name) => ({name, id: anchor(name), operations: topics.get(name)}));
}

const anchor = (name) => name.toLowerCase().replace(/[^a-z]+/g, '-');

/** Errors that nearly every operation has, told once instead of each time. */
export function commonErrors(operations) {
  const counted = new Map();
  for (const {errors, isPublic} of operations) {
    if (isPublic) continue;
    for (const error of errors) counted.set(error.code, {error, times: (counted.get(error.code)?.times ?? 0) + 1});
  }
  const secured = operations.filter((each) => !each.isPublic).length;
  return [...counted.values()].filter(({times}) => times >= secured * 0.9).map(({error}) => error);
}

/** Operations in whose path, summary or errors every word of a text occurs. */
export function matching(operations, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return operations.filter(({method, path, summary, errors}) => {
    const told = [method, path, summary, ...errors.map(({code}) => code)].join(' ').toLowerCase();
    return words.every((word) => told.includes(word));
  });
}

/** Every code of an error once, by the alphabet, with the operations that have it. */
export function errorIndex(operations) {
  const index = new Map();
  for (const operation of operations) {
    for (const {code, status} of operation.errors.filter((error) => error.code)) {
      const entry = index.get(code) ?? {code, statuses: new Set(), operations: []};
      entry.statuses.add(status);
      if (!entry.operations.includes(operation)) entry.operations.push(operation);
      index.set(code, entry);
    }
  }
  return [...index.values()]
    .map((entry) => ({...entry, statuses: [...entry.statuses].sort()}))
    .sort((one, other) => one.code.localeCompare(other.code));
}

/** What the form of an operation starts with. */
export function initialForm(operation, root) {
  const values = Object.fromEntries(operation.parameters.map((parameter) => [formKey(parameter), '']));
  const body = operation.body && operation.body.type === JSON_TYPE ? JSON.stringify(sample(operation.body.schema, root), null, 2) : '';
  return {values, body};
}

export const formKey = ({in: place, name}) => `${place}.${name}`;

/** Which required parameters have no value. */
export function missingValues(operation, values) {
  return operation.parameters.filter((parameter) => parameter.required && !values[formKey(parameter)]?.trim()).map(({name}) => name);
}

/** The request that a form describes: address, headers, and body as a text. */
export function requestOf(operation, {values, body}) {
  const given = operation.parameters.filter((parameter) => values[formKey(parameter)]?.trim());
  const valueOf = (parameter) => values[formKey(parameter)].trim();
  let path = operation.path;
  const search = new URLSearchParams();
  const headers = {};
  for (const parameter of given) {
    if (parameter.in === 'path') path = path.replace(`{${parameter.name}}`, inPath(valueOf(parameter)));
    else if (parameter.in === 'query') for (const value of listed(parameter, valueOf(parameter))) search.append(parameter.name, value);
    else if (parameter.in === 'header') headers[parameter.name] = valueOf(parameter);
  }
  if (operation.body) headers['Content-Type'] = operation.body.type;
  if (operation.streams) headers.Accept = EVENTS_TYPE;
  const query = search.toString();
  return {method: operation.method, path: query ? `${path}?${query}` : path, headers, body: operation.body ? body : null};
}

// A name with folders keeps its slashes.
const inPath = (value) => value.split('/').map(encodeURIComponent).join('/');

const listed = (parameter, value) => (parameter.schema?.type === 'array' ? value.split('\n').map((each) => each.trim()).filter(Boolean) : [value]);

/** The same request for a shell; the key comes from its environment. */
export function curlOf(origin, request, isPublic) {
  const parts = ['curl'];
  if (request.method !== 'GET') parts.push(`-X ${request.method}`);
  if (request.headers.Accept === EVENTS_TYPE) parts.push('-N');
  if (!isPublic) parts.push('-H "Authorization: Bearer $CODE_EXECUTOR_KEY"');
  for (const [name, value] of Object.entries(request.headers)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (request.body !== null) parts.push(request.headers['Content-Type'] === BYTES_TYPE ? '--data-binary @FILE' : `--data ${quoted(spelledOut(request.body))}`);
  parts.push(quoted(origin + request.path));
  return parts.join(' \\\n  ');
}
