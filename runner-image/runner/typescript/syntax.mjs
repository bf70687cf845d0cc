// Finds where a module does not parse. V8 keeps that position to itself when a module is imported, but a Node that
// only checks the source prints it.

import { spawnSync } from 'node:child_process';
import { SourceMap } from 'node:module';
import { fileURLToPath } from 'node:url';

// A module is parsed right after it was loaded, so the culprit is among the last ones.
const MODULES_TO_CHECK = 4;

const report = /:(?<line>\d+)\n(?<source>.*)\n(?<caret>\s*\^+)\n\s*(?<message>\S.*)/;
const inlineMap = /\n\/\/# sourceMappingURL=data:application\/json;base64,(?<encoded>\S+)\s*$/;

/** @type {{ url: string, source: string, javaScript: string }[]} */
const loaded = [];

/**
 * @param {string} url
 * @param {string} source
 * @param {string} javaScript
 */
export function rememberModule(url, source, javaScript) {
  loaded.push({ url, source, javaScript });
  if (loaded.length > MODULES_TO_CHECK) loaded.shift();
}

/** @param {string} javaScript */
function check(javaScript) {
  const options = { input: javaScript, encoding: /** @type {const} */ ('utf8'), env: {} };
  const { stderr } = spawnSync(process.execPath, ['--check', '--input-type=module', '-'], options);
  return report.exec(stderr ?? '')?.groups;
}

/**
 * @param {string} javaScript
 * @param {number} line counted from 1
 * @param {number} column counted from 1
 */
function originalPosition(javaScript, line, column) {
  const encoded = inlineMap.exec(javaScript)?.groups?.encoded;
  if (!encoded) return { line, column };
  const map = new SourceMap(JSON.parse(Buffer.from(encoded, 'base64').toString()));
  const origin = map.findOrigin(line, column);
  return 'lineNumber' in origin ? { line: origin.lineNumber, column: origin.columnNumber } : { line, column };
}

/**
 * Returns the place, the source line and a caret, to be shown above the message; empty if no module explains the error.
 * @param {SyntaxError} error
 */
export function locateSyntaxError(error) {
  for (const { url, source, javaScript } of loaded.toReversed()) {
    const found = check(javaScript);
    if (found?.message !== `SyntaxError: ${error.message}`) continue;
    const { line, column } = originalPosition(javaScript, Number(found.line), found.caret.indexOf('^') + 1);
    const sourceLine = source.split('\n')[line - 1] ?? '';
    return `${fileURLToPath(url)}:${line}:${column}\n${sourceLine}\n${' '.repeat(column - 1)}^\n\n`;
  }
  return '';
}
