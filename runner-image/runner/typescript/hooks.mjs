// Lets Node run every TypeScript file of the workspace as an ES module, whatever syntax it uses.

import { existsSync, readFileSync, statSync } from 'node:fs';
import { createRequire, registerHooks, stripTypeScriptTypes } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { rememberModule } from './syntax.mjs';

export const workspace = process.cwd();
export const workspaceUrl = `${pathToFileURL(workspace).href}/`;

export const mainPath = join(workspace, 'main.ts');

const warmUpUrl = new URL('./warm-up/', import.meta.url).href;

/** @param {string} url */
const isOurTypeScript = (url) =>
  /\.[mc]?ts$/.test(url) && (url.startsWith(workspaceUrl) || url.startsWith(warmUpUrl));

/** @param {string} path */
const isFile = (path) => existsSync(path) && statSync(path).isFile();

/**
 * Lists the TypeScript files that a specifier may mean when the file it names is not there.
 * @param {string} path
 */
function candidates(path) {
  const asTypeScript = path.replace(/\.(m?)js$/, '.$1ts');
  return asTypeScript === path ? [`${path}.ts`, `${path}/index.ts`] : [asTypeScript];
}

/**
 * Finds the TypeScript file of the workspace that a specifier means, if Node would not find it.
 * @param {string} specifier
 * @param {string | undefined} parentUrl
 * @returns {string | undefined}
 */
function typeScriptFileFor(specifier, parentUrl) {
  if (!/^(\.{0,2}\/|file:)/.test(specifier) && !/^\.{1,2}$/.test(specifier)) return undefined;
  const url = URL.parse(specifier, parentUrl ?? workspaceUrl);
  if (!url?.href.startsWith(workspaceUrl)) return undefined;
  const path = fileURLToPath(url);
  return isFile(path) ? undefined : candidates(path).find(isFile);
}

/**
 * Blanks types out, which keeps every position, and transforms only what needs code of its own (enums, namespaces,
 * parameter properties), with a source map that leads back to the user's lines.
 * @param {string} source
 * @param {string} url
 */
function toJavaScript(source, url) {
  try {
    return stripTypeScriptTypes(source, { mode: 'strip', sourceUrl: url });
  } catch (error) {
    if (error?.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw error;
    process.setSourceMapsEnabled(true);
    return stripTypeScriptTypes(source, { mode: 'transform', sourceMap: true, sourceUrl: url });
  }
}

function installHooks() {
  registerHooks({
    resolve(specifier, context, nextResolve) {
      const path = typeScriptFileFor(specifier, context.parentURL);
      if (path === undefined) return nextResolve(specifier, context);
      return { url: pathToFileURL(path).href, format: 'module', shortCircuit: true };
    },
    load(url, context, nextLoad) {
      if (!isOurTypeScript(url)) return nextLoad(url, context);
      const source = readFileSync(fileURLToPath(url), 'utf8');
      const javaScript = toJavaScript(source, url);
      rememberModule(url, source, javaScript);
      return { format: 'module', source: javaScript, shortCircuit: true };
    },
  });
}

/** Defines what CommonJS modules have, shared by all modules; only the program should ask for `require.main`. */
function defineCommonJsGlobals() {
  const require = createRequire(mainPath);
  const module = { exports: {}, filename: mainPath };
  Object.assign(require, { main: module });
  const globals = { require, module, exports: module.exports, __filename: mainPath, __dirname: dirname(mainPath) };
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }
}

/** Uses the stripper once, without the warning that it is experimental; the program's own warnings are shown. */
function loadStripperQuietly() {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  stripTypeScriptTypes('');
  process.emitWarning = emitWarning;
}

loadStripperQuietly();
installHooks();
defineCommonJsGlobals();
