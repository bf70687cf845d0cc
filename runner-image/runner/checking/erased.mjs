// Prints a TypeScript file without its types: with everything else at its place, or, if it has syntax that only
// TypeScript knows, translated. Prints nothing if it does not parse.

import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';

const source = readFileSync(process.argv[2], 'utf8');
try {
  process.stdout.write(`placed\n${stripTypeScriptTypes(source, { mode: 'strip' })}`);
} catch {
  try {
    process.stdout.write(`translated\n${stripTypeScriptTypes(source, { mode: 'transform' })}`);
  } catch {
    // Whoever asks hears nothing, and takes nothing for certain.
  }
}
