// Shows an uncaught error as a short trace with nothing but the user's own frames.

import { writeSync } from 'node:fs';
import { inspect } from 'node:util';

import { hintOn } from './hints.mjs';
import { workspaceUrl } from './hooks.mjs';
import { locateSyntaxError } from './syntax.mjs';

const runnerUrl = new URL('.', import.meta.url).href;
const wrappersUrl = `${workspaceUrl}servers/`;

// The last frame may carry what inspect() writes behind it: " {" before properties, "," inside a list.
const frame = /^(?<margin>\s+)at .*?(?<place>[^\s(]+?)\)?(?<suffix>,| \{)?$/;
const excerpt = /^(?:file:\/\/)?(?<file>\/[^\n]*?):(?<line>\d+)\n(?<source>[^]*?\n)(?<caret>\s*\^+)\n+(?<rest>[^]*)$/;
const located = /^\/.*:\d+:\d+$|file:\/\//m;
const missingModule = /^(?:ERR_)?MODULE_NOT_FOUND$/;
const packageName = /.*\/node_modules\/(?<name>(?:@[^/]+\/)?[^/]+)/;

/** @param {string} place */
const isForeign = (place) =>
  place.startsWith('node:') || place.startsWith(runnerUrl) || place === '<anonymous>' || place === 'native';

/**
 * Names the library that a frame is in; undefined for the program's own.
 * @param {string} place
 */
function libraryOf(place) {
  if (place.startsWith(wrappersUrl) || place.startsWith(wrappersUrl.slice('file://'.length))) return 'servers';
  if (/\/workspace\/skills\/\w+\.ts/.test(place)) return 'servers';
  return packageName.exec(place)?.groups?.name;
}

/**
 * Leaves out the frames of Node and of the runner, and shows those of libraries as one line.
 * @param {string} text
 */
function withOwnFrames(text) {
  /** @type {string[]} */
  const kept = [];
  /** @type {string[]} */
  let libraries = [];
  let margin = '';
  const summarize = () => {
    if (libraries.length > 0) {
      const count = libraries.length === 1 ? '1 frame' : `${libraries.length} frames`;
      kept.push(`${margin}… ${count} in ${[...new Set(libraries)].join(', ')}`);
    }
    libraries = [];
  };
  for (const line of text.split('\n')) {
    const found = frame.exec(line)?.groups;
    const library = found && libraryOf(found.place);
    if (!found || !(library || isForeign(found.place))) {
      summarize();
      kept.push(line);
      continue;
    }
    if (library) {
      margin = found.margin;
      libraries.push(library);
    }
    if (found.suffix) {
      summarize();
      kept.push(`${kept.pop() ?? ''}${found.suffix}`);
    }
  }
  summarize();
  return kept.join('\n');
}

/**
 * Adds the column to the place that a compiler reports as `file:LINE`, the source and a caret.
 * @param {string} text
 */
function withColumn(text) {
  const found = excerpt.exec(text)?.groups;
  if (!found) return text;
  const column = found.caret.indexOf('^') + 1;
  return `${found.file}:${found.line}:${column}\n${found.source}${found.caret}\n\n${found.rest}`;
}

/** @param {SyntaxError} error */
function describeSyntaxError(error) {
  const stack = String(error.stack).replace(/^SyntaxError \[ERR_INVALID_TYPESCRIPT_SYNTAX\]/m, 'SyntaxError');
  const text = withOwnFrames(withColumn(stack));
  return located.test(text) ? text : `${locateSyntaxError(error)}${text}`;
}

/** @param {any} error */
function describe(error) {
  if (error instanceof SyntaxError && error.cause === undefined) return describeSyntaxError(error);
  // What such an error has besides its message is in its message.
  const isMissing = error instanceof Error && missingModule.test(error.code ?? '') && error.cause === undefined;
  const text = isMissing ? String(error.stack) : inspect(error, { colors: false });
  return error instanceof Error ? withOwnFrames(text) : `Uncaught ${text}`;
}

/** @param {unknown} error */
export function traceOf(error) {
  try {
    const hint = hintOn(error);
    const trace = describe(error).replaceAll('file:///', '/').trimEnd();
    return hint ? `${trace}\n${hint}` : trace;
  } catch {
    return 'Uncaught error that cannot be shown';
  }
}

/** @param {string} text */
export function printToStderr(text) {
  const bytes = Buffer.from(`${text}\n`);
  for (let written = 0; written < bytes.length; ) {
    try {
      written += writeSync(2, bytes, written);
    } catch (error) {
      // A child that shares the pipe may have made it non-blocking; a full one is tried again until it is read.
      if (error?.code !== 'EAGAIN') return;
    }
  }
}
