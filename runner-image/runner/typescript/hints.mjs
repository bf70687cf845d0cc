// Says what to do about an uncaught error, where what is wrong is known; one line, for whoever writes the program.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join, relative, resolve } from 'node:path';

import { mainPath, workspace } from './hooks.mjs';

const NO_NETWORK =
  "A sandbox has no network: call a tool instead. searchTools('what it should do') from " +
  "'/workspace/servers/discovery.js' finds one.";
const IS_PYTHON = 'This looks like Python: set language to "python".';

// What is imported to reach other machines, which no sandbox can.
const forNetworks = new Set([
  ...['@anthropic-ai/sdk', '@aws-sdk/client-s3', 'axios', 'aws-sdk', 'express', 'got', 'ioredis', 'ky', 'minio'],
  ...['mongodb', 'mongoose', 'mysql', 'mysql2', 'needle', 'node-fetch', 'openai', 'pg', 'playwright', 'postgres'],
  ...['puppeteer', 'redis', 'request', 'socket.io-client', 'stripe', 'superagent', 'undici', 'ws'],
]);
const networkErrors = new Set(['EAI_AGAIN', 'ENOTFOUND', 'ENETUNREACH', 'EHOSTUNREACH']);
const MAX_NAMED = 10; // of the files in a folder
const readingTools = ['read_text_file', 'read_file', 'get_file_contents', 'read'];

const python = new RegExp(
  [
    /^[ \t]*(?:async )?def \w+\(/,
    /^[ \t]*from [\w.]+ import /,
    /^[ \t]*import [\w.]+(?: as \w+)?[ \t]*(?:[,#]|$)/,
    /^[ \t]*print\(/,
    /^[ \t]*(?:if|elif|for|while|with|class|try|except|else)\b[^{\n]*:[ \t]*(?:#.*)?$/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'm',
);
const typeScript = new RegExp(
  [
    /^[ \t]*(?:export )?(?:const|let|var|interface|enum|type) +[\w${[]/,
    /^[ \t]*(?:export )?(?:async )?function\b/,
    /^[ \t]*import\b.*\bfrom ['"]/,
    /^[ \t]*\/\//,
    /=>/,
    /\bconsole\.\w+\(/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'm',
);

/**
 * Returns a sentence on the cause of the error, if it is known.
 * @param {any} error
 * @returns {string | undefined}
 */
export function hintOn(error) {
  try {
    if (!(error instanceof Error)) return undefined;
    if (error instanceof SyntaxError) return onMissingExport(error.message) ?? onOtherLanguage();
    if (error instanceof ReferenceError) return onOtherLanguage();
    const { code } = /** @type {{ code?: string }} */ (error);
    if (code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND') return onMissingModule(error.message);
    return onSystemError(error);
  } catch {
    return undefined;
  }
}

function onOtherLanguage() {
  const code = readFileSync(mainPath, 'utf8');
  return python.test(code) && !typeScript.test(code) ? IS_PYTHON : undefined;
}

/** @param {any} error */
function onSystemError(error) {
  const causes = [error, error.cause, ...(error.cause?.errors ?? error.errors ?? [])];
  if (causes.some((cause) => networkErrors.has(cause?.code))) return NO_NETWORK;
  if (error.code !== 'ENOENT' || error.syscall?.startsWith('spawn')) return undefined;
  return onMissingFile(typeof error.path === 'string' ? resolve(error.path) : '');
}

/**
 * Tells what there is where the program looked, or of a server that calls its directory /workspace, too.
 * @param {string} path
 */
function onMissingFile(path) {
  const [given, lasting] = [join(workspace, 'in'), join(workspace, 'files')];
  if (path.startsWith(`${given}/`)) return whatIsIn(given) ?? `${given} is empty: no \`files\` were given.`;
  if (path === lasting || path.startsWith(`${lasting}/`)) {
    if (!existsSync(lasting)) return `${lasting} is there only for executions with a \`workspace\`.`;
    return whatIsIn(lasting) ?? `${lasting} is empty: nothing was left in this workspace yet.`;
  }
  const meant = [given, lasting].map((folder) => join(folder, basename(path)));
  const found = path ? meant.find((each) => existsSync(each)) : undefined;
  if (found) return `There is ${found}.`;
  for (const server of servers()) {
    const tool = readingTools.find((name) => tools(server).includes(name));
    if (tool) {
      return `The sandbox has files of its own: a file of the server '${server}' is read with ${tool} from '${pathOf(server, tool)}'.`;
    }
  }
  return undefined;
}

/**
 * Names the files in a folder, the first ones if there are many.
 * @param {string} folder
 */
function whatIsIn(folder) {
  const entries = existsSync(folder) ? readdirSync(folder, { recursive: true, withFileTypes: true }) : [];
  const names = entries.filter((entry) => entry.isFile()).map((entry) => relative(folder, join(entry.parentPath, entry.name)));
  if (names.length === 0) return undefined;
  const more = names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : '';
  return `${folder} has: ${names.sort().slice(0, MAX_NAMED).join(', ')}${more}.`;
}

/** @param {string} message */
function onMissingExport(message) {
  const found = /requested module '(?<module>[^']+)' does not provide an export named '(?<name>[^']+)'/.exec(message);
  const server = /(?:^|\/)servers\/(?<server>[^/]+)\/[^/]+$/.exec(found?.groups?.module ?? '')?.groups?.server;
  return server && found?.groups ? onMissingTool(server, found.groups.name) : undefined;
}

/** @param {string} message */
function onMissingModule(message) {
  const specifier = /Cannot find (?:package|module) '(?<specifier>[^']+)'/.exec(message)?.groups?.specifier ?? '';
  const wrapper = /^(?:.*\/)?servers(?:\/(?<server>[^/.]+)(?:\/(?<tool>[^/.]+))?)?(?:\.\w+)?$/.exec(specifier)?.groups;
  if (wrapper && (specifier.startsWith(`${workspace}/`) || !specifier.startsWith('/'))) {
    if (!wrapper.server) return `Tools are imported from '${pathOf('SERVER', 'TOOL')}'; ${thereAre(servers())}`;
    return wrapper.tool ? onMissingTool(wrapper.server, wrapper.tool) : onMissingServer(wrapper.server);
  }
  const skill = /^(?:\/workspace|\.)\/skills\/(?<name>[^/.]+)\.\w+$/.exec(specifier)?.groups?.name;
  if (skill) return `There is no skill '${skill}'; ${thereAre(skills())}${meant(skill, skills())}`;
  if (/^[./]/.test(specifier)) return undefined;
  const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
  if (servers().includes(name)) return onMissingServer(name);
  if (forNetworks.has(name)) return NO_NETWORK;
  const packages = installed();
  const there = packages.length > 0 ? `There are: ${packages.join(', ')}.` : 'There are only the modules of Node.js.';
  return `${name} is not in the sandbox, and nothing can be installed.${meant(name, packages)} ${there}`;
}

/** @param {string} server */
function onMissingServer(server) {
  if (!servers().includes(server)) return `There is no server '${server}'; ${thereAre(servers())}${meant(server, servers())}`;
  return `The tools of the server '${server}' are imported from '${pathOf(server, 'index')}'.`;
}

/**
 * @param {string} server
 * @param {string} tool
 */
function onMissingTool(server, tool) {
  if (!servers().includes(server)) return onMissingServer(server);
  const there = tools(server);
  // The tool may be there, but its path may have been written in another way.
  if (there.includes(tool)) return `It is imported from '${pathOf(server, tool)}'.`;
  return `The server '${server}' has no tool '${tool}'; it has: ${there.join(', ')}.${meant(tool, there)}`;
}

/**
 * @param {string} server
 * @param {string} tool
 */
const pathOf = (server, tool) => `/workspace/servers/${server}/${tool}.js`;

/** @param {string[]} names */
const thereAre = (names) => (names.length > 0 ? `there are: ${names.join(', ')}.` : 'there is none.');

const servers = () => namesIn(join(workspace, 'servers'), /^(?!_)\w+$/);

/** @param {string} server */
const tools = (server) =>
  namesIn(join(workspace, 'servers', server), /^[^_].*\.ts$/)
    .map((name) => name.slice(0, -'.ts'.length))
    .filter((name) => name !== 'index');

const skills = () =>
  namesIn(join(workspace, 'skills'), /^[^_].*\.ts$/)
    .map((name) => name.slice(0, -'.ts'.length))
    .filter((name) => name !== 'index');

/** Returns the packages that can be imported, without types and without what came only with another package. */
function installed() {
  const directories = createRequire(mainPath).resolve.paths('any') ?? [];
  const found = directories.flatMap((directory) =>
    namesIn(directory, /^(?![._]|@types$|.*-types$)/)
      .flatMap((name) => (name.startsWith('@') ? namesIn(join(directory, name), /./).map((each) => `${name}/${each}`) : [name]))
      .map((name) => ({ name, path: join(directory, name, 'package.json') })),
  );
  const needed = new Set(found.flatMap(({ path }) => Object.keys(JSON.parse(readFileSync(path, 'utf8')).dependencies ?? {})));
  return found.map(({ name }) => name).filter((name) => !needed.has(name));
}

/**
 * @param {string} directory
 * @param {RegExp} kind
 */
function namesIn(directory, kind) {
  try {
    return readdirSync(directory).filter((name) => kind.test(name)).toSorted();
  } catch {
    return [];
  }
}

/**
 * Names the candidate that is most like a name that is not there.
 * @param {string} name
 * @param {string[]} candidates
 */
function meant(name, candidates) {
  const close = candidates
    .map((candidate) => ({ candidate, likeness: likeness(name.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ likeness }) => likeness >= 0.6)
    .sort((a, b) => b.likeness - a.likeness);
  return close[0] ? ` Did you mean '${close[0].candidate}'?` : '';
}

/**
 * Compares the pairs of letters of two words: 1 if all are the same, 0 if none is.
 * @param {string} first
 * @param {string} second
 */
function likeness(first, second) {
  const pairs = (/** @type {string} */ word) => Array.from({ length: word.length + 1 }, (_, at) => ` ${word} `.slice(at, at + 2));
  const left = pairs(second);
  const shared = pairs(first).filter((pair) => {
    const at = left.indexOf(pair);
    if (at >= 0) left.splice(at, 1);
    return at >= 0;
  });
  return (2 * shared.length) / (first.length + second.length + 2);
}
