// Shows an uncaught error as a short trace with nothing but the user's own frames.

import { writeSync } from 'node:fs';
import { inspect } from 'node:util';

import { locateSyntaxError } from './syntax.mjs';

const runnerUrl = new URL('.', import.meta.url).href;

// The last frame may carry what inspect() writes behind it: " {" before properties, "," inside a list.
const frame = /^\s+at .*?(?<place>[^\s(]+?)\)?(?<suffix>,| \{)?$/;
const excerpt = /^(?:file:\/\/)?(?<file>\/[^\n]*?):(?<line>\d+)\n(?<source>[^]*?\n)(?<caret>\s*\^+)\n+(?<rest>[^]*)$/;
const located = /^\/.*:\d+:\d+$|file:\/\//m;

/** @param {string} place */
const isForeign = (place) =>
  place.startsWith('node:') || place.startsWith(runnerUrl) || place === '<anonymous>' || place === 'native';

/** @param {string} text */
function withoutForeignFrames(text) {
  const kept = [];
  for (const line of text.split('\n')) {
    const { place, suffix } = frame.exec(line)?.groups ?? {};
    if (place === undefined || !isForeign(place)) kept.push(line);
    else if (suffix) kept.push(`${kept.pop() ?? ''}${suffix}`);
  }
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
  const text = withoutForeignFrames(withColumn(stack));
  return located.test(text) ? text : `${locateSyntaxError(error)}${text}`;
}

/** @param {unknown} error */
function describe(error) {
  if (error instanceof SyntaxError && error.cause === undefined) return describeSyntaxError(error);
  const text = inspect(error, { colors: false });
  return error instanceof Error ? withoutForeignFrames(text) : `Uncaught ${text}`;
}

/** @param {unknown} error */
export function traceOf(error) {
  try {
    return describe(error).replaceAll('file:///', '/').trimEnd();
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
