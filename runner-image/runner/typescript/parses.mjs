// Prints why a TypeScript file does not parse; prints nothing if it does.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';

try {
  const javaScript = stripTypeScriptTypes(readFileSync(process.argv[2], 'utf8'), { mode: 'transform' });
  const options = { input: javaScript, encoding: /** @type {const} */ ('utf8'), env: {} };
  const { status, stderr } = spawnSync(process.execPath, ['--check', '--input-type=module', '-'], options);
  if (status !== 0) console.log(stderr);
} catch (error) {
  console.log(String(error));
}
